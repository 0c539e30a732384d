//! Armv8 with a granule of 16 KiB (Arm ARM, sections D8.2.6 and D8.7.1; `CONFIG_ARM64_16K_PAGES`). Its entries are in
//! [`crate::arm`].

use crate::{
    arm::{ArmGranule, ArmTree},
    geometry::Granule,
    table_format::Group,
};
use std::ops::RangeInclusive;

/// The granule of 16 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct K16;

/// The radix tree of 16 KiB.
pub type Arm16k = ArmTree<K16>;

impl ArmGranule for K16 {
    const NAME: &'static str = "armv8-16k";
    const DOC: &'static str = "Armv8's radix tree with 16 KiB granule: base pages of 16 KiB, leaves of 32 MiB, and of \
                               2 MiB and 1 GiB (Contiguous bit: 128 and 32 entries); 3 or 4 levels.";
    const GRANULE: Granule = Granule::K16;
    const LEVELS: RangeInclusive<u8> = 3..=4;
    const HIGHEST_LEAF: u8 = 2;
    const GROUPS: &'static [Group] = &[Group { level: 1, log: 7 }, Group { level: 2, log: 5 }];
}
