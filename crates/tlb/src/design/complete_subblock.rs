//! Complete-subblock TLB: one tag for an aligned block of pages, and for each page of the block a valid bit, a frame
//! and attributes of its own (Talluri and Hill, ASPLOS 1994). So it asks nothing of the frames, and saves tags only.
//!
//! ```text
//! | ASID, block number less the set's bits | page size | page 0: valid, flags, frame | page 1: ... | ... |
//! ```
//!
//! A miss loads the page that was asked for: into a new entry if no entry has the block's tag, else into its place in
//! that entry. Talluri and Hill also discuss loading the other pages of the block with it (prefetching); this is the
//! design without.

use super::{
    About, Built, Cost, Keys, Line, Looks, Plan, aligned,
    group::{GroupDesign, GroupEntry, VALID_BITS},
    group_store::GroupStore,
};
use crate::key::Value;
use mmulab_addr::{Asid, PageOrder, Vpn};

pub const ABOUT: About = About {
    name: "complete-subblock",
    doc: "The pages of an aligned block, each with a valid bit, a frame and attributes of its own, under one tag; a \
          walk loads one page (complete-subblock TLB: Talluri and Hill, ASPLOS 1994). `group`: 2, 4, 8 or 16 base \
          pages.",
    keys: Keys::OF_GROUPS,
    coalesces: true,
    cost: |desc, widths| {
        let pages = u32::from(desc.group.unwrap_or(1)).max(1);
        let one_more = widths.frame + widths.flags;
        // Valid bits are among the flags; the tag needs no bits for the place in the block.
        Cost { extra_bits: (pages - 1) * one_more - pages.ilog2(), ..Cost::plain(desc) }
    },
};

pub fn build(plan: &Plan) -> Result<Built<Entries>, String> {
    plan.needs_base_pages()?;
    let design = CompleteSubblock { block: block(plan)?, sizes: plan.sizes.to_vec() };
    let entries = Entries::new(design, plan.sets, plan.ways, plan.store());
    // No neighbour is loaded.
    Ok(Built { looks: Looks::default(), ..aligned::built(plan, entries) })
}

pub type Entries = GroupStore<CompleteSubblock>;

/// The size of an aligned block of 2, 4, 8 or 16 pages.
///
/// # Errors
/// Another group, or none.
pub fn block(plan: &Plan) -> Result<PageOrder, String> {
    let name = plan.name();
    match plan.desc.group {
        Some(n @ (2 | 4 | 8 | 16)) => Ok(PageOrder::new(n.trailing_zeros() as u8)),
        Some(n) => Err(format!("group is {n}: design {name} has blocks of 2, 4, 8 or 16 pages")),
        None => Err(format!("design {name} needs group: give blocks of 2, 4, 8 or 16 pages")),
    }
}

/// An entry without the `pages` base pages from `first` on; `None` if none is left.
pub fn without_range<X: Copy + Default>(held: &GroupEntry<X>, first: Vpn, pages: u64) -> Option<GroupEntry<X>> {
    let is_named = |vpn: &Vpn| vpn.0.wrapping_sub(first.0) < pages;
    let gone = held.each().filter(is_named).fold(0, |mask, vpn| mask | 1 << (vpn.0 - held.first.0));
    aligned::without(held, &GroupEntry { mask: gone, ..*held })
}

/// By page of the block.
type Values = [Value; VALID_BITS as usize];

pub struct CompleteSubblock {
    block: PageOrder,
    sizes: Vec<PageOrder>,
}

impl GroupDesign for CompleteSubblock {
    type Extra = Values;

    fn index(&self) -> PageOrder {
        self.block
    }

    fn make(&self, line: &Line, _: Asid, _: &[Option<GroupEntry<Values>>]) -> GroupEntry<Values> {
        let vpn = line.page();
        let first = vpn.align_down(self.block);
        let at = (vpn.0 - first.0) as usize;
        let mut values = Values::default();
        values[at] = line.value;
        let pages = self.block.base_pages() as u32;
        GroupEntry {
            tag: crate::key::GLOBAL,
            whole: false,
            mask: 1 << at,
            pages,
            first,
            value: line.value,
            extra: values,
        }
    }

    fn value(held: &GroupEntry<Values>, vpn: Vpn) -> Value {
        held.extra[(vpn.0 - held.first.0) as usize]
    }

    /// Whatever the frames and attributes: what the new one says of a page counts.
    fn join(&self, old: &GroupEntry<Values>, new: &GroupEntry<Values>) -> Option<GroupEntry<Values>> {
        let has = |at: usize| new.mask >> at & 1 == 1;
        let extra = std::array::from_fn(|at| if has(at) { new.extra[at] } else { old.extra[at] });
        (old.first == new.first).then_some(GroupEntry { mask: old.mask | new.mask, extra, ..*new })
    }

    fn without(old: &GroupEntry<Values>, new: &GroupEntry<Values>) -> Option<GroupEntry<Values>> {
        aligned::without(old, new)
    }

    fn invalidated(held: &GroupEntry<Values>, first: Vpn, pages: u64) -> Option<GroupEntry<Values>> {
        without_range(held, first, pages)
    }

    /// The dirty bit is the page's own.
    fn dirtied(held: &GroupEntry<Values>, vpn: Vpn) -> Option<GroupEntry<Values>> {
        let mut dirty = *held;
        let own = &mut dirty.extra[(vpn.0 - held.first.0) as usize];
        *own = own.dirtied();
        Some(dirty)
    }

    fn class(&self, order: PageOrder) -> u8 {
        aligned::larger_class(&self.sizes, order)
    }
}
