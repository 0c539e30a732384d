//! CoLT-FA: an entry is a run, a first page and a length, of contiguous pages with contiguous frames. A line gives the
//! run around the page that missed, and a run that touches one already held becomes one with it (Pham and others, MICRO
//! 2012).
//!
//! ```text
//! | flags | ASID, first page | pages in the run | page size | frame of the first page |
//! ```

use super::{
    About, Built, Cost, Keys, Line, Plan, aligned,
    group::{GroupDesign, GroupEntry, run_mask},
    group_store::GroupStore,
    line::LINE_PAGES,
};
use crate::key::Value;
use mmulab_addr::{Asid, PageOrder, Pfn, Vpn};

pub const ABOUT: About = About {
    name: "colt-fa",
    doc: "A run of contiguous pages that map contiguous frames, wherever it begins: a base and a length, fully \
          associative (CoLT-FA: Pham and others, MICRO 2012). `group`: the longest run, 8 to 1024 base pages.",
    keys: Keys { sets: false, ..Keys::OF_GROUPS },
    coalesces: true,
    cost: |desc, _| {
        let length = u32::from(desc.group.unwrap_or(1)).max(1).ilog2();
        Cost { extra_bits: length, range_bits: length, ..Cost::plain(desc) }
    },
};

pub fn build(plan: &Plan) -> Result<Built<Entries>, String> {
    plan.needs_base_pages()?;
    let longest = match plan.desc.group {
        Some(n @ 8..=1024) => u32::from(n),
        Some(n) => return Err(format!("group is {n}: the longest run of colt-fa is 8 to 1024 pages")),
        None => return Err("design colt-fa needs group: the longest run, 8 to 1024 pages".into()),
    };
    let entries = Entries::new(ColtFa { longest, sizes: plan.sizes.to_vec() }, plan.sets, plan.ways, plan.store());
    Ok(aligned::built(plan, entries))
}

pub type Entries = GroupStore<ColtFa>;

pub struct ColtFa {
    /// Pages of the longest run.
    longest: u32,
    sizes: Vec<PageOrder>,
}

/// The places of the line around its page whose pages and frames are contiguous with it: from, and to before which.
pub fn run_around(line: &Line) -> (usize, usize) {
    let goes_on = |slot: usize, next: usize| {
        line.same >> next & 1 == 1
            && line.pfns[next].wrapping_sub(line.pfns[slot]) == (next as u64).wrapping_sub(slot as u64)
    };
    let (mut from, mut to) = (line.at, line.at + 1);
    while from > 0 && goes_on(from, from - 1) {
        from -= 1;
    }
    while to < LINE_PAGES && goes_on(to - 1, to) {
        to += 1;
    }
    (from, to)
}

impl GroupDesign for ColtFa {
    type Extra = ();

    fn index(&self) -> PageOrder {
        PageOrder::P4K
    }

    fn make(&self, line: &Line, _: Asid, _: &[Option<GroupEntry<()>>]) -> GroupEntry<()> {
        let (from, to) = run_around(line);
        let pages = to - from;
        aligned::in_group(line, (from, pages), run_mask(pages as u32), Pfn(line.pfns[from]), ())
    }

    fn value(held: &GroupEntry<()>, vpn: Vpn) -> Value {
        aligned::value_at_distance::<Self>(held, vpn)
    }

    fn join(&self, old: &GroupEntry<()>, new: &GroupEntry<()>) -> Option<GroupEntry<()>> {
        let apart = old.first.0 > new.end() || new.first.0 > old.end();
        let distance = |h: &GroupEntry<()>| h.value.pfn().0.wrapping_sub(h.first.0);
        if apart || distance(old) != distance(new) || !old.value.alike(new.value) {
            return None;
        }
        let first = if old.first < new.first { old } else { new };
        let pages = (old.end().max(new.end()) - first.first.0) as u32;
        (pages <= self.longest).then(|| GroupEntry { pages, mask: run_mask(pages), ..*first })
    }

    /// A run cannot have holes: it goes.
    fn without(_: &GroupEntry<()>, _: &GroupEntry<()>) -> Option<GroupEntry<()>> {
        None
    }

    fn class(&self, order: PageOrder) -> u8 {
        aligned::larger_class(&self.sizes, order)
    }
}
