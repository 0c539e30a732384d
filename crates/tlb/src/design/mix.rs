//! MIX: one set-associative array for all page sizes, its sets chosen by the number of the small page, superpages
//! mirrored in all sets that their parts fall in and coalesced with their neighbours (Cox and Bhattacharjee, ASPLOS
//! 2017: paper 4, sections 3 and 4). And CoLT++: each size of a split array coalesces in groups of its own (paper 4,
//! section 7.2).

use super::bundles::{MAX_BITMAP, Shape};
use crate::{
    ArrayDesc,
    desc::{Bundle, Frames, Mirrors, MixDesc, Span},
};
use mmulab_addr::PageOrder;

/// Longest run a length may tell: what the nine bits that a 2 MiB page's tag has to spare can count.
const MAX_LENGTH: u16 = 512;
/// Most small pages of a bundle: those of a line.
const MAX_SMALL: u16 = 8;

/// What a `mix` array holds.
///
/// # Errors
/// What is impossible about it, with the arithmetic.
pub fn shape(desc: &ArrayDesc, sizes: &[PageOrder]) -> Result<Shape, String> {
    let options = desc.mix.clone().unwrap_or_default();
    let Some(group) = desc.group else {
        return Err("design mix needs group: give the superpages of the largest bundle, 1 for none".into());
    };
    let MixDesc { extra_bits, index, span, frames, mirrors, small_group, .. } = options;
    let bundle = options.bundle.unwrap_or(if desc.level == 1 { Bundle::Bitmap } else { Bundle::Length });
    if extra_bits > MAX_BITMAP {
        return Err(format!("mix.extra_bits is {extra_bits}: the widest bitmap has {MAX_BITMAP}; give no more"));
    }
    let smallest = sizes[0];
    if !group.is_power_of_two() {
        return Err(format!("group is {group}: design mix aligns bundles, give a power of two"));
    }
    if group > 1 {
        let &[_, superpage, ..] = sizes else {
            return Err(format!("group is {group}, and sizes holds no page larger than {smallest}: give 1, or a size"));
        };
        let regions = superpage.get() - smallest.get();
        let dropped = group.trailing_zeros();
        match bundle {
            Bundle::Bitmap => {
                let spare = u32::from(regions) + dropped;
                let least = u32::from(group).saturating_sub(spare);
                if group > MAX_BITMAP {
                    return Err(format!(
                        "group is {group}: a bitmap of at most {MAX_BITMAP} bits; bundle = \"length\" takes more"
                    ));
                }
                if u32::from(extra_bits) < least {
                    return Err(format!(
                        "a bitmap of {group} bits, and an entry for {superpage} pages has {regions} + log2({group}) = {spare} \
                         tag bits to spare: give a smaller group, or mix.extra_bits = {least}, which the area pays for"
                    ));
                }
            }
            Bundle::Length => {
                let spare = u32::from(regions) + u32::from(extra_bits);
                if group > MAX_LENGTH {
                    return Err(format!("group is {group}: give at most {MAX_LENGTH}"));
                }
                if dropped > spare {
                    return Err(format!(
                        "lengths up to {group} take log2({group}) = {dropped} bits, and an entry for {superpage} pages has \
                         {spare} to spare: give a smaller group"
                    ));
                }
            }
        }
    }
    let small = small_group.unwrap_or(1);
    if !small.is_power_of_two() || small > MAX_SMALL {
        return Err(format!("mix.small_group is {small}: give 1, 2, 4 or {MAX_SMALL} pages, those of a line"));
    }
    let lowest = PageOrder::new(smallest.get() + small.trailing_zeros() as u8);
    let index = index.unwrap_or(lowest);
    if small > 1 && index < lowest {
        return Err(format!("mix.index is {index}: bundles of {small} small pages need {lowest} or more"));
    }
    let of = |n: usize, small: u16, large: u16| if n == 0 { small } else { large };
    Ok(Shape {
        group: (0..sizes.len()).map(|n| of(n, small, group)).collect(),
        bitmap: (0..sizes.len()).map(|n| n == 0 || bundle == Bundle::Bitmap).collect(),
        index: vec![index; sizes.len()],
        sizes: sizes.to_vec(),
        span,
        frames,
        mirrors,
        mixed_dirty: true,
    })
}

/// What a `colt++` array holds: for each size groups with holes, in the set of the group's number.
///
/// # Errors
/// What is impossible about it, and what to do.
pub fn colt_plus(desc: &ArrayDesc, sizes: &[PageOrder]) -> Result<Shape, String> {
    let group = match desc.group {
        Some(n @ (2 | 4 | 8)) => n,
        Some(n) => return Err(format!("group is {n}: design colt++ shares an entry among 2, 4 or 8 pages")),
        None => return Err("design colt++ needs group: give 2, 4 or 8 pages".into()),
    };
    let up = |order: &PageOrder| PageOrder::new(order.get() + group.trailing_zeros() as u8);
    if let Some(largest) = sizes.iter().find(|o| o.get() + 3 > PageOrder::MAX.get()) {
        return Err(format!("sizes names {largest}: groups of it would be larger than any page"));
    }
    Ok(Shape {
        group: vec![group; sizes.len()],
        bitmap: vec![true; sizes.len()],
        index: sizes.iter().map(up).collect(),
        sizes: sizes.to_vec(),
        span: Span::Aligned,
        frames: Frames::Any,
        mirrors: Mirrors::Blind,
        mixed_dirty: false,
    })
}
