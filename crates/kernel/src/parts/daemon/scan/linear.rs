//! The linear scan: address space after address space, in the order of their making, and each from its lowest address
//! on (`khugepaged_scan_mm_slot` in mm/khugepaged.c). Regions that pass the limits are copied into huge pages.

use super::copy::copy_to_huge;
use super::limits::Limits;
use super::mappings::{Cursor, Here, Step};
use super::pace::{Pace, Scan};
use super::text::collapse_text;
use crate::KernelError;
use crate::report::counts::EventKind;
use crate::space::AddressSpace;
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;
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
        let size = PageOrder::P2M.bytes();
        self.cursor.begin();
        while pace.goes_on() {
            let Step::Mapping(Here { slot, span, from, .. }) = self.cursor.next(system, &serves) else {
                system.shared.counts.events.add(EventKind::KhugepagedRound, 1);
                if self.cursor.is_through() {
                    break;
                }
                continue;
            };
            let first = from.checked_next_multiple_of(size).unwrap_or(u64::MAX);
            let is_text = limits.is_text(&span.value);
            if !(is_text || limits.is_eligible(&span.value)) || first >= span.end || span.end - first < size {
                pace.looked_at(1);
                self.cursor.go_to(span.end);
                continue;
            }
            self.cursor.go_to(first + size);
            pace.looked_at(PageOrder::P2M.base_pages());
            let scan = match is_text {
                true => collapse_text(system, compaction, limits, defrag, (slot, &span, first))?,
                false => copy_to_huge(system, compaction, limits, defrag, (slot, &span.value, first))?,
            };
            if let Scan::NoBlock = scan {
                return Ok(Scan::NoBlock);
            }
        }
        Ok(Scan::Done)
    }
}
