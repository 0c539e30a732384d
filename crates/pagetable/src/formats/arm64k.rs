//! Armv8 with a granule of 64 KiB (Arm ARM, sections D8.2.6 and D8.7.1; `CONFIG_ARM64_64K_PAGES`). Its entries are in
//! [`crate::arm`].

use crate::{
    arm::{ArmGranule, ArmTree},
    geometry::Granule,
    table_format::Group,
};
use std::ops::RangeInclusive;

/// The granule of 64 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct K64;

/// The radix tree of 64 KiB.
pub type Arm64k = ArmTree<K64>;

impl ArmGranule for K64 {
    const NAME: &'static str = "armv8-64k";
    const DOC: &'static str = "Armv8's radix tree with 64 KiB granule: base pages of 64 KiB, leaves of 512 MiB, and of \
                               2 MiB and 16 GiB (Contiguous bit: 32 entries each); 3 levels.";
    const GRANULE: Granule = Granule::K64;
    const LEVELS: RangeInclusive<u8> = 3..=3;
    const HIGHEST_LEAF: u8 = 2;
    const GROUPS: &'static [Group] = &[Group { level: 1, log: 5 }, Group { level: 2, log: 5 }];
}
