//! Armv8 with a granule of 4 KiB, as most systems have it. Its entries are in [`crate::arm`].

use crate::{
    arm::{ArmGranule, ArmTree},
    geometry::Granule,
    table_format::Group,
};
use std::ops::RangeInclusive;

/// The granule of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct K4;

/// The radix tree of 4 KiB.
pub type Arm = ArmTree<K4>;

impl ArmGranule for K4 {
    const NAME: &'static str = "armv8-4k";
    const DOC: &'static str = "Armv8's radix tree with 4 KiB granule: leaves of 4 KiB, 2 MiB and 1 GiB, and of 64 KiB \
                               and 32 MiB (Contiguous bit); 3 or 4 levels.";
    const GRANULE: Granule = Granule::K4;
    const LEVELS: RangeInclusive<u8> = 3..=4;
    const HIGHEST_LEAF: u8 = 3;
    /// Blocks of 1 GiB can be contiguous too; no system uses that.
    const GROUPS: &'static [Group] = &[Group { level: 1, log: 4 }, Group { level: 2, log: 4 }];
}
