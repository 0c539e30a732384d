//! CoLT++: each page size of a split array coalesces in groups of its own: those pages of an aligned group that lie at
//! one distance from their frames (paper 4, section 7.2).
//!
//! ```text
//! | flags | ASID, group number less the set's bits | valid bits 7..0 | page size | frame of the group's first page |
//! ```

use super::{
    About, Built, Cost, Keys, Kind, Plan,
    about::bitmap_bits,
    bundles::{Bundles, Shape},
};
use crate::desc::{Frames, Mirrors, Span};
use mmulab_addr::PageOrder;

pub const ABOUT: About = About {
    name: "colt++",
    doc: "As `colt-sa`, and for every page size: those pages of an aligned group that lie at one distance from their \
          frames (CoLT++: paper 4, section 7.2). `group`: 2, 4 or 8 pages of each size.",
    keys: Keys { serial: true, ..Keys::OF_GROUPS },
    coalesces: true,
    cost: |desc, _| Cost { extra_bits: bitmap_bits(u32::from(desc.group.unwrap_or(0))), ..Cost::plain(desc) },
};

pub fn build(plan: &Plan) -> Result<Built, String> {
    let bundles = Bundles::new(shape(plan)?, plan);
    Ok(Built {
        looks: bundles.looks(),
        kind: Kind::Bundles(Box::new(bundles)),
        sizes: plan.sizes.to_vec(),
        classes: plan.size_names(),
        group: None,
    })
}

/// Shape of a `colt++` array: for each size, groups with holes, in the set of the group's number.
///
/// # Errors
/// The description is impossible; the error states the remedy.
fn shape(plan: &Plan) -> Result<Shape, String> {
    let (group, sizes) = (plan.group_of_2_to_8()?, plan.sizes);
    let up = |order: &PageOrder| PageOrder::new(order.get() + group.get());
    if let Some(largest) = sizes.iter().find(|o| o.get() + 3 > PageOrder::MAX.get()) {
        return Err(format!("sizes names {largest}: groups of it would be larger than any page"));
    }
    Ok(Shape {
        group: vec![group.base_pages() as u16; sizes.len()],
        bitmap: vec![true; sizes.len()],
        index: sizes.iter().map(up).collect(),
        sizes: sizes.to_vec(),
        span: Span::Aligned,
        frames: Frames::Any,
        mirrors: Mirrors::Blind,
        mixed_dirty: false,
    })
}
