//! Partial-subblock TLB: one tag, one frame and one set of attributes for an aligned block of pages, and a valid bit
//! for each page (Talluri and Hill, ASPLOS 1994). The pages of an entry must be *properly placed*: page `i` of the
//! block in frame `i` of one equally large aligned block of frames. A page that is not gets an entry of its own.
//!
//! ```text
//! | flags | ASID, block number less the set's bits | valid bits 15..0 | page size | frame of the block's first page |
//! ```
//!
//! In the paper the operating system writes the valid bits of a block into its page-table entry. Here a fill learns
//! them from the line that the walk read: of a block of 16 pages at most the half with the page that was asked for.

use super::{
    About, Built, Cost, Keys, Line, Plan,
    about::bitmap_bits,
    aligned, complete_subblock,
    group::{GroupDesign, GroupEntry},
    group_store::GroupStore,
};
use crate::key::Value;
use mmulab_addr::{Asid, PageOrder, Pfn, Vpn};

pub const ABOUT: About = About {
    name: "partial-subblock",
    doc: "Those pages of an aligned block that lie in their own places of one aligned block of frames: a valid bit for \
          each; any other page alone (partial-subblock TLB: Talluri and Hill, ASPLOS 1994). `group`: 2, 4, 8 or 16 \
          base pages.",
    keys: Keys::OF_GROUPS,
    coalesces: true,
    cost: |desc, _| Cost { extra_bits: bitmap_bits(u32::from(desc.group.unwrap_or(1))), ..Cost::plain(desc) },
};

pub fn build(plan: &Plan) -> Result<Built<Entries>, String> {
    plan.needs_base_pages()?;
    let design = PartialSubblock { block: complete_subblock::block(plan)?, sizes: plan.sizes.to_vec() };
    let entries = Entries::new(design, plan.sets, plan.ways, plan.store());
    Ok(aligned::built(plan, entries))
}

pub type Entries = GroupStore<PartialSubblock>;

pub struct PartialSubblock {
    block: PageOrder,
    sizes: Vec<PageOrder>,
}

impl PartialSubblock {
    /// Whether an entry's pages are properly placed.
    fn is_proper(&self, held: &GroupEntry<()>) -> bool {
        let base = held.value.pfn();
        base == base.align_down(self.block)
    }
}

impl GroupDesign for PartialSubblock {
    type Extra = ();

    fn index(&self) -> PageOrder {
        self.block
    }

    fn make(&self, line: &Line, _: Asid, _: &[Option<GroupEntry<()>>]) -> GroupEntry<()> {
        let vpn = line.page();
        let first = vpn.align_down(self.block);
        let pages = self.block.base_pages() as u32;
        let base = Pfn(line.pfns[line.at].wrapping_sub(vpn.0 - first.0));
        let alone = GroupEntry {
            tag: crate::key::GLOBAL,
            whole: false,
            mask: 1 << (vpn.0 - first.0),
            pages,
            first,
            value: line.value.at(base),
            extra: (),
        };
        if !self.is_proper(&alone) {
            return alone;
        }
        let alike = (0..line.pfns.len()).filter(|&slot| line.same >> slot & 1 == 1);
        let mask = alike.fold(0, |mask, slot| {
            let at = (line.first.0 + slot as u64).wrapping_sub(first.0);
            let is_proper = at < u64::from(pages) && line.pfns[slot] == base.0 + at;
            mask | if is_proper { 1 << at } else { 0 }
        });
        GroupEntry { mask, ..alone }
    }

    fn value(held: &GroupEntry<()>, vpn: Vpn) -> Value {
        aligned::value_at_distance::<Self>(held, vpn)
    }

    fn join(&self, old: &GroupEntry<()>, new: &GroupEntry<()>) -> Option<GroupEntry<()>> {
        let is_same = old.first == new.first && old.value == new.value;
        let may_share = self.is_proper(new) || old.mask == new.mask;
        (is_same && may_share).then_some(GroupEntry { mask: old.mask | new.mask, ..*new })
    }

    fn without(old: &GroupEntry<()>, new: &GroupEntry<()>) -> Option<GroupEntry<()>> {
        aligned::without(old, new)
    }

    fn invalidated(held: &GroupEntry<()>, first: Vpn, pages: u64) -> Option<GroupEntry<()>> {
        complete_subblock::without_range(held, first, pages)
    }

    fn class(&self, order: PageOrder) -> u8 {
        aligned::larger_class(&self.sizes, order)
    }
}
