//! The checking mode: after every reference and every event, no TLB holds a translation that could be used wrongly, and
//! the page tables are those of the same run without coalescing.
//!
//! It sits outside the engine: a batch is taken apart, each item run by itself, here and on a twin of the machine whose
//! TLBs hold single pages, and what lies in the arrays and in memory is compared. A machine without it pays one test a
//! batch.

use crate::{
    Ended, Machine, MachineError, Resolved,
    describe::Check,
    host::{Host, PID_BITS},
    story::{Story, WalkEnd, Watch},
};
use mmulab_addr::{Asid, BASE_BYTES, PhysAddr, Pid, Prot, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_kernel::Told;
use mmulab_pagetable::{Format, Invalidate, Leaf, Root};
use mmulab_tlb::{Coalescing, Entry, Observer};
use mmulab_trace::{Batch, Event, Item, Ref, TraceInfo};
use mmulab_walker::{NestedStep, StepRecord, WalkContext};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What is said when only the checked machine has ended.
const GOES_ON: &str = "the run has ended, and goes on without coalescing";
/// Entries of a table frame that share a line.
const LINE_ENTRIES: u64 = 8;

/// Checks a machine as it runs.
pub(crate) struct Checker {
    /// The same machine without coalescing.
    twin: Machine,
    /// Every process that has acted.
    pids: BTreeSet<Pid>,
    log: Log,
    one: Batch,
}

/// What happened during one item.
#[derive(Default)]
struct Log {
    filled: Vec<(usize, Entry)>,
    translated: Option<(VirtAddr, PhysAddr)>,
    /// The kernel did something, or the program dropped a translation.
    acted: bool,
}

impl Log {
    fn clear(&mut self) {
        self.filled.clear();
        self.translated = None;
        self.acted = false;
    }
}

/// The log, and whoever else watches.
struct Beside<'a, W>(&'a mut Log, &'a mut W);

impl<W: Watch> Observer for Beside<'_, W> {
    const ACTIVE: bool = true;

    fn filled(&mut self, array: usize, entry: &Entry) {
        self.0.filled.push((array, *entry));
        self.1.filled(array, entry);
    }

    fn evicted(&mut self, array: usize, entry: &Entry) {
        self.1.evicted(array, entry);
    }

    fn evicted_from(&mut self, array: usize, set: u32, entry: &Entry) {
        self.1.evicted_from(array, set, entry);
    }

    fn invalidated(&mut self, array: usize, entry: &Entry) {
        self.1.invalidated(array, entry);
    }
}

impl<W: Watch> Watch for Beside<'_, W> {
    fn reference(&mut self, story: &Story) {
        self.0.translated = story.seen.pa.map(|pa| (story.va, pa));
        self.1.reference(story);
    }

    fn happened(&mut self, told: &[Told], invalidations: &[Invalidate]) {
        self.0.acted = true;
        self.1.happened(told, invalidations);
    }

    fn invalidated_by_program(&mut self, what: &Invalidate) {
        self.0.acted = true;
        self.1.invalidated_by_program(what);
    }

    fn walked(&mut self, steps: &[StepRecord]) {
        self.1.walked(steps);
    }

    fn walked_nested(&mut self, steps: &[NestedStep]) {
        self.1.walked_nested(steps);
    }

    fn walk_ended(&mut self, ended: &WalkEnd) {
        self.1.walk_ended(ended);
    }

    fn happened_in_host(&mut self, told: &[Told], invalidations: &[Invalidate]) {
        self.0.acted |= !invalidations.is_empty();
        self.1.happened_in_host(told, invalidations);
    }
}

impl Checker {
    /// The checker of a machine of this description.
    pub fn new(desc: &Resolved, has_address_space: bool) -> Result<Self, MachineError> {
        let mut plain = desc.clone();
        plain.machine.tlb_rules.coalescing = Coalescing::None;
        plain.options.check = Check::None;
        Ok(Self {
            twin: Machine::new(Arc::new(plain), has_address_space)?,
            pids: BTreeSet::from([Pid(1)]),
            log: Log::default(),
            one: Batch::default(),
        })
    }

    /// The twin takes a trace as the machine does.
    pub fn take(&mut self, info: &TraceInfo) -> Result<(), MachineError> {
        self.twin.take(info)
    }

    /// Runs a stretch of a trace, an item at a time.
    pub fn run<W: Watch>(&mut self, machine: &mut Machine, batch: &Batch, watch: &mut W) -> Result<(), Ended> {
        for &word in &batch.refs {
            self.one.clear();
            let item = word.item();
            let place = match item {
                Item::Event(index) => {
                    let event = &batch.events[index];
                    if let Event::Switch { pid, .. } = event {
                        self.pids.insert(Pid(pid.0 & ((1 << PID_BITS) - 1)));
                    }
                    self.one.push_event(event.clone());
                    Place::Event(event)
                }
                _ => {
                    self.one.refs.push(word);
                    Place::Reference(machine.references(), word)
                }
            };
            self.log.clear();
            let ran = machine.go(&self.one, &mut Beside(&mut self.log, watch));
            self.twin.run(&self.one);
            let unsound = |what| Ended::Unsound(format!("after {}: {what}", place.text(machine)));
            if let Err(ended) = ran {
                // What ends a run ends it without coalescing too.
                return Err(if self.twin.ended.is_some() { ended } else { unsound(GOES_ON.into()) });
            }
            self.verify(machine, item).map_err(unsound)?;
        }
        Ok(())
    }

    fn verify(&self, machine: &Machine, item: Item) -> Result<(), String> {
        if self.twin.ended.is_some() {
            return Err(format!("without coalescing the run has ended: {:?}", self.twin.ended));
        }
        if let (Some((va, pa)), Some(cx)) = (self.log.translated, machine.context()) {
            let says = Tables::acting(machine, cx).leaf(va).map(|leaf| leaf.translate(va));
            if says != Some(pa) {
                return Err(format!("{va} was translated to {pa}, and the table says {says:?}"));
            }
        }
        let happened = self.log.acted || matches!(item, Item::Event(_));
        if happened {
            self.all_entries(machine)?;
        } else if let Some(cx) = machine.context() {
            for (array, entry) in &self.log.filled {
                sound(Tables::acting(machine, cx), entry).map_err(|why| told(machine, *array, entry, &why))?;
            }
        }
        match item {
            Item::Access(_, va, _) => self.same_path(machine, va, happened),
            Item::Event(_) => {
                self.pids.iter().try_for_each(|&pid| self.same_tables(machine, pid))?;
                self.same_host_tables(machine)
            }
            Item::Retire(_) | Item::Code(_) => Ok(()),
        }
    }

    /// No entry of any core says what the tables do not.
    fn all_entries(&self, machine: &Machine) -> Result<(), String> {
        let mut spaces: BTreeMap<Asid, Tables> = BTreeMap::new();
        for (vm, system) in machine.systems() {
            for context in self.pids.iter().filter_map(|&pid| system.kernel.context(pid)) {
                let asid = machine.host.as_ref().map_or(context.asid, |host| host.tag_of(vm, context.asid));
                let cx = WalkContext { format: context.format, root: context.root, asid };
                spaces.insert(asid, Tables { mem: &system.mem, cx, host: machine.host.as_deref(), vm });
            }
        }
        let mut wrong = Ok(());
        for (core, cpu) in machine.cores.iter().zip(0..) {
            if machine.desc.machine.tlb_rules.asid_bits == 0 {
                // One tag for all: a core holds what the process has that it runs.
                spaces = running(machine, cpu).map(|tables| (tables.cx.asid, tables)).into_iter().collect();
            }
            core.tlbs.each_entry(|array, tag, entry| {
                // A tag that no address space has now is used by nobody; global entries are used by whoever acts.
                let acting = || machine.context().map(|cx| Tables::acting(machine, cx));
                let tables = if entry.global { acting() } else { spaces.get(&tag).copied() };
                if let (Ok(()), Some(tables)) = (&wrong, tables) {
                    wrong = sound(tables, entry).map_err(|why| told(machine, array, entry, &why));
                }
            });
        }
        wrong.and_then(|()| machine.host.as_ref().map_or(Ok(()), |host| held_by_nested_tlbs(host)))
    }

    /// The entries a walk for `va` reads are those of the twin, and with `around` all others of the last table.
    fn same_path(&self, machine: &Machine, va: VirtAddr, around: bool) -> Result<(), String> {
        let (Some(mine), Some(theirs)) = (machine.context(), self.twin.context()) else { return Ok(()) };
        same(mine.root, theirs.root, "the root of the table")?;
        let (mem, twins) = (&machine.system.mem, &self.twin.system.mem);
        let (mut read, mut last) = (Ok(()), None);
        mine.format.path(mem, mine.root, va, |level, at| {
            if read.is_ok() {
                read = differ(mem, twins, level, at);
            }
            last = Some((level, at));
        });
        read?;
        match last {
            Some((level, at)) if around => {
                // Of a tree all of its last table, of others as much around the line.
                let first = PhysAddr(at.0 & !(BASE_BYTES - 1));
                (0..BASE_BYTES / 8).try_for_each(|n| differ(mem, twins, level, PhysAddr(first.0 + n * 8)))
            }
            _ => Ok(()),
        }
    }

    /// All tables of a process are those of the twin.
    fn same_tables(&self, machine: &Machine, pid: Pid) -> Result<(), String> {
        match (machine.system.kernel.context(pid), self.twin.system.kernel.context(pid)) {
            (Some(mine), Some(theirs)) => {
                same(mine.root, theirs.root, "the root of the table")?;
                sweep(&machine.system.mem, &self.twin.system.mem, mine.format, mine.root)
            }
            (mine, theirs) => same(mine.is_some(), theirs.is_some(), "whether the process has a table"),
        }
    }
}

impl Checker {
    /// The tables of the host are those of the twin's.
    fn same_host_tables(&self, machine: &Machine) -> Result<(), String> {
        let (Some(mine), Some(theirs)) = (&machine.host, &self.twin.host) else { return Ok(()) };
        for ((vm, cx), (_, other)) in mine.contexts().zip(theirs.contexts()) {
            same(cx.root, other.root, "the root of the host's table")?;
            sweep(&mine.system.mem, &theirs.system.mem, cx.format, cx.root)
                .map_err(|why| format!("in the host, for virtual machine {vm}: {why}"))?;
        }
        Ok(())
    }
}

/// The tables of the process that a core runs.
fn running(machine: &Machine, cpu: u16) -> Option<Tables<'_>> {
    let kernel = &machine.system.kernel;
    let context = kernel.context(kernel.running(cpu)?)?;
    let vm = machine.host.as_ref().map_or(0, |host| host.at());
    let asid = machine.host.as_ref().map_or(context.asid, |host| host.tag_of(vm, context.asid));
    let cx = WalkContext { format: context.format, root: context.root, asid };
    Some(Tables { mem: &machine.system.mem, cx, host: machine.host.as_deref(), vm })
}

/// What the page tables say of an address space: one table, or a guest's over the host's.
#[derive(Clone, Copy)]
struct Tables<'a> {
    mem: &'a PhysMem,
    cx: WalkContext,
    host: Option<&'a Host>,
    vm: usize,
}

impl<'a> Tables<'a> {
    /// Those of the process that acts.
    fn acting(machine: &'a Machine, cx: WalkContext) -> Self {
        let host = machine.host.as_deref();
        Self { mem: &machine.system.mem, cx, host, vm: host.map_or(0, Host::at) }
    }

    /// The leaf that translates `va`; of two tables the smaller page, with what both grant.
    fn leaf(&self, va: VirtAddr) -> Option<Leaf> {
        let leaf = lookup(self.mem, self.cx, va)?;
        let Some(host) = self.host else { return Some(leaf) };
        let gpa = leaf.translate(va);
        let below = host.leaf_of(self.vm, gpa)?;
        let order = leaf.order.min(below.order);
        let pa = below.translate(VirtAddr::new(gpa.0));
        Some(Leaf {
            pfn: pa.pfn().align_down(order),
            order,
            prot: Prot::from_bits(leaf.prot.bits() & below.prot.bits()),
            dirty: leaf.dirty && below.dirty,
            global: false,
            ..leaf
        })
    }
}

/// Whether the host's tables bear out what nested TLBs hold.
fn held_by_nested_tlbs(host: &Host) -> Result<(), String> {
    let machines: BTreeMap<Asid, usize> = host.contexts().map(|(vm, cx)| (cx.asid, vm)).collect();
    let mut wrong = Ok(());
    for walker in host.walkers() {
        walker.each_held(|tag, gpa, held| {
            let Some(&vm) = machines.get(&tag) else { return };
            let va = VirtAddr::new(gpa.0);
            let says = host.leaf_of(vm, gpa);
            let fits = says.is_some_and(|leaf| {
                leaf.order >= held.order && leaf.translate(va) == held.translate(va) && (leaf.dirty || !held.dirty)
            });
            if wrong.is_ok() && !fits {
                wrong = Err(format!(
                    "a nested TLB holds {held:?} of guest-physical {gpa}, and the host's table says {says:?}"
                ));
            }
        });
    }
    wrong
}

/// Compares all memory of a table.
fn sweep(mine: &PhysMem, theirs: &PhysMem, format: Format, root: Root) -> Result<(), String> {
    let mut all = Ok(());
    format.each_line(mine, root, &mut |level, line| {
        if all.is_ok() && mine.line(line) != theirs.line(line) {
            let entries = (0..LINE_ENTRIES).map(|n| PhysAddr(line.0 + n * 8));
            all = entries.into_iter().try_for_each(|entry| differ(mine, theirs, level, entry));
        }
    });
    all
}

fn differ(mine: &PhysMem, theirs: &PhysMem, level: u8, entry: PhysAddr) -> Result<(), String> {
    let (mine, theirs) = (mine.read(entry), theirs.read(entry));
    if mine == theirs {
        return Ok(());
    }
    Err(format!("the entry of level {level} at {entry} is {mine:#x}, and {theirs:#x} without coalescing"))
}

fn same<T: PartialEq + std::fmt::Debug>(mine: T, theirs: T, what: &str) -> Result<(), String> {
    if mine == theirs { Ok(()) } else { Err(format!("{what} is {mine:?}, and {theirs:?} without coalescing")) }
}

/// What the tables say of `va`.
pub(crate) fn lookup(mem: &PhysMem, cx: WalkContext, va: VirtAddr) -> Option<Leaf> {
    cx.format.find(mem, cx.root, va).map(|found| found.leaf)
}

/// Whether the tables bear an entry out: its frames, no more rights than they grant, and no store without a dirty bit.
fn sound(tables: Tables, entry: &Entry) -> Result<(), String> {
    let end = entry.vpn.0 + entry.order.base_pages();
    let mut vpn = entry.vpn;
    while vpn.0 < end {
        let va = vpn.addr();
        let Some(leaf) = tables.leaf(va) else { return Err(format!("{va} is not mapped")) };
        if leaf.translate(va) != entry.translate(va) {
            return Err(format!("{va} is at {}, the entry says {}", leaf.translate(va), entry.translate(va)));
        }
        // A store through a clean entry reads the table again, and faults there if the right is gone: kernels take the
        // right from clean pages without a flush (FreeBSD, before it promotes them).
        let usable = if entry.dirty { entry.prot } else { entry.prot.without(Prot::W) };
        let excess = Prot::from_bits(usable.bits() & !leaf.prot.bits());
        if excess != Prot::NONE {
            return Err(format!("the table does not grant {excess:?} of {va}"));
        }
        if entry.dirty && entry.prot.has(Prot::W) && !leaf.dirty {
            return Err(format!("a store to {va} would leave its dirty bit clear"));
        }
        vpn.0 = vpn.align_down(leaf.order).0 + leaf.order.base_pages();
    }
    Ok(())
}

fn told(machine: &Machine, array: usize, entry: &Entry, why: &str) -> String {
    let names = machine.cores[0].tlbs.names();
    format!("{} holds {} of {}, {:?}: {why}", names[array], entry.order, entry.vpn.addr(), entry.prot)
}

/// Where in the trace something is.
enum Place<'a> {
    Event(&'a Event),
    Reference(u64, Ref),
}

impl Place<'_> {
    fn text(&self, machine: &Machine) -> String {
        match self {
            Self::Event(event) => format!("{event:?}, before reference {}", machine.references()),
            Self::Reference(index, word) => match word.item() {
                Item::Access(access, va, _) => format!("reference {index} ({access:?} of {va})"),
                _ => format!("what came before reference {index}"),
            },
        }
    }
}

#[cfg(test)]
mod tests;
