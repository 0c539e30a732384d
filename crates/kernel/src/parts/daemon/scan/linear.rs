//! The linear scan: address space after address space, in the order of their making, and each from its lowest address
//! on (`khugepaged_scan_mm_slot` in mm/khugepaged.c). Regions that pass the limits are copied into huge pages.

use super::copy::copy_to_huge;
use super::limits::Limits;
use super::mappings::{Cursor, Here, Step};
use super::mthp::make_blocks;
use super::pace::{Pace, Scan};
use super::text::collapse_text;
use crate::KernelError;
use crate::ranges::Span;
use crate::report::counts::EventKind;
use crate::space::AddressSpace;
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;
use crate::space::vma::Vma;
use mmulab_addr::PageOrder;

/// The progress of the scan.
#[derive(Debug, Default)]
pub(in crate::parts::daemon) struct Linear {
    cursor: Cursor,
}

impl Linear {
    /// Looks at regions until the pace says that it is enough, in the address spaces that `serves` names.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub fn scan(
        &mut self,
        system: &mut SystemCx,
        compaction: &mut Compaction,
        (pace, limits): (&mut Pace, &Limits),
        defrag: bool,
        serves: impl Fn(&AddressSpace) -> bool,
    ) -> Result<Scan, KernelError> {
        self.cursor.begin();
        while pace.goes_on() {
            let Step::Mapping(Here { slot, span, from, .. }) = self.cursor.next(system, &serves) else {
                system.shared.counts.events.add(EventKind::KhugepagedRound, 1);
                if self.cursor.is_through() {
                    break;
                }
                continue;
            };
            let (next, scan) = look(system, compaction, (pace, limits), defrag, (slot, &span, from))?;
            self.cursor.go_to(next);
            if let Scan::NoBlock = scan {
                return Ok(Scan::NoBlock);
            }
        }
        Ok(Scan::Done)
    }
}

/// Looks at the first region of a mapping from an address on, and copies it into a huge page if it passes the limits.
/// The address at which a scan goes on, and how this one ended.
///
/// # Errors
/// Frames for page tables ran out.
pub(super) fn look(
    system: &mut SystemCx,
    compaction: &mut Compaction,
    (pace, limits): (&mut Pace, &Limits),
    defrag: bool,
    (slot, span, from): (usize, &Span<Vma>, u64),
) -> Result<(u64, Scan), KernelError> {
    let size = PageOrder::P2M.bytes();
    let first = from.checked_next_multiple_of(size).unwrap_or(u64::MAX);
    let is_text = limits.is_text(&span.value);
    if !(is_text || limits.is_eligible(&span.value)) || first >= span.end || span.end - first < size {
        pace.looked_at(1);
        return Ok((span.end, Scan::Done));
    }
    pace.looked_at(PageOrder::P2M.base_pages());
    let scan = match is_text {
        true => collapse_text(system, compaction, limits, defrag, (slot, span, first))?,
        false if limits.mthp(&span.value).next().is_some() => {
            make_blocks(system, compaction, limits, defrag, (slot, &span.value, first))?
        }
        false => copy_to_huge(system, compaction, limits, defrag, (slot, &span.value, first))?,
    };
    Ok((first + size, scan))
}
