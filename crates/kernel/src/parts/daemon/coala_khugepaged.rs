//! Daemon *coala-khugepaged*: CoalaKhugepaged of Elastic Translations (paper 3, section IV-C). It promotes to 64 KiB, 2
//! MiB and 32 MiB, in place where part of a range lies together already, and goes by hints.
//!
//! ```text
//! it wakes --> the processes that it serves, in turns, one range each
//!                |  with hints: the next hinted range, the most urgent first
//!                |  without: the next aligned 32 MiB of the address space, or 2 MiB where no more fit
//!                v
//!              does the range pass khugepaged's limits?
//!                v
//!              in place: misplaced pages move to their places in the block that most pages are in (space/assemble.rs)
//!                v  a frame cannot be had
//!              to a fresh block: every page moves; memory is compacted if no block is free
//!                v  no block: it sleeps longer, as khugepaged does
//!              1 GiB, if hints may name it, goes to a free GiB by copy; a hint of a smaller size than the pages in its
//!              range takes them apart first, if the policy says so
//!              all processes are through --> khugepaged's linear scan, for the others
//! ```

use super::scan::copy::{free_block, take_giant};
use super::scan::limits::Limits;
use super::scan::linear::Linear;
use super::scan::pace::{Pace, Scan};
use crate::KernelError;
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::{DaemonSettings, Served};
use crate::parts::traits::{Daemon, Declare, Declares};
use crate::report::counts::{EventKind, Refusal};
use crate::space::assemble::Range;
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Found};
use mmulab_addr::{PageOrder, VirtAddr};
use mmulab_frames::Mobility;
use std::collections::BTreeMap;

/// How far the daemon is with a process.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// The number of the hint that is next.
    hint: u64,
    /// The address that is next: inside that hint, or inside the address space where there are no hints.
    va: u64,
    /// Whether all of it was looked at in this round.
    is_through: bool,
    /// The number of the hint behind the last one whose range was looked at for pages to take apart.
    demoted: u64,
}

/// Result for a range.
enum Looked {
    /// It is as large as it should be already.
    Already,
    /// It was promoted, or must not be.
    Done,
    NoBlock,
}

/// The daemon and the progress of its rounds.
#[derive(Debug)]
pub(crate) struct CoalaKhugepaged {
    pace: Pace,
    limits: Limits,
    defrag: bool,
    /// Which processes it serves.
    served: Served,
    /// Whether hints take larger pages apart.
    demotes: bool,
    /// Whether smart compaction failed since the daemon woke.
    failed: bool,
    /// By the serial number of the address space.
    cursors: BTreeMap<u64, Cursor>,
    /// The serial number of the address space whose turn was last.
    last: u64,
    /// The scan of all other processes.
    others: Linear,
}

impl Part<DaemonSettings<'_>> for CoalaKhugepaged {
    const NAME: &'static str = "coala-khugepaged";
    const ABOUT: &'static str = "That of Elastic Translations: it promotes to 64K, 2M and 32M, in place where part of \
         a range lies together, in the order of hints.";

    /// # Errors
    /// Limits beyond a region, or a scan of nothing.
    fn new(settings: &DaemonSettings) -> Result<Self, Wrong> {
        let limits = Limits::new(settings.desc, settings.enabled)?;
        Ok(Self {
            pace: Pace::new(settings.desc)?,
            limits,
            defrag: settings.desc.defrag,
            served: settings.served,
            demotes: settings.demotes,
            failed: false,
            cursors: BTreeMap::new(),
            last: 0,
            others: Linear::default(),
        })
    }
}

impl Declare for CoalaKhugepaged {
    fn declares(served: Served) -> Declares {
        let how = match served {
            Served::Hinted => "in place, else to a fresh block, by a daemon where hints are, else copy",
            Served::All => "in place, else to a fresh block, by a daemon",
            Served::Enabled => "in place, else to a fresh block, by a daemon where it is turned on, else copy",
        };
        Declares { sizes: &[PageOrder::P64K, PageOrder::P2M, PageOrder::P32M], how, allocation: "" }
    }
}

impl CoalaKhugepaged {
    /// Whether this daemon serves a process, rather than khugepaged's scan.
    fn serves(served: Served, space: &AddressSpace) -> bool {
        match served {
            Served::All => true,
            Served::Hinted => !space.hints.is_empty(),
            Served::Enabled => space.is_switched_on,
        }
    }

    fn scan(&mut self, system: &mut SystemCx, compaction: &mut Compaction) -> Result<Scan, KernelError> {
        let served = self.served;
        while self.pace.goes_on() {
            let Some(slot) = self.next_process(system) else {
                // Everybody was through: the next round begins when the daemon wakes again.
                self.cursors.clear();
                let (pace, limits) = (&mut self.pace, &self.limits);
                return self
                    .others
                    .scan(system, compaction, (pace, limits), self.defrag, |space| !Self::serves(served, space));
            };
            if let Looked::NoBlock = self.turn(system, compaction, slot)? {
                return Ok(Scan::NoBlock);
            }
        }
        Ok(Scan::Done)
    }

    /// The process whose turn it is: the next one behind the last, in the order in which they began.
    fn next_process(&mut self, system: &SystemCx) -> Option<usize> {
        let is_due = |space: &AddressSpace| {
            Self::serves(self.served, space) && !self.cursors.get(&space.serial).is_some_and(|c| c.is_through)
        };
        let due = system.spaces.iter().enumerate().filter_map(|(slot, space)| {
            let space = space.as_ref().filter(|space| is_due(space))?;
            Some((space.serial <= self.last, space.serial, slot))
        });
        let (_, serial, slot) = due.min()?;
        self.last = serial;
        Some(slot)
    }

    /// Looks at ranges of a process until one needed work, or none is left.
    fn turn(&mut self, system: &mut SystemCx, compaction: &mut Compaction, slot: usize) -> Result<Looked, KernelError> {
        while self.pace.goes_on() {
            if self.demotes {
                self.demote(system, slot)?;
            }
            let Some((start, order)) = self.next_range(system, slot) else {
                if self.demotes {
                    self.demote(system, slot)?;
                }
                break;
            };
            let looked = self.look(system, compaction, slot, start, order)?;
            match looked {
                // One entry says that nothing is to be done.
                Looked::Already => self.pace.looked_at(1),
                Looked::Done | Looked::NoBlock => {
                    self.pace.looked_at(order.base_pages());
                    return Ok(looked);
                }
            }
        }
        Ok(Looked::Done)
    }

    /// Takes apart the pages in the ranges of hints that are next which are larger than the hints name.
    fn demote(&mut self, system: &mut SystemCx, slot: usize) -> Result<(), KernelError> {
        let (space, mut cx) = system.at(slot);
        let cursor = self.cursors.entry(space.serial).or_default();
        // A hint of base pages asks for nothing else; the others are promoted before the next one has its turn.
        let mut current = space.hints.next_from(cursor.hint);
        while let Some((number, _)) = current.filter(|(_, hint)| hint.size == PageOrder::P4K) {
            current = space.hints.next_from(number + 1);
        }
        let last = current.map_or(u64::MAX, |(number, _)| number);
        while let Some((number, hint)) = space.hints.next_from(cursor.demoted).filter(|hint| hint.0 <= last) {
            cursor.demoted = number + 1;
            let mut va = hint.start;
            while let Some((start, leaf)) = space.next_leaf(cx.mem, va, hint.end) {
                if leaf.order > hint.size && !cx.memory.is_zero(leaf.pfn) {
                    cx.counts.events.add(EventKind::HintDemoted, 1);
                    space.split(&mut cx, start, leaf)?;
                    continue;
                }
                self.pace.looked_at(1);
                va = start + leaf.order.bytes();
            }
        }
        Ok(())
    }

    /// The next range of a process, and the size that it should get.
    fn next_range(&mut self, system: &SystemCx, slot: usize) -> Option<(u64, PageOrder)> {
        let space = system.spaces[slot].as_ref()?;
        let cursor = self.cursors.entry(space.serial).or_default();
        let next = match space.hints.is_empty() {
            false => hinted(space, cursor),
            true => {
                let has_giant_blocks = system.shared.memory.frames.max_order() >= PageOrder::P32M.get();
                linear(space, cursor, &self.limits, has_giant_blocks)
            }
        };
        cursor.is_through = next.is_none();
        next
    }

    fn look(
        &mut self,
        system: &mut SystemCx,
        compaction: &mut Compaction,
        slot: usize,
        start: u64,
        order: PageOrder,
    ) -> Result<Looked, KernelError> {
        let (space, mut cx) = system.at(slot);
        let Some(span) = space.vmas.find(start).cloned() else {
            cx.refuse(Refusal::HintUnmapped, start);
            return Ok(Looked::Done);
        };
        let why = if span.end - start < order.bytes() {
            Some(Refusal::PromoteOutsideVma)
        } else if !span.value.is_anon() {
            Some(Refusal::HintNotAnonymous)
        } else if !self.limits.is_eligible(&span.value) {
            Some(Refusal::HintNotEligible)
        } else {
            None
        };
        if let Some(why) = why {
            cx.refuse(why, start);
            return Ok(Looked::Done);
        }
        if order == PageOrder::P1G {
            return self.look_at_giant(system, slot, &span.value, start);
        }
        let range = Range { slot, vma: span.value, start, order };
        let Some(survey) = range.survey(system)? else { return Ok(already(system, slot, start, order)) };
        let anchor = range.anchor(system, &survey);
        if anchor.is_some_and(|head| range.is_assembled(&survey, head)) {
            return Ok(already(system, slot, start, order));
        }
        let (space, mut cx) = system.at(slot);
        if !self.limits.is_worth(space, &mut cx, start, order) {
            return Ok(Looked::Done);
        }
        let promoted = match order {
            PageOrder::P64K => EventKind::CoalaPromoted64K,
            PageOrder::P2M => EventKind::CoalaPromoted2M,
            _ => EventKind::CoalaPromoted32M,
        };
        if let Some(head) = anchor {
            match range.promote_in_place(system, survey, head)? {
                Ok(()) => {
                    system.shared.counts.events.add(promoted, 1);
                    hand_on(system, slot, start, order);
                    return Ok(Looked::Done);
                }
                Err(why) => system.refuse(why, start),
            }
        }
        // Memory may have moved meanwhile, and compaction moves more.
        let can_be = order.get() <= system.shared.memory.frames.max_order();
        let is_free = can_be && free_block(system, compaction, order, self.defrag, start);
        let memory = &mut system.shared.memory;
        let head = if is_free { memory.frames.alloc(order, Mobility::Movable, memory.cpu) } else { None };
        let Some(head) = head else {
            system.refuse(Refusal::CoalaNoBlock, start);
            return Ok(Looked::NoBlock);
        };
        let Some(survey) = range.survey(system)? else {
            system.shared.memory.frames.free_run(head, order.base_pages());
            return Ok(already(system, slot, start, order));
        };
        range.promote_whole(system, survey, head)?;
        system.shared.counts.events.add(promoted, 1);
        hand_on(system, slot, start, order);
        Ok(Looked::Done)
    }

    /// A hint of 1 GiB: what is there is copied into a free GiB.
    fn look_at_giant(
        &mut self,
        system: &mut SystemCx,
        slot: usize,
        vma: &Vma,
        start: u64,
    ) -> Result<Looked, KernelError> {
        let order = PageOrder::P1G;
        let (space, mut cx) = system.at(slot);
        if matches!(space.probe(cx.mem, VirtAddr::new(start)), Found::Leaf(leaf) if leaf.order >= order) {
            return Ok(already(system, slot, start, order));
        }
        if !self.limits.is_worth(space, &mut cx, start, order) {
            return Ok(Looked::Done);
        }
        let Some(head) = take_giant(system, self.defrag, &mut self.failed, start) else { return Ok(Looked::Done) };
        let (space, mut cx) = system.at(slot);
        space.collapse_onto(&mut cx, vma, start, head, order)?;
        cx.counts.events.add(EventKind::CoalaPromoted1G, 1);
        hand_on(system, slot, start, order);
        Ok(Looked::Done)
    }
}

/// A range lies together already: faults may have made it page by page.
fn already(system: &mut SystemCx, slot: usize, start: u64, order: PageOrder) -> Looked {
    hand_on(system, slot, start, order);
    Looked::Already
}

/// Hands on the hint that a range goes by, if hints asked for it and its pages lie together.
fn hand_on(system: &mut SystemCx, slot: usize, start: u64, order: PageOrder) {
    let (space, mut cx) = system.at(slot);
    if cx.handed_on.is_some()
        && !space.hints.is_empty()
        && let Some(head) = space.block_of(&cx, VirtAddr::new(start), order)
    {
        cx.hand_on(head, order);
    }
}

/// The next range that hints name: the blocks of the first hint from the lowest on, then those of the second.
fn hinted(space: &AddressSpace, cursor: &mut Cursor) -> Option<(u64, PageOrder)> {
    while let Some((number, hint)) = space.hints.next_from(cursor.hint) {
        let from = if number == cursor.hint { cursor.va } else { 0 };
        // A hint of base pages says that nothing larger is worth while.
        let block = hint.block_from(from).filter(|_| hint.size > PageOrder::P4K);
        if let Some(block) = block {
            (cursor.hint, cursor.va) = (number, block + hint.size.bytes());
            return Some((block, hint.size));
        }
        (cursor.hint, cursor.va) = (number + 1, 0);
    }
    None
}

/// The next range of an address space without hints: 32 MiB where that fits, else 2 MiB.
fn linear(
    space: &AddressSpace,
    cursor: &mut Cursor,
    limits: &Limits,
    has_giant_blocks: bool,
) -> Option<(u64, PageOrder)> {
    loop {
        let span = space.vmas.at_or_above(cursor.va)?;
        let from = span.start.max(cursor.va);
        let fits = |order: PageOrder| {
            let start = from.checked_next_multiple_of(order.bytes())?;
            (start < span.end && span.end - start >= order.bytes()).then_some((start, order))
        };
        let huge = fits(PageOrder::P2M).filter(|_| limits.is_eligible(&span.value));
        let Some((start, order)) = huge else {
            cursor.va = span.end;
            continue;
        };
        let giant = fits(PageOrder::P32M).filter(|giant| has_giant_blocks && giant.0 == start);
        let (start, order) = giant.unwrap_or((start, order));
        cursor.va = start + order.bytes();
        return Some((start, order));
    }
}

impl Daemon for CoalaKhugepaged {
    fn wakes_at(&self) -> u64 {
        self.pace.wakes_at()
    }

    fn wake(&mut self, system: &mut SystemCx, compaction: &mut Compaction, now_ns: u64) -> Result<(), KernelError> {
        self.failed = false;
        let scan = self.scan(system, compaction);
        self.pace.sleep(&scan, now_ns);
        scan.map(drop)
    }
}
