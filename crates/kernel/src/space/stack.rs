//! Stacks that grow down to the address that faulted.

use super::{AddressSpace, Cx};
use crate::Note;
use crate::report::counts::EventKind;
use mmulab_addr::{Prot, VirtAddr};

impl AddressSpace {
    /// Grows the stack above `va` down to it, as `expand_downwards` in mm/vma.c.
    pub(crate) fn grow_stack(&mut self, cx: &mut Cx, va: u64) -> bool {
        let Some(above) = self.vmas.at_or_above(va) else { return false };
        let (start, end, stack) = (above.start, above.end, above.value.clone());
        let lower = va & !(self.base().bytes() - 1);
        if !stack.grows_down || end - lower > cx.limits.stack_limit {
            return false;
        }
        // The gap is only kept from mappings a runaway stack could damage: accessible ones that are no stacks.
        if let Some(below) = self.vmas.below(va)
            && below.value.prot != Prot::NONE
            && !below.value.grows_down
            && lower.saturating_sub(below.end) < cx.limits.stack_guard
        {
            return false;
        }
        self.vmas.grow_down(start, lower);
        if let Some(place) = self.places.find(start) {
            let region = place.value;
            self.places.insert(lower, start, region);
            cx.regions.lay(region.0, start - lower);
            cx.regions.moved(region.0, lower, start);
        }
        cx.counts.events.add(EventKind::StackGrowth, 1);
        cx.tell(|| Note::StackGrowth { start: VirtAddr::new(lower) });
        true
    }
}
