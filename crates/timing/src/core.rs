//! The core: the times of each instruction, in program order.

use crate::{
    Block, Stack, TimingDesc, Wait,
    block::{Op, Step},
    branches::Branches,
    desc::Predictor,
    ring::{InOrder, Ring},
    slots::Slots,
    stores::Stores,
    targets::Targets,
};
use mmulab_calendar::Calendar;
use mmulab_dataflow::{Branch, Class, Reg};

/// Bytes of a line of the cache.
const LINE_BYTES: u64 = 64;
/// Most bytes of a store that goes into the cache together with the one before. A Zen 3 writes 1.3 to 2.0 stores of 8
/// bytes in a cycle if neighbours are in one line. It writes 1.0 if they are not, and 1.0 of 16 bytes
/// (docs/results/forecast-causes.md).
const JOINED_BYTES: u64 = 8;

/// What a load or store took. All fields are whole words. A copy of a smaller field may read the word around it, and a
/// processor that has just written a part of a word reads it late.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// The virtual address.
    pub va: u64,
    /// When the second TLB level had answered; when it was issued, if the first level had the translation.
    pub second_level_until: u64,
    /// When its translation was known: not before the second level has answered.
    pub translated: u64,
    /// Which cache level had the last line that its walk read, 0 the first.
    pub walk_by: u64,
    /// When a load's data were there, or a store might write its line: not before the translation is known.
    pub there: u64,
    /// Which cache level had the line, 0 the first.
    pub by: u64,
    /// How often the kernel had to do something: everything after it begins anew.
    pub traps: u64,
}

/// What the fetch of a block took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fetch {
    /// When the second TLB level had answered; when it was asked for, if the first level had the translation.
    pub second_level_until: u64,
    /// When its translation was known: not before the second level has answered.
    pub translated: u64,
    /// When its code was there: not before the translation is known.
    pub there: u64,
}

/// What serves fetches, loads and stores. It is asked in program order; the times it is asked for need not rise.
pub trait Memory {
    /// Why it may end.
    type Error;
    /// Fetches the block that runs next, of `instructions` instructions.
    ///
    /// # Errors
    /// The end of the run.
    fn fetch(&mut self, at: u64, instructions: u64) -> Result<Fetch, Self::Error>;
    /// Makes the next access of the block, a load or a store of `bytes`.
    ///
    /// # Errors
    /// The end of the run.
    fn access(&mut self, at: u64, store: bool, bytes: u64) -> Result<Access, Self::Error>;
    /// Retirement waited `cycles` for the translation of `va`: of an access, or of the block's fetch.
    fn waited(&mut self, va: u64, cycles: u64);
}

/// The accesses of an instruction.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    /// The last to be there, and when it was issued.
    slowest: Access,
    issued: u64,
    /// When the data of its loads are there, and the translations of its stores known.
    loads_ready: u64,
    stores_ready: u64,
    traps: u64,
}

/// A branch whose target is known when the next block begins.
#[derive(Clone, Copy, Debug)]
struct Pending {
    kind: Branch,
    /// Where the instruction behind it lies; this also names the branch.
    next: u64,
    done: u64,
}

/// When and why dispatch could go on.
#[derive(Clone, Copy, Debug, Default)]
struct Front {
    /// The front end was sent elsewhere until then, by a trap or else by a branch.
    redirected: u64,
    by_trap: bool,
    /// The block, and when the second TLB level had answered.
    start: u64,
    second_level_until: u64,
    /// The block's translation was known.
    translated: u64,
    /// Its code was there.
    delivered: u64,
}

/// A core in time.
#[derive(Clone, Debug)]
pub struct Core {
    desc: TimingDesc,
    /// By register: when its value is there. As long as a register's number can say, so that no look is checked.
    ready: [u64; 256],
    dispatch: InOrder,
    retire: InOrder,
    window: Ring,
    load_queue: Ring,
    store_queue: Ring,
    int_registers: Ring,
    vector_registers: Ring,
    fetch_queue: Ring,
    int: Slots,
    mul: Slots,
    vector: Slots,
    load: Slots,
    store: Slots,
    div: Calendar,
    fp_div: Calendar,
    stores: Stores,
    branches: Option<Branches>,
    targets: Option<Targets>,
    pending: Option<Pending>,
    front: Front,
    /// When the next block may be asked for, if it does not follow the last one at once.
    fetch_next: u64,
    /// Where the code behind the last block lies, unless the block always goes elsewhere; and how many blocks, with it,
    /// had their translations known in one cycle.
    behind: Option<u64>,
    at_once: u8,
    /// Nothing is dispatched before: a serial instruction retires.
    floor: u64,
    /// Stores that go into the cache: when the last one did, and its line, if it is a small one.
    drain: InOrder,
    drained_line: Option<u64>,
    /// Stores of the instruction at hand: address, bytes, and when the line may be written.
    at_hand: Vec<(u64, u64, u64)>,
    stack: Stack,
    instructions: u64,
    mispredicted: u64,
    unknown_targets: u64,
}

impl Core {
    /// A core at cycle 0, with nothing in flight.
    pub fn new(desc: &TimingDesc) -> Self {
        let units = &desc.units;
        Self {
            ready: [0; 256],
            dispatch: InOrder::new(desc.width),
            retire: InOrder::new(desc.retire_width),
            window: Ring::new(desc.window),
            load_queue: Ring::new(desc.loads),
            store_queue: Ring::new(desc.stores),
            int_registers: Ring::new(desc.int_registers),
            vector_registers: Ring::new(desc.vector_registers),
            fetch_queue: Ring::new(desc.fetch_ahead),
            int: Slots::new(units.int),
            mul: Slots::new(units.mul),
            vector: Slots::new(units.vector),
            load: Slots::new(units.load),
            store: Slots::new(units.store),
            div: Calendar::new(1),
            fp_div: Calendar::new(1),
            stores: Stores::new(),
            branches: (desc.predictor == Predictor::Perceptron).then(Branches::new),
            targets: desc.branch_targets.as_ref().map(Targets::new),
            pending: None,
            front: Front::default(),
            fetch_next: 0,
            behind: None,
            at_once: 0,
            floor: 0,
            drain: InOrder::new(units.store),
            drained_line: None,
            at_hand: Vec::new(),
            stack: Stack::default(),
            instructions: 0,
            mispredicted: 0,
            unknown_targets: 0,
            desc: desc.clone(),
        }
    }

    /// The cycle in which the last instruction retired.
    pub fn now(&self) -> u64 {
        self.retire.cycle()
    }

    /// Where its cycles went: they add up to [`Core::now`].
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Instructions run.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Branches that were not predicted.
    pub fn mispredicted(&self) -> u64 {
        self.mispredicted
    }

    /// Taken branches that were predicted, but whose target no buffer had.
    pub fn unknown_targets(&self) -> u64 {
        self.unknown_targets
    }

    /// Whether [`Core::pass`] has something to learn.
    pub fn follows_branches(&self) -> bool {
        self.targets.is_some()
    }

    /// `block`, whose first instruction lies at `start`, runs without time: its branch may be found later.
    pub fn pass(&mut self, block: &Block, start: u64) {
        let Some(targets) = &mut self.targets else { return };
        if let Some(Pending { kind, next, .. }) = self.pending.take() {
            targets.look(next, is_taken(kind, next, start));
        }
        let kind = block.steps.last().map_or(Branch::None, |step| step.branch);
        if kind != Branch::None {
            self.pending = Some(Pending { kind, next: start.wrapping_add(block.bytes), done: 0 });
        }
    }

    /// Runs `block`, whose first instruction lies at `start`.
    ///
    /// # Errors
    /// That of the memory; the rest of the block is not run.
    pub fn run<M: Memory>(&mut self, block: &Block, start: u64, memory: &mut M) -> Result<(), M::Error> {
        self.resolve(start);
        self.fetch(start, block.steps.len() as u64, memory)?;
        let (mut ops, mut regs) = (&*block.ops, &*block.regs);
        for (index, step) in block.steps.iter().enumerate() {
            if step.is_fused {
                // The compare before it has its place, its unit and its time.
                self.pending = Some(Pending { kind: step.branch, next: 0, done: self.ready[Reg::FLAGS.index()] });
                continue;
            }
            let (step_ops, step_regs);
            (step_ops, ops) = ops.split_at(usize::from(step.ops));
            (step_regs, regs) = regs.split_at(usize::from(step.registers));
            let (dispatched, waited) = self.dispatch(step);
            if index == 0 {
                self.fetch_queue.take(dispatched);
            }
            let trapped = self.step(step, (step_ops, step_regs), (dispatched, waited), memory)?;
            if trapped {
                self.redirect(self.retire.cycle() + u64::from(self.desc.mispredict_cycles), true);
            }
        }
        self.instructions += block.steps.len() as u64;
        let behind = start.wrapping_add(block.bytes);
        let mut goes_on = block.bytes > 0;
        if let Some(pending) = &mut self.pending {
            pending.next = behind;
            goes_on &= pending.kind == Branch::Conditional;
        }
        self.behind = goes_on.then_some(behind);
        Ok(())
    }

    /// `count` instructions of which nothing is known, and which wait for nothing: they take a place each.
    pub fn idle(&mut self, count: u64) {
        let before = self.retire.cycle();
        let cycles = self.desc.width.min(self.desc.retire_width).cycles_of(count);
        let dispatched = self.dispatch.take(self.front.delivered.max(self.floor));
        let retired = self.retire.take(self.retire.cycle().max(dispatched) + cycles);
        self.floor = self.floor.max(retired);
        self.stack.add(Wait::Work, retired - before);
        self.instructions += count;
    }

    /// It is `to` now, and nothing is in flight. What passed in between is no part of the stack.
    pub fn jump(&mut self, to: u64) {
        let to = to.max(self.now());
        self.retire.take(to);
        self.dispatch.take(to);
        self.pending = None;
        self.floor = self.floor.max(to);
        self.fetch_next = self.fetch_next.max(to);
        self.front.delivered = self.front.delivered.max(to);
        if to > self.drain.cycle() {
            self.drain.take(to);
        }
    }

    /// The branch before has gone to `target`.
    fn resolve(&mut self, target: u64) {
        let Some(Pending { kind, next, done }) = self.pending.take() else { return };
        let taken = is_taken(kind, next, target);
        let found = self.targets.as_mut().map_or(Some(0), |targets| targets.look(next, taken));
        let right = match &mut self.branches {
            Some(branches) => branches.predicts(kind, next, (target, next), found.is_some()),
            None => found.is_some() || !taken || kind != Branch::Conditional,
        };
        if !right {
            self.mispredicted += 1;
            self.redirect(done + u64::from(self.desc.mispredict_cycles), false);
        } else if taken {
            match (found, &self.targets) {
                (None, Some(targets)) => {
                    self.unknown_targets += 1;
                    let decoded = self.front.delivered + targets.decode_cycles();
                    if decoded > self.front.redirected {
                        (self.front.redirected, self.front.by_trap) = (decoded, false);
                    }
                    self.fetch_next = self.fetch_next.max(decoded);
                }
                (found, _) => self.fetch_next += found.unwrap_or(0),
            }
        }
    }

    /// The front end begins anew at `at`.
    fn redirect(&mut self, at: u64, by_trap: bool) {
        self.front.redirected = at;
        self.front.by_trap = by_trap;
        self.fetch_next = self.fetch_next.max(at);
        self.floor = self.floor.max(at);
    }

    /// Fetches a block, ahead of dispatch as far as the queue allows.
    #[inline(always)]
    fn fetch<M: Memory>(&mut self, start: u64, instructions: u64, memory: &mut M) -> Result<(), M::Error> {
        // Nothing has sent the front end elsewhere, and there is room in the cycle of the block before.
        let goes_on = self.behind == Some(start) && self.fetch_next == self.front.translated + 1;
        let joins = goes_on && self.at_once < self.desc.fetch_blocks;
        let at = (self.fetch_next - u64::from(joins)).max(self.fetch_queue.available());
        let fetched = memory.fetch(at, instructions)?;
        self.at_once = if fetched.translated == self.front.translated { self.at_once + 1 } else { 1 };
        // Translations come one after the other; lines of code may be in flight at once.
        self.fetch_next = fetched.translated + 1;
        self.front.start = start;
        self.front.second_level_until = fetched.second_level_until;
        self.front.translated = fetched.translated;
        self.front.delivered = fetched.there.max(self.front.delivered);
        Ok(())
    }

    /// When an instruction is dispatched, and whether it waited for the store queue.
    #[inline(always)]
    fn dispatch(&mut self, step: &Step) -> (u64, bool) {
        let mut earliest = self.front.delivered.max(self.window.available()).max(self.floor);
        if step.loads > 0 {
            earliest = earliest.max(self.load_queue.available());
        }
        if step.ints > 0 {
            earliest = earliest.max(self.int_registers.available());
        }
        if step.vectors > 0 {
            earliest = earliest.max(self.vector_registers.available());
        }
        if step.class == Class::Serial {
            earliest = earliest.max(self.retire.cycle());
        }
        let mut waited = false;
        if step.stores() > 0 {
            let free = self.store_queue.available();
            waited = free > earliest.max(self.dispatch.cycle());
            earliest = earliest.max(free);
        }
        (self.dispatch.take(earliest), waited)
    }

    /// The times of an instruction that was dispatched, with its accesses and its registers; whether it trapped.
    #[inline(always)]
    fn step<M: Memory>(
        &mut self,
        step: &Step,
        (ops, regs): (&[Op], &[Reg]),
        (dispatched, waited): (u64, bool),
        memory: &mut M,
    ) -> Result<bool, M::Error> {
        let (sources, regs) = regs.split_at(usize::from(step.sources));
        let (address, regs) = regs.split_at(usize::from(step.address));
        let (results, bumps) = regs.split_at(usize::from(step.results));
        let begin = dispatched + 1;
        let mut inputs_ready = self.latest(begin, sources);
        let mut made = Made::default();
        let mut bumped = begin;
        if step.has_address() {
            let mut address_ready = self.latest(begin, address);
            if step.class == Class::Atomic {
                address_ready = address_ready.max(self.drain.cycle());
            }
            bumped = address_ready + u64::from(self.desc.bump_cycles);
            if !ops.is_empty() {
                made = self.accesses(ops, address_ready, memory)?;
                inputs_ready = inputs_ready.max(made.loads_ready);
            }
        }

        let done = self.execute(step.class, inputs_ready);
        for &reg in results {
            self.ready[reg.index()] = done;
        }
        for &reg in bumps {
            self.ready[reg.index()] = bumped;
        }
        if step.branch != Branch::None {
            self.pending = Some(Pending { kind: step.branch, next: 0, done });
        }

        let before = self.retire.cycle();
        let retired = self.retire.take(done.max(made.stores_ready));
        if retired > before {
            let Made { slowest, issued, .. } = &made;
            let (fetch, access) = self.account(before, retired, (dispatched, waited), *issued, slowest);
            if fetch > 0 {
                memory.waited(self.front.start, fetch);
            }
            if access > 0 {
                memory.waited(slowest.va, access);
            }
        }
        self.window.take(retired);
        if step.class == Class::Serial {
            self.floor = self.floor.max(retired);
        }
        self.int_registers.take_many(usize::from(step.ints), retired);
        self.vector_registers.take_many(usize::from(step.vectors), retired);
        self.load_queue.take_many(usize::from(step.loads), retired);
        if step.stores() > 0 {
            let mut at_hand = std::mem::take(&mut self.at_hand);
            for (va, bytes, there) in at_hand.drain(..) {
                let drained = self.write(va, bytes, retired.max(there));
                self.store_queue.take(drained);
                self.stores.note(va, bytes, done, drained);
            }
            self.at_hand = at_hand;
        }
        Ok(made.traps > 0)
    }

    /// When a store goes into the cache that may do so at `earliest`. Stores go in order, one in a cycle. Small ones of
    /// one line go together, as many as there are store units.
    #[inline(always)]
    fn write(&mut self, va: u64, bytes: u64, earliest: u64) -> u64 {
        let line = (bytes <= JOINED_BYTES).then_some(va / LINE_BYTES);
        let joins = line.is_some() && line == self.drained_line;
        self.drained_line = line;
        self.drain.take(earliest.max(self.drain.cycle() + u64::from(!joins)))
    }

    /// When the last of these registers is ready, at `begin` at the earliest.
    #[inline(always)]
    fn latest(&self, begin: u64, regs: &[Reg]) -> u64 {
        regs.iter().fold(begin, |latest, reg| latest.max(self.ready[reg.index()]))
    }

    /// Makes the accesses of an instruction whose addresses are ready at `address_ready`. Its stores are at hand then.
    #[inline(always)]
    fn accesses<M: Memory>(&mut self, ops: &[Op], address_ready: u64, memory: &mut M) -> Result<Made, M::Error> {
        let mut made = Made::default();
        self.at_hand.clear();
        for op in ops {
            let at = if op.store { self.store.take(address_ready) } else { self.load.take(address_ready) };
            let bytes = u64::from(op.bytes);
            let mut access = memory.access(at, op.store, bytes)?;
            made.traps += access.traps;
            if op.store {
                self.at_hand.push((access.va, bytes, access.there));
                made.stores_ready = made.stores_ready.max(access.translated);
                access.there = access.translated;
            } else {
                if let Some(ready) = self.stores.ready(at, access.va, bytes) {
                    access.there = ready.max(access.translated) + u64::from(self.desc.forward_cycles);
                    access.by = 0;
                }
                made.loads_ready = made.loads_ready.max(access.there);
            }
            if access.there >= made.slowest.there {
                (made.slowest, made.issued) = (access, at);
            }
        }
        Ok(made)
    }

    /// When an instruction of `class` is done whose inputs are ready at `ready`.
    #[inline(always)]
    fn execute(&mut self, class: Class, ready: u64) -> u64 {
        let latencies = &self.desc.latencies;
        let (begin, cycles) = match class {
            Class::Move => return ready,
            Class::Serial => (ready, latencies.serial),
            Class::Int | Class::Branch => (self.int.take(ready), latencies.int),
            Class::Atomic => (self.int.take(ready), latencies.atomic),
            Class::Mul => (self.mul.take(ready), latencies.mul),
            Class::Div => (self.div.take(ready, u64::from(latencies.div)), latencies.div),
            Class::Vector => (self.vector.take(ready), latencies.vector),
            Class::FpAdd => (self.vector.take(ready), latencies.fp_add),
            Class::FpMul => (self.vector.take(ready), latencies.fp_mul),
            Class::Convert => (self.vector.take(ready), latencies.convert),
            Class::FpDiv => (self.fp_div.take(ready, u64::from(latencies.fp_div / 2)), latencies.fp_div),
        };
        begin + u64::from(cycles)
    }

    /// What retirement waited for from `before` to `retired`, at an instruction that made the accesses of which
    /// `slowest`, issued at `issued`, was the last to be there. The cycles of these that were for translation: of the
    /// fetch, and of that access.
    fn account(
        &mut self,
        before: u64,
        retired: u64,
        (dispatched, waited): (u64, bool),
        issued: u64,
        slowest: &Access,
    ) -> (u64, u64) {
        let mut at = before;
        let (mut fetch, mut access) = (0, 0);
        let stack = &mut self.stack;
        let mut until = |time: u64, wait: Wait| {
            if time > at {
                let to = time.min(retired);
                stack.add(wait, to - at);
                match wait {
                    Wait::FetchSecondLevel | Wait::FetchWalk => fetch += to - at,
                    wait if wait.is_translation() => access += to - at,
                    _ => {}
                }
                at = to;
            }
        };
        if dispatched > before {
            let Front { redirected, by_trap, second_level_until, translated, delivered, .. } = self.front;
            until(redirected.min(dispatched), if by_trap { Wait::Trap } else { Wait::Branch });
            until(second_level_until.min(dispatched), Wait::FetchSecondLevel);
            until(translated.min(dispatched), Wait::FetchWalk);
            until(delivered.min(dispatched), Wait::FetchMiss);
            until(dispatched, if waited { Wait::Stores } else { Wait::Work });
        }
        if slowest.there > 0 {
            until(issued, Wait::Work);
            until(slowest.second_level_until, Wait::SecondLevel);
            until(slowest.translated, Wait::walk(slowest.walk_by));
            until(slowest.there, Wait::data(slowest.by));
        }
        until(retired, Wait::Work);
        (fetch, access)
    }
}

/// Whether a branch goes to `target`, where `next` is the instruction behind it.
#[inline(always)]
fn is_taken(kind: Branch, next: u64, target: u64) -> bool {
    kind != Branch::Conditional || target != next
}
