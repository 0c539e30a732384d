//! Clustered TLB: an aligned group of pages shares an entry if their frames lie in one equally large aligned group, in
//! any order; for each page the entry keeps the low bits of its frame (Pham and others, HPCA 2014).
//!
//! ```text
//! | flags | ASID, group number less the set's bits | valid bits 7..0 | low frame bits 7..0 | page size | frame group |
//! ```

use super::{
    About, Built, Cost, Keys, Line, Plan, aligned,
    group::{GroupDesign, GroupEntry},
    group_store::GroupStore,
};
use crate::key::Value;
use mmulab_addr::{Asid, PageOrder, Pfn, Vpn};

pub const ABOUT: About = About {
    name: "clustered",
    doc: "Those pages of an aligned group that map frames of one aligned group, in whatever order (clustered TLB: Pham \
          and others, HPCA 2014). `group`: 2, 4 or 8 base pages.",
    keys: Keys::OF_GROUPS,
    coalesces: true,
    cost: |desc, _| {
        let group = u32::from(desc.group.unwrap_or(0));
        let low = group.max(1).ilog2();
        // A valid bit and low frame bits for each page, less the low bits of the group's number and of its frames'.
        Cost { extra_bits: group + group * low - 2 * low, ..Cost::plain(desc) }
    },
};

pub fn build(plan: &Plan) -> Result<Built<Entries>, String> {
    plan.needs_base_pages()?;
    let design = Clustered { group: plan.group_of_2_to_8()?, sizes: plan.sizes.to_vec() };
    let entries = Entries::new(design, plan.sets, plan.ways, plan.store());
    Ok(aligned::built(plan, entries))
}

pub type Entries = GroupStore<Clustered>;

/// Low bits of a frame, its place in the group of frames: three for each page.
type LowBits = u32;
const LOW_BITS: u64 = 3;
const LOW_MASK: u32 = (1 << LOW_BITS) - 1;

pub struct Clustered {
    group: PageOrder,
    sizes: Vec<PageOrder>,
}

impl GroupDesign for Clustered {
    type Extra = LowBits;

    fn index(&self) -> PageOrder {
        self.group
    }

    fn make(&self, line: &Line, _: Asid, _: &[Option<GroupEntry<LowBits>>]) -> GroupEntry<LowBits> {
        let (first, pages) = aligned::group_of(line, self.group);
        let base = Pfn(line.pfns[line.at]).align_down(self.group);
        let (mut mask, mut low) = (0, 0);
        for at in 0..pages {
            let slot = first + at;
            let pfn = Pfn(line.pfns[slot]);
            if line.same >> slot & 1 == 1 && pfn.align_down(self.group) == base {
                mask |= 1 << at;
                low |= ((pfn.0 - base.0) as u32) << (LOW_BITS * at as u64);
            }
        }
        aligned::in_group(line, (first, pages), mask, base, low)
    }

    fn value(held: &GroupEntry<LowBits>, vpn: Vpn) -> Value {
        let low = held.extra >> (LOW_BITS * (vpn.0 - held.first.0)) & LOW_MASK;
        held.value.moved(u64::from(low))
    }

    fn join(&self, old: &GroupEntry<LowBits>, new: &GroupEntry<LowBits>) -> Option<GroupEntry<LowBits>> {
        if old.first != new.first || old.value != new.value {
            return None;
        }
        // What the new one says of a page counts.
        let mut low = old.extra;
        for at in (0..8).filter(|at| new.mask >> at & 1 == 1) {
            let field = LOW_MASK << (LOW_BITS * at);
            low = (low & !field) | (new.extra & field);
        }
        Some(GroupEntry { mask: old.mask | new.mask, extra: low, ..*new })
    }

    fn without(old: &GroupEntry<LowBits>, new: &GroupEntry<LowBits>) -> Option<GroupEntry<LowBits>> {
        aligned::without(old, new)
    }

    fn class(&self, order: PageOrder) -> u8 {
        aligned::larger_class(&self.sizes, order)
    }
}
