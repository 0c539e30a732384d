//! The checking mode (`--check`). After every reference and event, it checks that no TLB holds a stale translation. It
//! also checks that the page tables equal those of the same run without coalescing.
//!
//! It is outside the engine. It runs each batch one item at a time, on the machine and on a twin whose TLBs hold single
//! pages. It compares the arrays and the memory. A machine without it pays one test a batch.

use super::{
    compare::{differ, same, sweep},
    log::{Beside, Log},
    tables::{Tables, held_by_nested_tlbs, of_cpu, sound},
};
use crate::{
    describe::{Check, Resolved},
    ended::{Ended, MachineError},
    observe::Watch,
    running::Running,
};
use mmulab_addr::{Asid, BASE_BYTES, PhysAddr, Pid, VirtAddr};
use mmulab_interleave::PID_BITS;
use mmulab_tlb::{Coalescing, Entry};
use mmulab_trace::{Batch, Event, Item, Ref, TraceInfo};
use mmulab_walker::WalkContext;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What is said when only the checked machine has ended.
const GOES_ON: &str = "the run has ended, and goes on without coalescing";

/// Checks a machine as it runs.
pub(crate) struct Checker {
    /// The same machine without coalescing.
    twin: Running,
    /// Every process that has acted.
    pids: BTreeSet<Pid>,
    log: Log,
    one: Batch,
}

impl Checker {
    /// The checker of a machine of this description.
    pub fn new(desc: &Resolved, has_address_space: bool) -> Result<Self, MachineError> {
        let mut plain = desc.clone();
        plain.machine.tlb_rules.coalescing = Coalescing::None;
        plain.options.check = Check::None;
        Ok(Self {
            twin: Running::new(Arc::new(plain), has_address_space)?,
            pids: BTreeSet::from([Pid(1)]),
            log: Log::default(),
            one: Batch::default(),
        })
    }

    /// The twin takes a trace as the machine does.
    pub fn take(&mut self, info: &TraceInfo) -> Result<(), MachineError> {
        self.twin.take(info)
    }

    /// Runs a batch, one item at a time.
    pub fn run(
        &mut self,
        machine: &mut Running,
        batch: &Batch,
        mut watch: Option<&mut dyn Watch>,
    ) -> Result<(), Ended> {
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
                    Place::Reference(machine.state().account.references, word)
                }
            };
            self.log.clear();
            let other = watch.as_mut().map(|watch| &mut **watch as &mut dyn Watch);
            let ran = machine.run(&self.one, Some(&mut Beside(&mut self.log, other)));
            self.run_twin();
            let unsound = |what| Ended::Unsound(format!("after {}: {what}", place.text(machine)));
            if let Err(ended) = ran {
                // What ends a run ends it without coalescing too.
                return Err(if self.twin.state().control.ended.is_some() { ended } else { unsound(GOES_ON.into()) });
            }
            self.verify(machine, item).map_err(unsound)?;
        }
        Ok(())
    }

    /// Runs the item on the twin, unless that has ended.
    fn run_twin(&mut self) {
        if self.twin.state().control.ended.is_none()
            && let Err(ended) = self.twin.run(&self.one, None)
        {
            self.twin.state_mut().control.ended = Some(ended);
        }
    }

    fn verify(&self, machine: &Running, item: Item) -> Result<(), String> {
        if self.twin.state().control.ended.is_some() {
            return Err(format!("without coalescing the run has ended: {:?}", self.twin.state().control.ended));
        }
        if let (Some((va, pa)), Some(cx)) = (self.log.translated, machine.state().context()) {
            let says = Tables::acting(machine, cx).leaf(va).map(|leaf| leaf.translate(va));
            if says != Some(pa) {
                return Err(format!("{va} was translated to {pa}, and the table says {says:?}"));
            }
        }
        let happened = self.log.acted || matches!(item, Item::Event(_));
        if happened {
            self.all_entries(machine)?;
        } else if let Some(cx) = machine.state().context() {
            for (array, entry) in &self.log.filled {
                sound(Tables::acting(machine, cx), entry).map_err(|why| describe(machine, *array, entry, &why))?;
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
    fn all_entries(&self, machine: &Running) -> Result<(), String> {
        let mut spaces: BTreeMap<Asid, Tables> = BTreeMap::new();
        for (vm, system) in machine.systems() {
            for context in self.pids.iter().filter_map(|&pid| system.kernel.context(pid)) {
                let asid = machine.host().map_or(context.asid, |host| host.tag_of(vm, context.asid));
                let cx = WalkContext { format: context.format, root: context.root, asid };
                spaces.insert(asid, Tables { mem: &system.mem, cx, host: machine.host(), vm });
            }
        }
        let mut wrong = Ok(());
        for (record, cpu) in machine.state().hardware.cpus.iter().zip(0..) {
            if machine.state().desc.machine.tlb_rules.asid_bits == 0 {
                // One tag for all: a core holds what the process has that it runs.
                spaces = of_cpu(machine, cpu).map(|tables| (tables.cx.asid, tables)).into_iter().collect();
            }
            record.tlbs.each_entry(|array, tag, entry| {
                // A tag that no address space has now is not used; global entries are used by the process that acts.
                let acting = || machine.state().context().map(|cx| Tables::acting(machine, cx));
                let tables = if entry.global { acting() } else { spaces.get(&tag).copied() };
                if let (Ok(()), Some(tables)) = (&wrong, tables) {
                    wrong = sound(tables, entry).map_err(|why| describe(machine, array, entry, &why));
                }
            });
        }
        wrong.and_then(|()| machine.host().map_or(Ok(()), held_by_nested_tlbs))
    }

    /// The entries a walk for `va` reads are those of the twin, and with `around` all others of the last table.
    fn same_path(&self, machine: &Running, va: VirtAddr, around: bool) -> Result<(), String> {
        let (Some(mine), Some(theirs)) = (machine.state().context(), self.twin.state().context()) else {
            return Ok(());
        };
        same(mine.root, theirs.root, "the root of the table")?;
        let (mem, twins) = (&machine.state().system.mem, &self.twin.state().system.mem);
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
    fn same_tables(&self, machine: &Running, pid: Pid) -> Result<(), String> {
        match (machine.state().system.kernel.context(pid), self.twin.state().system.kernel.context(pid)) {
            (Some(mine), Some(theirs)) => {
                same(mine.root, theirs.root, "the root of the table")?;
                sweep(&machine.state().system.mem, &self.twin.state().system.mem, mine.format, mine.root)
            }
            (mine, theirs) => same(mine.is_some(), theirs.is_some(), "whether the process has a table"),
        }
    }

    /// The tables of the host are those of the twin's.
    fn same_host_tables(&self, machine: &Running) -> Result<(), String> {
        let (Some(mine), Some(theirs)) = (machine.host(), self.twin.host()) else { return Ok(()) };
        for ((vm, cx), (_, other)) in mine.contexts().zip(theirs.contexts()) {
            same(cx.root, other.root, "the root of the host's table")?;
            sweep(&mine.system.mem, &theirs.system.mem, cx.format, cx.root)
                .map_err(|why| format!("in the host, for virtual machine {vm}: {why}"))?;
        }
        Ok(())
    }
}

fn describe(machine: &Running, array: usize, entry: &Entry, why: &str) -> String {
    let names = machine.state().hardware.cpus[0].tlbs.names();
    format!("{} holds {} of {}, {:?}: {why}", names[array], entry.order, entry.vpn.addr(), entry.prot)
}

/// Where in the trace something is.
enum Place<'a> {
    Event(&'a Event),
    Reference(u64, Ref),
}

impl Place<'_> {
    fn text(&self, machine: &Running) -> String {
        match self {
            Self::Event(event) => format!("{event:?}, before reference {}", machine.state().account.references),
            Self::Reference(index, word) => match word.item() {
                Item::Access(access, va, _) => format!("reference {index} ({access:?} of {va})"),
                _ => format!("what came before reference {index}"),
            },
        }
    }
}
