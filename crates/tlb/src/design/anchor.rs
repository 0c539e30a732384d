//! Anchors (hybrid TLB coalescing: Park, Heo, Jeong and Huh, ISCA 2017): every `group`th page is an anchor, whose entry
//! translates the pages from it on that are contiguous with it in memory, up to the next anchor. All other pages have
//! regular entries, one page each.
//!
//! ```text
//! regular | flags | 0 | ASID, page number less the set's bits   |            | page size | frame          |
//! anchor  | flags | 1 | ASID, anchor number less the set's bits | contiguity | page size | frame of anchor |
//! ```
//!
//! In the paper the operating system counts the contiguity, writes it into the anchor's page-table entry, and chooses
//! the distance of anchors for each process. Here an anchor's contiguity is what the lines that walks read have shown.
//! A line that begins at an anchor gives its first part; a line further on extends an anchor's entry that reaches it.
//! Until then its pages have regular entries. The distance is the array's.

use super::{
    About, Built, Cost, Keys, Line, Plan, Reads, aligned, colt_fa,
    group::{BASE, GroupDesign, GroupEntry, run_mask},
    group_store::GroupStore,
};
use crate::key::Value;
use mmulab_addr::{Asid, PageOrder, Pfn, Vpn};

pub const ABOUT: About = About {
    name: "anchor",
    doc: "One page, or the contiguous pages that follow an anchor, every `group`th page, in contiguous frames (hybrid \
          TLB coalescing: Park and others, ISCA 2017; contiguity is learned from lines). `group`: the distance of \
          anchors, a power of two from 2 to 1024 base pages.",
    keys: Keys::OF_GROUPS,
    coalesces: true,
    cost: |desc, _| {
        let contiguity = u32::from(desc.group.unwrap_or(1)).max(1).ilog2();
        // A page has a set of its own besides that of its anchor.
        Cost { extra_bits: 1 + contiguity, range_bits: contiguity, reads: Reads::Sets(desc.sizes.len() as u32 + 1) }
    },
};

pub fn build(plan: &Plan) -> Result<Built<Entries>, String> {
    plan.needs_base_pages()?;
    let distance = match plan.desc.group {
        Some(n @ 2..=1024) if n.is_power_of_two() => PageOrder::new(n.trailing_zeros() as u8),
        Some(n) => {
            return Err(format!("group is {n}: the distance of anchors is a power of two from 2 to 1024 pages"));
        }
        None => {
            return Err("design anchor needs group: the distance of anchors, a power of two from 2 to 1024".into());
        }
    };
    let entries = Entries::new(Anchor { distance, sizes: plan.sizes.to_vec() }, plan.sets, plan.ways, plan.store());
    Ok(aligned::built(plan, entries))
}

pub type Entries = GroupStore<Anchor>;

pub struct Anchor {
    distance: PageOrder,
    sizes: Vec<PageOrder>,
}

impl GroupDesign for Anchor {
    type Extra = ();

    /// Of an anchor's entry: its number among anchors.
    fn index(&self) -> PageOrder {
        self.distance
    }

    fn make(&self, line: &Line, tag: Asid, set: &[Option<GroupEntry<()>>]) -> GroupEntry<()> {
        let anchor = line.page().align_down(self.distance);
        let (from, to) = colt_fa::run_around(line);
        let first = (line.first.0 + from as u64).max(anchor.0);
        let end = (line.first.0 + to as u64).min(anchor.0 + self.distance.base_pages());
        let frame = Pfn(line.pfns[line.at].wrapping_sub(line.page().0 - anchor.0));
        let value = line.value.at(frame);
        // What an entry of the anchor knows, if the run continues it.
        let reaches =
            |h: &&GroupEntry<()>| !h.whole && h.tag == tag && h.first == anchor && h.value == value && h.end() >= first;
        let known = set.iter().flatten().find(reaches).map(|held| held.end());
        let end = match known {
            Some(known) => known.max(end),
            None if first == anchor.0 => end,
            None => return GroupEntry::of_page(line.page(), line.value, PageOrder::P4K),
        };
        let pages = (end - anchor.0) as u32;
        let mask = run_mask(pages);
        GroupEntry { tag, whole: false, mask, pages, first: anchor, value, extra: () }
    }

    fn value(held: &GroupEntry<()>, vpn: Vpn) -> Value {
        aligned::value_at_distance::<Self>(held, vpn)
    }

    fn join(&self, old: &GroupEntry<()>, new: &GroupEntry<()>) -> Option<GroupEntry<()>> {
        let longer = if old.pages > new.pages { old } else { new };
        (old.first == new.first && old.value == new.value).then_some(*longer)
    }

    /// The pages that follow an anchor cannot have holes, so the entry goes.
    fn without(_: &GroupEntry<()>, _: &GroupEntry<()>) -> Option<GroupEntry<()>> {
        None
    }

    fn class(&self, order: PageOrder) -> u8 {
        if order == PageOrder::P4K { BASE } else { aligned::larger_class(&self.sizes, order) }
    }
}
