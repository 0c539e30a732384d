//! Quicksilver's daemon on FreeBSD's reservations. Sources: Zhu, Cox and Rixner, *A Comprehensive Analysis of Superpage
//! Management Mechanisms and Policies*, USENIX ATC 2020; the published kernel, github.com/rice-systems/quicksilver,
//! `vm_reserv_asyncpromo` in sys/vm/vm_reserv.c.
//!
//! ```text
//! queue of partly used reservations     changed longest ago [ r | r | r | .. | r ] changed last
//!                                         |                                   |
//! evict: those that have not changed  <---'                                   '---> fill: those of private memory with
//! for 5 s: each used page moves to a free                                     at least 64 pages in use: the others are
//! frame elsewhere, and the block is free                                      zeroed, and belong to the memory object
//!
//! a later fault on any page of a filled reservation maps all of it as one page
//! ```
//!
//! The kernel of the simulator learns the time at wakes only. A reservation therefore counts as unchanged for 5 s if it
//! has not changed since a wake that lies 5 s back. Its age is known to within one sleep.

use crate::KernelError;
use crate::clock::ns_of_ms;
use crate::memory::objects::Objects;
use crate::memory::pages::{Page, Use};
use crate::memory::reservations::Partial;
use crate::parts::traits::Daemon;
use crate::report::counts::{EventKind, Refusal};
use crate::space::AddressSpace;
use crate::space::Found;
use crate::space::compaction::Compaction;
use crate::space::migration::{Migration, ReverseMap};
use crate::space::system::SystemCx;
use crate::space::vma::Vma;
use crate::{WorkKind, ranges::Span};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Pfn, VirtAddr};
use mmulab_frames::Mobility;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The size of the reservations that the daemon works on.
const SIZE: PageOrder = PageOrder::P2M;

/// Quicksilver's daemon: it fills reservations that are used enough, and empties those that are not used any more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QuicksilverDesc {
    /// How long it sleeps between two scans, in milliseconds of simulated time (`wakeup_frequency`). Default 1000.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub sleep_ms: u64,
    /// Pages of a reservation in use from which on the daemon zeroes the others (`pop_threshold`). The next fault in
    /// the reservation then maps all of it as one page. Absent: it fills none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 511))]
    pub fill_threshold: Option<u32>,
    /// The most reservations that it fills each time it wakes (`pop_budget`). Default 200000.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub fills_per_wake: u32,
    /// How long a partly used reservation has not changed before its pages are moved elsewhere and its block is free
    /// again, in milliseconds (`inactive_thre`). Absent: it empties none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub inactive_ms: Option<u64>,
    /// The most base pages that it moves each time it wakes (`migrate_budget`). Default 262144.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub moves_per_wake: u32,
    /// Where these values come from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub assumed: BTreeMap<String, String>,
}

impl Default for QuicksilverDesc {
    fn default() -> Self {
        Self {
            sleep_ms: 1000,
            fill_threshold: None,
            fills_per_wake: 200_000,
            inactive_ms: None,
            moves_per_wake: 262_144,
            source: String::new(),
            assumed: BTreeMap::new(),
        }
    }
}

/// The daemon and what it remembers of earlier wakes.
#[derive(Debug)]
pub(crate) struct Quicksilver {
    desc: QuicksilverDesc,
    wake_ns: u64,
    /// Earlier wakes: when, and the clock of the reservations then.
    wakes: VecDeque<(u64, u64)>,
    /// Reservations that could not be filled, or not be emptied, by first frame: their last change then. They are left
    /// alone until they change (`RV_BADBOY`).
    given_up: BTreeMap<Pfn, u64>,
}

impl Quicksilver {
    /// The daemon that `desc` describes, on reservations of these sizes.
    ///
    /// # Errors
    /// The key of a value that it cannot have, and what to do.
    pub fn new(desc: &QuicksilverDesc, levels: &[PageOrder]) -> Result<Self, (&'static str, String)> {
        if desc.fill_threshold.is_none() && desc.inactive_ms.is_none() {
            return Err(("", "does nothing: set fill_threshold or inactive_ms, or remove this section".into()));
        }
        if !levels.contains(&SIZE) {
            return Err(("", format!("works on reservations of {SIZE}: add \"{SIZE}\" to freebsd.levels")));
        }
        if desc.fill_threshold.is_some_and(|pages| !(1..SIZE.base_pages() as u32).contains(&pages)) {
            return Err(("fill_threshold", "must be 1 to 511 pages: a reservation of 2M has 512".into()));
        }
        for (key, value) in [
            ("sleep_ms", desc.sleep_ms),
            ("fills_per_wake", desc.fills_per_wake.into()),
            ("inactive_ms", desc.inactive_ms.unwrap_or(1)),
            ("moves_per_wake", desc.moves_per_wake.into()),
        ] {
            if value == 0 {
                return Err((key, "must be at least 1".into()));
            }
        }
        let wake_ns = ns_of_ms(desc.sleep_ms);
        Ok(Self { desc: desc.clone(), wake_ns, wakes: VecDeque::new(), given_up: BTreeMap::new() })
    }

    fn is_given_up(&self, reserved: &Partial) -> bool {
        self.given_up.get(&reserved.base) == Some(&reserved.changed)
    }

    /// Fills reservations from the one that changed last on (`vm_reserv_scan_partpopq`).
    fn fill_all(&mut self, system: &mut SystemCx, threshold: u32) {
        let partial = system.shared.memory.reservations.partial().rev();
        let is_due = |reserved: &Partial| {
            reserved.order == SIZE
                && reserved.used >= threshold
                && !Objects::is_shown(reserved.object)
                && !self.is_given_up(reserved)
        };
        let due: Vec<_> = partial.filter(is_due).collect();
        let mut left = self.desc.fills_per_wake;
        for reserved in due {
            if left == 0 {
                break;
            }
            match Self::fill(system, &reserved) {
                Ok(()) => {
                    left -= 1;
                    system.shared.counts.events.add(EventKind::QuicksilverFilled, 1);
                }
                Err((why, at)) => {
                    system.refuse(why, at);
                    self.given_up.insert(reserved.base, reserved.changed);
                }
            }
        }
    }

    /// Zeroes the pages of a reservation that are not in use. They are the mapping's own then, and not yet in the page
    /// table (`vm_reserv_prepopulate`).
    fn fill(system: &mut SystemCx, reserved: &Partial) -> Result<(), (Refusal, u64)> {
        let whole = system.spaces.iter().enumerate().find_map(|(slot, space)| {
            let (span, start) = place(space.as_ref()?, reserved)?;
            Some((slot, span, start))
        });
        let Some((slot, span, start)) = whole else { return Err((Refusal::QuicksilverOutsideVma, 0)) };
        let (space, mut cx) = system.at(slot);
        if cx.memory.objects.is_shared(reserved.object) {
            return Err((Refusal::QuicksilverNotOwn, start));
        }
        let mut missing = Vec::new();
        for i in 0..SIZE.base_pages() {
            let (va, pfn) = (VirtAddr::new(start + i * BASE_BYTES), Pfn(reserved.base.0 + i));
            let here = match space.probe(cx.mem, va) {
                Found::Leaf(leaf) => Some(leaf),
                Found::Hole(_) => space.hidden.get(&va.vpn()).copied(),
            };
            match here {
                Some(leaf) if leaf.order == PageOrder::P4K && leaf.pfn == pfn => {}
                Some(_) => return Err((Refusal::QuicksilverNotOwn, start)),
                None => missing.push((va, pfn)),
            }
        }
        // A page in use that is not found here is somebody else's.
        if SIZE.base_pages() - missing.len() as u64 != u64::from(reserved.used) {
            return Err((Refusal::QuicksilverNotOwn, start));
        }
        cx.memory.resident.act_for(space.region(start));
        let region = cx.memory.resident.acting();
        for &(va, pfn) in &missing {
            let object = reserved.object;
            *cx.memory.pages.get_mut(pfn) = Page { refs: 1, used: Use::Anon, object, region, ..Page::default() };
            cx.memory.touch(pfn, PageOrder::P4K);
            let page = AddressSpace::leaf(&span.value, pfn, PageOrder::P4K, span.value.prot, false);
            space.hidden.insert(va.vpn(), mmulab_pagetable::Leaf { accessed: false, ..page });
        }
        cx.memory.reservations.fill(reserved.base, SIZE);
        let pages = missing.len() as u64;
        cx.memory.hold(pages);
        cx.work(WorkKind::ZeroBytes, pages * BASE_BYTES);
        cx.counts.events.add(EventKind::QuicksilverZeroed, pages);
        space.mark_private(start);
        Ok(())
    }

    /// Empties reservations that have not changed since the clock stood at `since` (`vm_reserv_evict_inactive`), from
    /// the one that changed longest ago on.
    fn evict_all(&mut self, system: &mut SystemCx, since: u64) {
        let is_idle = |reserved: &Partial| reserved.changed <= since;
        let partial = system.shared.memory.reservations.partial().take_while(is_idle);
        let due: Vec<_> = partial.filter(|r| r.order == SIZE && !self.is_given_up(r)).collect();
        if due.is_empty() {
            return;
        }
        let places = ReverseMap::of(system);
        let mut moved = 0;
        for reserved in due {
            if moved >= self.desc.moves_per_wake {
                break;
            }
            if Self::evict(system, &reserved, &places) {
                moved += reserved.used;
                system.shared.counts.events.add(EventKind::QuicksilverEvicted, 1);
            } else {
                system.refuse(Refusal::QuicksilverUnmovable, 0);
                self.given_up.insert(reserved.base, reserved.changed);
            }
        }
    }

    /// Moves every used page of a reservation to a free frame (`vm_page_reclaim_run`), which frees its block. False if
    /// one of the pages cannot move, or too few frames are free.
    fn evict(system: &mut SystemCx, reserved: &Partial, places: &ReverseMap) -> bool {
        let memory = &mut system.shared.memory;
        let used = memory.reservations.used_frames(reserved.base, reserved.order);
        if memory.frames.free_frames() < used.len() as u64
            || used.iter().any(|&pfn| places.movable(memory, pfn).is_none())
        {
            return false;
        }
        let mut migration = Migration::new(system);
        let mut is_empty = true;
        for old in used {
            let memory = &mut system.shared.memory;
            let here = places.movable(memory, old);
            let new = memory.frames.alloc(PageOrder::P4K, Mobility::Movable, memory.cpu);
            let (Some(here), Some(new)) = (here, new) else {
                is_empty = false;
                break;
            };
            memory.work.add(WorkKind::BaseFrame, 1);
            migration.copy_page(system, (old, new), PageOrder::P4K, here);
            let memory = &mut system.shared.memory;
            memory.reservations.give(old, &mut memory.frames, memory.cpu);
        }
        migration.finish(system);
        is_empty
    }
}

/// Where a mapping shows all of a reservation: the mapping, and the address of the first page.
fn place(space: &AddressSpace, reserved: &Partial) -> Option<(Span<Vma>, u64)> {
    space.vmas.iter().find_map(|span| {
        let anon = span.value.anon.filter(|anon| anon.object == reserved.object && span.value.is_anon())?;
        let start = span.start.checked_add(reserved.first.checked_sub(anon.at)? << BASE_SHIFT)?;
        let fits = start < span.end && span.end - start >= SIZE.bytes();
        fits.then(|| (span.clone(), start))
    })
}

impl Daemon for Quicksilver {
    fn wakes_at(&self) -> u64 {
        self.wake_ns
    }

    fn wake(&mut self, system: &mut SystemCx, _: &mut Compaction, now_ns: u64) -> Result<(), KernelError> {
        if let Some(threshold) = self.desc.fill_threshold {
            self.fill_all(system, threshold);
        }
        if let Some(inactive_ms) = self.desc.inactive_ms {
            // Of the wakes that lie far enough back, only the last is of use.
            let is_old = |wake: &(u64, u64)| wake.0.saturating_add(ns_of_ms(inactive_ms)) <= now_ns;
            while self.wakes.get(1).is_some_and(is_old) {
                self.wakes.pop_front();
            }
            if let Some(&(_, since)) = self.wakes.front().filter(|wake| is_old(wake)) {
                self.evict_all(system, since);
            }
            self.wakes.push_back((now_ns, system.shared.memory.reservations.clock()));
        }
        let reservations = &system.shared.memory.reservations;
        self.given_up.retain(|&base, &mut changed| reservations.changed(base, SIZE) == Some(changed));
        self.wake_ns = now_ns.saturating_add(ns_of_ms(self.desc.sleep_ms));
        Ok(())
    }
}
