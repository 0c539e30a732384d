//! The linear scan: address space after address space, in the order in which they were made, and each from its lowest
//! address on (`khugepaged_scan_mm_slot` in mm/khugepaged.c). Regions that pass the limits are copied into huge pages.

use super::copy::copy_to_huge;
use super::limits::Limits;
use super::pace::{Pace, Scan};
use crate::KernelError;
use crate::report::counts::EventKind;
use crate::space::AddressSpace;
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;
use mmulab_addr::PageOrder;

/// The progress of the scan.
#[derive(Debug, Default)]
pub(super) struct Linear {
    /// The address space and the address looked at next.
    next: (u64, u64),
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
        // A scan that begins with the first address space ends with the last.
        let mut rounds = u32::from(self.next == (0, 0));
        while pace.goes_on() {
            let spaces = system.spaces.iter().enumerate();
            let due = spaces.filter_map(|(slot, s)| s.as_ref().filter(|s| serves(s)).map(|s| (s.serial, slot)));
            let Some((serial, slot)) = due.filter(|s| s.0 >= self.next.0).min() else {
                self.next = (0, 0);
                system.shared.counts.events.add(EventKind::KhugepagedRound, 1);
                rounds += 1;
                if rounds == 2 {
                    break;
                }
                continue;
            };
            if serial != self.next.0 {
                self.next = (serial, 0);
            }
            let Some(space) = &system.spaces[slot] else { break };
            let Some(span) = space.vmas.at_or_above(self.next.1).cloned() else {
                self.next = (serial + 1, 0);
                continue;
            };
            let first = span.start.max(self.next.1).checked_next_multiple_of(size).unwrap_or(u64::MAX);
            if !limits.is_eligible(&span.value) || first >= span.end || span.end - first < size {
                pace.looked_at(1);
                self.next.1 = span.end;
                continue;
            }
            self.next.1 = first + size;
            pace.looked_at(PageOrder::P2M.base_pages());
            if let Scan::NoBlock = copy_to_huge(system, compaction, limits, defrag, (slot, &span.value, first))? {
                return Ok(Scan::NoBlock);
            }
        }
        Ok(Scan::Done)
    }
}
