//! Code shared by the designs with entries for aligned groups of base pages.

use super::{
    Built, Kind, Line, Looks, Plan,
    group::{EntryOf, GroupDesign, GroupEntry, SEVERAL},
};
use crate::classes::COALESCED;
use mmulab_addr::{PageOrder, Pfn, Vpn};

/// The place in the line where the group of its page begins, and how many of its pages are in the line.
pub fn group_of(line: &Line, group: PageOrder) -> (usize, usize) {
    let pages = (group.base_pages() as usize).min(line.pfns.len());
    (line.at & !(pages - 1), pages)
}

/// An entry for the `pages` pages from place `first` of the line on, whose first page would have frame `base`.
pub fn in_group<X>(line: &Line, (first, pages): (usize, usize), mask: u16, base: Pfn, extra: X) -> GroupEntry<X> {
    GroupEntry {
        tag: crate::key::GLOBAL,
        whole: false,
        mask,
        pages: pages as u32,
        first: Vpn(line.first.0 + first as u64),
        value: line.value.at(base),
        extra,
    }
}

/// A group's entry without the pages for which another speaks now; `None` if none is left.
pub fn without<X: Copy>(old: &GroupEntry<X>, new: &GroupEntry<X>) -> Option<GroupEntry<X>> {
    let mask = old.mask & !new.mask;
    (mask != 0).then_some(GroupEntry { mask, ..*old })
}

/// The class of a page of the table of some size: base pages and groups come first, then the larger sizes in order.
pub fn larger_class(sizes: &[PageOrder], order: PageOrder) -> u8 {
    SEVERAL + sizes.iter().position(|&s| s == order).unwrap_or_default() as u8
}

/// The value that lies as far from the entry's as the page from the entry's first.
pub fn value_at_distance<R: GroupDesign>(held: &EntryOf<R>, vpn: Vpn) -> crate::key::Value {
    held.value.moved(vpn.0 - held.first.0)
}

/// An array with this storage, whose counts distinguish single base pages, groups and larger sizes.
pub fn built<S>(plan: &Plan, storage: S) -> Built<S> {
    let names = plan.size_names();
    let classes = ["4K".into(), COALESCED.into()].into_iter().chain(names.into_iter().skip(1)).collect();
    Built {
        kind: Kind::Own(Box::new(storage)),
        sizes: plan.sizes.to_vec(),
        classes,
        group: None,
        looks: Looks::AT_BASE_PAGES,
    }
}
