//! Names of memory: the part of a region that a trace names becomes a region of its own. So reports can show which
//! place of a program asked for the memory that costs. Page tables and mappings stay as they are.

use super::range::PageRange;
use super::{AddressSpace, Cx};
use crate::report::region::{Identity, Lies, RegionId};
use mmulab_pagetable::Leaf;
use std::sync::Arc;

impl AddressSpace {
    /// Memory of these pages has a name from now on, or none if that is empty. Files, and memory that its mapping
    /// named, keep their names.
    pub(crate) fn name(&mut self, cx: &mut Cx, pages: PageRange, name: &Arc<str>) {
        let over = self.places.over(pages.start, pages.end);
        let parts: Vec<_> = over.map(|p| (p.start.max(pages.start), p.end.min(pages.end), p.value.0)).collect();
        for (start, end, region) in parts {
            let Some(identity) = cx.regions.named(region, name) else { continue };
            if !cx.regions.rename(region, &identity, start, end) {
                self.divide(cx, PageRange { start, end }, &identity);
            }
        }
    }

    /// A part of a region lies in another from now on, with what is mapped there.
    fn divide(&mut self, cx: &mut Cx, pages: PageRange, identity: &Identity) {
        // A page is counted where it begins.
        let begins_inside = |va: u64| (pages.start..pages.end).contains(&va);
        let leaves: Vec<(u64, Leaf)> = self.leaves(cx.mem, pages.start, pages.end).collect();
        let counted: Vec<_> = leaves
            .into_iter()
            .filter(|&(va, _)| begins_inside(va) && self.is_counted(va))
            .map(|(va, leaf)| (va, leaf.order, cx.memory.is_zero(leaf.pfn)))
            .collect();
        for &(va, order, zero) in &counted {
            self.count_out(cx, va, order, zero);
        }
        for place in self.places.cut(pages.start, pages.end) {
            cx.regions.lift(place.value.0, place.end - place.start);
        }
        let region: RegionId = cx.regions.place(self.program, identity, pages.start, pages.end, cx.pid);
        self.places.insert(pages.start, pages.end, Lies(region));
        cx.regions.lay(region, pages.end - pages.start);
        for (va, order, zero) in counted {
            self.count_in(cx, va, order, zero);
        }
    }
}
