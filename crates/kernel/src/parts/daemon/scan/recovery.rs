//! Recovery from bloat: while memory is short, huge pages are read for base pages of zeros and taken apart. The zeros
//! are mapped to the shared zero page (Panwar, Bansal and Gopinath, *HawkEye*, ASPLOS 2019; its published code, the
//! module bloat_recovery/remove.c).
//!
//! ```text
//! used memory   > above_percent (85 %)      recovery begins
//!      |        |
//!      v        each scan reads huge pages: the process with the lowest access coverage first,
//!               each from its lowest address on; a page of zeros is read whole, others up to their first other byte
//!               |
//!               <= below_percent (70 %)     recovery ends
//! ```
//!
//! A base page that was never stored to stands for a page of zeros (`space/stores.rs`). Memory that may be executed is
//! passed over: the kernel itself may have written code there. So are pages shared after a fork: they would keep their
//! frames.

use super::coverage::Coverage;
use super::limits::Limits;
use crate::parts::recovery::RecoveryDesc;
use crate::report::counts::EventKind;
use crate::space::system::SystemCx;
use crate::space::{AddressSpace, Found};
use crate::{KernelError, WorkKind};
use mmulab_addr::{BASE_BYTES, PageOrder, Prot, VirtAddr};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes read of a base page that is not all zeros: the first of them that is not zero comes after 9.11 bytes on
/// average (HawkEye, Figure 3).
const USED_PAGE_BYTES: u64 = 10;

/// Recovery, and its progress.
#[derive(Debug)]
pub(in crate::parts::daemon) struct Recovery {
    desc: RecoveryDesc,
    /// Used memory was above the high watermark, and not yet at the low one again.
    is_active: bool,
    /// The address space whose turn it is, by its serial number, and its next address.
    turn: Option<(u64, u64)>,
    /// Address spaces that had their turn in this round.
    through: BTreeSet<u64>,
    /// The huge pages taken apart since recovery began: the serial number of the address space, and the region.
    apart: BTreeSet<(u64, u64)>,
}

impl Recovery {
    pub fn new(desc: RecoveryDesc) -> Self {
        Self { desc, is_active: false, turn: None, through: BTreeSet::new(), apart: BTreeSet::new() }
    }

    /// Whether this region was taken apart, and memory is still short. Promoting it would take the memory back (ours:
    /// no text at hand states what HawkEye does with such a region).
    pub fn keeps_apart(&self, serial: u64, region: u64) -> bool {
        self.apart.contains(&(serial, region))
    }

    /// Recovers memory, if it is short, out of huge pages of at most `pages` base pages together, of the processes that
    /// `serves` names.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub fn run(
        &mut self,
        system: &mut SystemCx,
        coverage: &BTreeMap<u64, Coverage>,
        limits: &Limits,
        pages: u32,
        serves: impl Fn(&AddressSpace) -> bool,
    ) -> Result<(), KernelError> {
        if !system.shared.knows_stores {
            return Ok(());
        }
        self.is_active |= is_above(system, self.desc.above_percent);
        let mut left = pages.div_ceil(PageOrder::P2M.base_pages() as u32);
        while self.is_active {
            if !is_above(system, self.desc.below_percent) {
                (self.is_active, self.turn) = (false, None);
                self.through.clear();
                self.apart.clear();
                break;
            }
            // Taking a page apart takes a frame for a page table.
            if left == 0 || system.shared.memory.frames.free_frames() == 0 {
                break;
            }
            let Some((slot, serial, from)) = self.whose_turn(system, coverage, &serves) else {
                // Everybody had a turn: the next scan begins anew.
                self.through.clear();
                break;
            };
            let Some(va) = next_huge(system, slot, limits, from) else {
                self.turn = None;
                self.through.insert(serial);
                continue;
            };
            self.turn = Some((serial, va + PageOrder::P2M.bytes()));
            left -= 1;
            self.read(system, slot, va)?;
        }
        Ok(())
    }

    /// The address space whose turn it is, and its next address. First come those whose best region has the lowest
    /// access coverage, since they gain least from huge pages, then those that were made first.
    fn whose_turn(
        &self,
        system: &SystemCx,
        coverage: &BTreeMap<u64, Coverage>,
        serves: impl Fn(&AddressSpace) -> bool,
    ) -> Option<(usize, u64, u64)> {
        let served = |space: &Option<AddressSpace>| space.as_ref().filter(|space| serves(space)).map(|s| s.serial);
        let spaces = || system.spaces.iter().enumerate().filter_map(|(slot, space)| Some((slot, served(space)?)));
        if let Some((serial, from)) = self.turn
            && let Some((slot, _)) = spaces().find(|space| space.1 == serial)
        {
            return Some((slot, serial, from));
        }
        let due = spaces().filter(|space| !self.through.contains(&space.1));
        let best = |serial| coverage.get(&serial).and_then(Coverage::highest);
        let (slot, serial) = due.min_by_key(|&(_, serial)| (best(serial), serial))?;
        Some((slot, serial, 0))
    }

    /// Reads the huge page at `va`, and takes it apart if it has enough base pages of zeros.
    fn read(&mut self, system: &mut SystemCx, slot: usize, va: u64) -> Result<(), KernelError> {
        let (space, mut cx) = system.at(slot);
        let zeros: Vec<u64> = space.stored.zeros(va).collect();
        let found = zeros.len() as u64;
        cx.work(WorkKind::ScanBytes, found * BASE_BYTES + (PageOrder::P2M.base_pages() - found) * USED_PAGE_BYTES);
        cx.counts.events.add(EventKind::RecoveryScanned, 1);
        if found < u64::from(self.desc.zero_pages) {
            return Ok(());
        }
        let Some(span) = space.vmas.find(va).cloned() else { return Ok(()) };
        cx.memory.resident.act_for(space.region(va));
        space.share_zeros(&mut cx, &span.value, va, &zeros)?;
        cx.counts.events.add(EventKind::RecoveryShared, found);
        self.apart.insert((space.serial, va));
        Ok(())
    }
}

/// Whether more of memory than this is used, in percent. Pages of files count as used, as in the published code.
fn is_above(system: &SystemCx, percent: u8) -> bool {
    let frames = &system.shared.memory.frames;
    (frames.total_frames() - frames.free_frames()) * 100 > frames.total_frames() * u64::from(percent)
}

/// The first huge page of an address space from `from` on that recovery may look at.
fn next_huge(system: &mut SystemCx, slot: usize, limits: &Limits, from: u64) -> Option<u64> {
    let size = PageOrder::P2M.bytes();
    let (space, mut cx) = system.at(slot);
    let spans: Vec<_> = space
        .vmas
        .iter()
        .filter(|span| span.end > from && limits.is_eligible(&span.value) && !span.value.prot.has(Prot::X))
        .map(|span| (span.start.max(from).next_multiple_of(size), span.end / size * size))
        .collect();
    for (start, end) in spans {
        for va in (start..end).step_by(size as usize) {
            cx.work(WorkKind::EntryScan, 1);
            if is_huge(space, &cx, va) {
                return Some(va);
            }
        }
    }
    None
}

/// Whether a huge page that this process alone uses begins at `va`.
fn is_huge(space: &AddressSpace, cx: &crate::space::Cx, va: u64) -> bool {
    match space.page(cx.mem, &cx.memory.pages, VirtAddr::new(va)) {
        Found::Leaf(page) => {
            page.order == PageOrder::P2M
                && !cx.memory.is_zero(page.pfn)
                && cx.memory.pages.is_exclusive(page.pfn, page.order)
        }
        Found::Hole(_) => false,
    }
}
