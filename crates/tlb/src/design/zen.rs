//! AMD's PTE coalescing as paper 1 found it (section 3.2): an aligned group of 4 (Zen 2 and newer) or 8 entries of a
//! line becomes one entry if all are present, accessed, equal in every attribute, and map equally aligned, contiguous
//! frames.
//!
//! The group is held as a page of 16 KB or 32 KB among the array's other sizes. That gives the rest: the entries of its
//! pages that led to it linger until they age out, an invalidation of one page drops the group and that page only, and
//! a group that is clean throughout says so, so that a store meets an entry it may not use and a walk follows; that
//! walk finds the dirty bits mixed, and the group is destroyed.

use super::{Line, line::LINE_PAGES};
use crate::{CoalescingCounts, key::Value};
use mmulab_addr::PageOrder;

/// The page size that stands for a group, or what is wrong with it.
pub fn order(group: Option<u16>) -> Result<PageOrder, String> {
    match group {
        Some(4) => Ok(PageOrder::P16K),
        Some(8) => Ok(PageOrder::P32K),
        Some(n) => Err(format!("group is {n}: zen coalesces 4 or 8 pages (paper 1, section 3)")),
        None => Err("design zen needs group: give 4 (Zen 2 and newer) or 8 (Zen, Zen+)".into()),
    }
}

/// What the group of `order` around the line's page becomes: the value of its first page, if it may be one entry.
/// Refusals of what a walk read are counted by their reason.
pub fn coalesce(line: &Line, order: PageOrder, counts: &mut CoalescingCounts) -> Option<Value> {
    let pages = (order.base_pages() as usize).min(LINE_PAGES);
    let first = line.at & !(pages - 1);
    let group = (((1u16 << pages) - 1) as u8) << first;
    let frames = &line.pfns[first..first + pages];
    let refusal = if line.same & group != group {
        if line.missing & group != 0 {
            &mut counts.missing
        } else if line.untouched & group != 0 {
            &mut counts.untouched
        } else if line.other_rights & group != 0 {
            &mut counts.rights_differ
        } else {
            &mut counts.mixed_dirty
        }
    } else if frames.windows(2).any(|w| w[1] != w[0].wrapping_add(1)) {
        &mut counts.not_contiguous
    } else if frames[0] & (pages as u64 - 1) != 0 {
        &mut counts.misaligned
    } else {
        counts.coalesced += u64::from(line.walked);
        return Some(line.value.at(mmulab_addr::Pfn(frames[0])));
    };
    *refusal += u64::from(line.walked);
    None
}
