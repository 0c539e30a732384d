//! Compendia: x86-64's tree, whose dense parts are merged into nodes (paper 5, Ainsworth and Jones, *Compendia*, ISMM
//! 2021). The meaning of entries is in `compendia::entry`; merging is in the rest of `compendia`.

use crate::{
    CompendiaDesc, Leaf, MapError, Marks, Next, Root, Step, TableFrames,
    compendia::{MergedTree, entry},
    table_format::{BuiltFor, TableFormat},
    x86::X86Entries,
};
use mmulab_addr::{PageOrder, Pfn, VirtAddr};
use mmulab_frames::PhysMem;
use std::ops::RangeInclusive;

/// x86-64's tree with merged nodes of 2 MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compendia {
    /// Levels.
    pub levels: u8,
    /// Where entries state that they point to a node.
    pub marks: Marks,
}

impl TableFormat for Compendia {
    const NAME: &'static str = "compendia";
    const DOC: &'static str = "The tree of x86-64, whose dense parts are merged into nodes of 2 MiB that translate two \
                               levels in one access (paper 5); 4 or 5 levels.";
    const LEVELS: RangeInclusive<u8> = 4..=5;
    const SKIPPED_LEVELS: u8 = 2;

    type Params = CompendiaDesc;
    type Entries = X86Entries;
    type Tables = MergedTree;

    fn new(levels: u8, params: Option<&CompendiaDesc>) -> Self {
        Self { levels, marks: params.map_or(Marks::default(), |params| params.marks) }
    }

    fn check(levels: u8, params: &CompendiaDesc) -> Result<(), String> {
        params.check(levels)
    }

    #[inline(always)]
    fn depth(self) -> u8 {
        self.levels
    }

    #[inline(always)]
    fn start(self, root: Root, va: VirtAddr) -> Step {
        entry::start(self.levels, root.lower, va)
    }

    #[inline(always)]
    fn next(self, bits: u64, step: Step, va: VirtAddr) -> Next {
        entry::next(self.marks, bits, step, va)
    }

    #[inline(always)]
    fn decode_leaf(self, bits: u64, level: u8) -> Option<Leaf> {
        entry::decode_leaf(self.marks, bits, level)
    }

    /// An entry may point to a node.
    #[inline(always)]
    fn frame_of_alike(self, _bits: u64, _leaf: u64, _order: PageOrder) -> Option<Pfn> {
        None
    }

    #[inline(always)]
    fn kept(self, bits: u64, level: u8) -> Option<(u64, u8)> {
        Some(entry::kept(self.marks, bits, level))
    }
}

impl BuiltFor<Compendia> for MergedTree {
    fn build(
        format: Compendia,
        params: Option<&CompendiaDesc>,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
    ) -> Result<Self, MapError> {
        Self::new(format.levels, Compendia::given(params), mem, frames)
    }
}
