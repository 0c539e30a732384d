//! AMD's PTE coalescing as paper 1 found it (section 3.2): an aligned group of 4 (Zen 2 and newer) or 8 entries of a
//! line becomes one entry if all are present, accessed, equal in every attribute, and map equally aligned, contiguous
//! frames.
//!
//! The group is held as a page of 16 KB or 32 KB among the array's other sizes. That gives the rest: the entries of its
//! pages that led to it linger until they age out, an invalidation of one page drops the group and that page only, and
//! a group that is clean throughout says so, so that a store meets an entry it may not use and a walk follows; that
//! walk finds the dirty bits mixed, and the group is destroyed.
//!
//! ```text
//! page             0    1    2    3  |  4    5    6    7        a line of eight PTEs, group = 4
//! frame            40   41   42   43 |  60   61   -    63
//!                 '----------------' | '----------------'
//! a walk of ..     page 2: one entry |  page 5: page 6 is
//!                  for 16 KB, pages  |  missing, an entry
//!                  0 to 3            |  for 4 KB
//! ```

use super::{About, Built, Cost, Keys, Kind, Line, Looks, Plan, line::LINE_PAGES};
use crate::{
    CoalescingCounts,
    key::{MAX_SIZES, Value},
    pages::Pages,
};
use mmulab_addr::PageOrder;

pub const ABOUT: About = About {
    name: "zen",
    doc: "One page, or an aligned group of 4 or 8 base pages whose entries lie in one line, agree in every attribute, \
          were all touched, and map aligned, contiguous frames (AMD Zen: paper 1, section 3.2). `group`: 4 (Zen 2 and \
          newer) or 8 (Zen, Zen+).",
    keys: Keys::OF_PAGES,
    coalesces: true,
    // One bit: a group or a page.
    cost: |desc, _| Cost { extra_bits: 1, ..Cost::plain(desc) },
};

pub fn build(plan: &Plan) -> Result<Built, String> {
    let order = match plan.desc.group {
        Some(4) => PageOrder::P16K,
        Some(8) => PageOrder::P32K,
        Some(n) => return Err(format!("group is {n}: zen coalesces 4 or 8 pages (paper 1, section 3)")),
        None => return Err("design zen needs group: give 4 (Zen 2 and newer) or 8 (Zen, Zen+)".into()),
    };
    if plan.sizes.contains(&order) {
        return Err(format!("sizes names {order}, which design zen coalesces to: leave it out"));
    }
    plan.needs_base_pages()?;
    if plan.sizes.len() == MAX_SIZES {
        return Err(format!("{} sizes and a group: give at most {}", plan.sizes.len(), MAX_SIZES - 1));
    }
    let (mut sizes, mut classes) = (plan.sizes.to_vec(), plan.size_names());
    sizes.insert(0, order);
    classes.insert(0, order.to_string());
    Ok(Built {
        kind: Kind::Pages(Pages::new(plan.store(), plan.sets, plan.desc.entries, &sizes)),
        sizes,
        classes,
        group: Some(order),
        looks: Looks::AT_BASE_PAGES,
    })
}

/// The entry of the group of `order` around the line's page: the value of its first page, if the group may be one
/// entry. Refusals for lines that a walk read are counted by their reason.
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
