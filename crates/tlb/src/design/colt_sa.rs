//! CoLT-SA: an aligned group of pages shares an entry, with a valid bit for each; what it translates lies at one
//! distance from its frames. Sets are chosen by the group, so that its pages meet in one (Pham and others, MICRO 2012).
//!
//! ```text
//! | flags | ASID, group number less the set's bits | valid bits 7..0 | page size | frame of the group's first page |
//! ```

use super::{
    About, Built, Cost, Keys, Line, Plan,
    about::bitmap_bits,
    aligned,
    group::{GroupDesign, GroupEntry},
    group_store::GroupStore,
};
use crate::key::Value;
use mmulab_addr::{Asid, PageOrder, Pfn, Vpn};

pub const ABOUT: About = About {
    name: "colt-sa",
    doc: "Those pages of an aligned group that map frames at one distance from them: a valid bit for each, so with \
          holes, and sets chosen by the group (CoLT-SA: Pham and others, MICRO 2012). `group`: 2, 4 or 8 base pages.",
    keys: Keys { serial: true, ..Keys::OF_GROUPS },
    coalesces: true,
    cost: |desc, _| Cost { extra_bits: bitmap_bits(u32::from(desc.group.unwrap_or(0))), ..Cost::plain(desc) },
};

pub fn build(plan: &Plan) -> Result<Built<Entries>, String> {
    plan.needs_base_pages()?;
    let design = ColtSa { group: plan.group_of_2_to_8()?, sizes: plan.sizes.to_vec() };
    let entries = Entries::new(design, plan.sets, plan.ways, plan.store());
    Ok(aligned::built(plan, entries))
}

pub type Entries = GroupStore<ColtSa>;

pub struct ColtSa {
    group: PageOrder,
    sizes: Vec<PageOrder>,
}

impl GroupDesign for ColtSa {
    type Extra = ();

    fn index(&self) -> PageOrder {
        self.group
    }

    fn make(&self, line: &Line, _: Asid, _: &[Option<GroupEntry<()>>]) -> GroupEntry<()> {
        let (first, pages) = aligned::group_of(line, self.group);
        // The frame the group's first page would have; it may be no frame at all, if that page is a hole.
        let base = line.pfns[line.at].wrapping_sub((line.at - first) as u64);
        let here = |slot: usize| line.pfns[slot] == base.wrapping_add((slot - first) as u64);
        let mask = (first..first + pages)
            .filter(|&slot| line.same >> slot & 1 == 1 && here(slot))
            .fold(0, |mask, slot| mask | 1 << (slot - first));
        aligned::in_group(line, (first, pages), mask, Pfn(base), ())
    }

    fn value(held: &GroupEntry<()>, vpn: Vpn) -> Value {
        aligned::value_at_distance::<Self>(held, vpn)
    }

    fn join(&self, old: &GroupEntry<()>, new: &GroupEntry<()>) -> Option<GroupEntry<()>> {
        (old.first == new.first && old.value == new.value).then_some(GroupEntry { mask: old.mask | new.mask, ..*new })
    }

    fn without(old: &GroupEntry<()>, new: &GroupEntry<()>) -> Option<GroupEntry<()>> {
        aligned::without(old, new)
    }

    fn class(&self, order: PageOrder) -> u8 {
        aligned::larger_class(&self.sizes, order)
    }
}
