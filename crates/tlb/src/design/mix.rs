//! MIX: one set-associative array for all page sizes, its sets chosen by the number of the small page, superpages
//! mirrored in all sets that their parts fall in and coalesced with their neighbours (Cox and Bhattacharjee, ASPLOS
//! 2017: paper 4, sections 3 and 4).
//!
//! ```text
//! | flags | ASID, page number less the set's bits | page size | frame |
//!           small page:  all of it
//!           superpage:   its own number; the bits below are a bitmap or a length of its bundle
//! ```

use super::{
    About, Built, Cost, Keys, Kind, Plan, Reads,
    about::bitmap_bits,
    bundles::{Bundles, MAX_BITMAP, Shape},
};
use crate::{
    ArrayDesc,
    desc::{Bundle, MixDesc},
};
use mmulab_addr::PageOrder;

pub const ABOUT: About = About {
    name: "mix",
    doc: "One small page, or a bundle of neighbouring superpages that lie beside each other in memory too, in every \
          set that their small pages choose (MIX: paper 4, sections 3 and 4). `group`: superpages of the largest \
          bundle, a power of two up to 64 (as a bitmap) or 512 (as a length).",
    keys: Keys { mix: true, ..Keys::OF_GROUPS },
    coalesces: true,
    cost: |desc, _| {
        let options = desc.mix.clone().unwrap_or_default();
        let small = u32::from(options.small_group.unwrap_or(1));
        Cost {
            extra_bits: u32::from(options.extra_bits) + if small > 1 { bitmap_bits(small) } else { 0 },
            range_bits: match bundle(desc, &options) {
                Bundle::Bitmap => 0,
                Bundle::Length => u32::from(desc.group.unwrap_or(1)).max(1).ilog2(),
            },
            // The address names one set, whatever the size.
            reads: Reads::Sets(1),
        }
    },
};

pub fn build(plan: &Plan) -> Result<Built, String> {
    let bundles = Bundles::new(shape(plan.desc, plan.sizes)?, plan);
    Ok(Built {
        looks: bundles.looks(),
        kind: Kind::Bundles(Box::new(bundles)),
        sizes: plan.sizes.to_vec(),
        classes: plan.size_names(),
        group: None,
    })
}

/// Longest run that a length can record: the count that fits into the nine spare bits of a 2 MiB page's tag.
const MAX_LENGTH: u16 = 512;
/// Most small pages of a bundle: those of a line.
const MAX_SMALL: u16 = 8;

/// How an entry records its superpages (paper 4, section 4.1).
fn bundle(desc: &ArrayDesc, options: &MixDesc) -> Bundle {
    options.bundle.unwrap_or(if desc.level == 1 { Bundle::Bitmap } else { Bundle::Length })
}

/// Shape of a `mix` array.
///
/// # Errors
/// The description is impossible; the error has the arithmetic.
fn shape(desc: &ArrayDesc, sizes: &[PageOrder]) -> Result<Shape, String> {
    let options = desc.mix.clone().unwrap_or_default();
    let Some(group) = desc.group else {
        return Err("design mix needs group: give the superpages of the largest bundle, 1 for none".into());
    };
    let MixDesc { extra_bits, index, span, frames, mirrors, small_group, .. } = options.clone();
    let bundle = bundle(desc, &options);
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
                        "a bitmap of {group} bits, and an entry for {superpage} pages has {regions} + log2({group}) = \
                         {spare} tag bits to spare: give a smaller group, or mix.extra_bits = {least}, which the area \
                         pays for"
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
                        "lengths up to {group} take log2({group}) = {dropped} bits, and an entry for {superpage} \
                         pages has {spare} to spare: give a smaller group"
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
