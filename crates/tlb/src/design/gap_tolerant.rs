//! Gap-tolerant coalescing: contiguous pages share an entry if their frames follow each other in order, though frames
//! of others may lie between them. A bitmap of frames says which are theirs: page `n` has the `n`th frame whose bit is
//! set.
//!
//! ```text
//! | flags | ASID, group number less the set's bits | first page, pages | frames that are theirs 15..0 | size | frame |
//! ```
//!
//! The idea is that of gap-tolerant sequential mapping (GTSM: Du, Zhou, Childers, Mosse and Melhem, HPCA 2015), which
//! makes superpages of memory with retired frames: there the operating system maps a whole superpage in order around
//! the gaps, and writes them into page tables of a format of their own. Here the page table is the ordinary one, and
//! hardware finds the order in the line that a walk read.

use super::{
    About, Built, Cost, Keys, Line, Plan, aligned,
    group::{GroupDesign, GroupEntry, run_mask},
    group_store::GroupStore,
};
use crate::key::Value;
use mmulab_addr::{Asid, PageOrder, Pfn, Vpn};

pub const ABOUT: About = About {
    name: "gap-tolerant",
    doc: "A run of contiguous pages of an aligned group whose frames follow each other in order, with gaps, among at \
          most twice as many frames as the group has pages (after gap-tolerant sequential mapping: Du and others, HPCA \
          2015). `group`: 2, 4 or 8 base pages.",
    keys: Keys::OF_GROUPS,
    coalesces: true,
    cost: |desc, _| {
        let pages = u32::from(desc.group.unwrap_or(1));
        // The bitmap, whose first bit is always set, and the length; the first page's number is the tag.
        let length = pages.max(1).ilog2();
        Cost { extra_bits: 2 * pages - 1 + length, range_bits: length, ..Cost::plain(desc) }
    },
};

pub fn build(plan: &Plan) -> Result<Built<Entries>, String> {
    plan.needs_base_pages()?;
    let design = GapTolerant { group: plan.group_of_2_to_8()?, sizes: plan.sizes.to_vec() };
    let entries = Entries::new(design, plan.sets, plan.ways, plan.store());
    Ok(aligned::built(plan, entries))
}

pub type Entries = GroupStore<GapTolerant>;

/// Frames from that of the first page on: which are those of the entry's pages.
type Frames = u16;

pub struct GapTolerant {
    group: PageOrder,
    sizes: Vec<PageOrder>,
}

impl GapTolerant {
    /// The entry of the pages from `first` on with these frames, of which there is one at least; `None` if they are not
    /// in order, or too far from each other.
    fn entry(&self, first: Vpn, value: Value, pfns: &[u64]) -> Option<GroupEntry<Frames>> {
        let far = 2 * self.group.base_pages();
        let is_in_order = pfns.windows(2).all(|w| w[0] < w[1]) && pfns[pfns.len() - 1] - pfns[0] < far;
        is_in_order.then(|| GroupEntry {
            tag: crate::key::GLOBAL,
            whole: false,
            mask: run_mask(pfns.len() as u32),
            pages: pfns.len() as u32,
            first,
            value: value.at(Pfn(pfns[0])),
            extra: pfns.iter().fold(0, |frames, pfn| frames | 1 << (pfn - pfns[0])),
        })
    }
}

impl GroupDesign for GapTolerant {
    type Extra = Frames;

    fn index(&self) -> PageOrder {
        self.group
    }

    /// The run around the page: the pages before it as far as they go, then those after it.
    fn make(&self, line: &Line, _: Asid, _: &[Option<GroupEntry<Frames>>]) -> GroupEntry<Frames> {
        let (start, pages) = aligned::group_of(line, self.group);
        let far = 2 * self.group.base_pages();
        let is_alike = |slot: usize| line.same >> slot & 1 == 1;
        let (mut from, mut to) = (line.at, line.at + 1);
        while from > start
            && is_alike(from - 1)
            && line.pfns[from - 1] < line.pfns[from]
            && line.pfns[line.at] - line.pfns[from - 1] < far
        {
            from -= 1;
        }
        while to < start + pages
            && is_alike(to)
            && line.pfns[to] > line.pfns[to - 1]
            && line.pfns[to] - line.pfns[from] < far
        {
            to += 1;
        }
        let run = self.entry(Vpn(line.first.0 + from as u64), line.value, &line.pfns[from..to]);
        run.expect("the run was made in order, within reach")
    }

    fn value(held: &GroupEntry<Frames>, vpn: Vpn) -> Value {
        // Without the bits of the pages before it, its own is the lowest.
        let own = (held.first.0..vpn.0).fold(held.extra, |left, _| left & left.wrapping_sub(1));
        held.value.moved(u64::from(own.trailing_zeros()))
    }

    fn join(&self, old: &GroupEntry<Frames>, new: &GroupEntry<Frames>) -> Option<GroupEntry<Frames>> {
        let is_apart = old.first.0 > new.end() || new.first.0 > old.end();
        let of_one_group = old.first.align_down(self.group) == new.first.align_down(self.group);
        if is_apart || !of_one_group || !old.value.alike(new.value) {
            return None;
        }
        let first = old.first.min(new.first);
        let mut pfns = [0; 8];
        let mut pages = 0;
        for page in (first.0..old.end().max(new.end())).map(Vpn) {
            let of = |held: &GroupEntry<Frames>| held.covers(page).then(|| Self::value(held, page).pfn().0);
            let pfn = match (of(old), of(new)) {
                (Some(was), Some(is)) if was != is => return None,
                (was, is) => is.or(was)?,
            };
            pfns[pages] = pfn;
            pages += 1;
        }
        self.entry(first, new.value, &pfns[..pages])
    }

    /// A run cannot have holes: it goes.
    fn without(_: &GroupEntry<Frames>, _: &GroupEntry<Frames>) -> Option<GroupEntry<Frames>> {
        None
    }

    fn class(&self, order: PageOrder) -> u8 {
        aligned::larger_class(&self.sizes, order)
    }
}
