//! GPU programs as grids of warps: launches, thread blocks, and the loads and stores of each warp. A program supplies
//! only index arithmetic. The order of the warps in time is left to the schedule.
//!
//! ```text
//! launch 0, 1, ...        in order
//!   block 0, 1, ...       each of `threads` threads
//!     warp 0, 1, ...      each of 32 lanes, the last possibly fewer
//!       step 0, 1, ...    at most one load or store instruction, by the active lanes
//! ```

use crate::{
    layout::{CODE, Layout, SITE_BYTES},
    memory::{Array, Word},
};
use mmulab_addr::VirtAddr;
use mmulab_trace::Ref;

/// Lanes of a warp.
pub const LANES: u64 = 32;

/// One kernel launch: a number of blocks, each of a number of threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launch {
    pub blocks: u64,
    pub threads: u64,
}

impl Launch {
    /// Warps of a block.
    pub fn warps(self) -> u64 {
        self.threads.div_ceil(LANES)
    }
}

/// Which warp of which block of which launch.
#[derive(Clone, Copy, Debug)]
pub struct Warp {
    pub launch: u64,
    pub block: u64,
    /// Within the block.
    pub index: u64,
}

impl Warp {
    /// Its threads' numbers within a block of `threads`.
    pub fn threads(self, threads: u64) -> std::ops::Range<u64> {
        self.index * LANES..((self.index + 1) * LANES).min(threads)
    }
}

/// A GPU program: its launches, one after another, and what each warp's loads and stores are. Whatever a warp does
/// follows from which one it is and from the data, never from when it runs.
pub trait Grid: Send + 'static {
    /// What a warp works out in one step for its later ones. It begins with what the warp before it in its place left.
    type Notes: Clone + Default + Send;

    /// Where its arrays lie.
    fn layout(&self) -> &Layout;

    /// Makes its data ready, where any is kept.
    fn prepare(&mut self) {}

    /// The launch that comes after `n` others; None after the last.
    fn launch(&self, n: u64) -> Option<Launch>;

    /// Step `step` of a warp: a load or store of the active lanes, or nothing if none is. False when it has ended.
    fn step(&self, warp: Warp, step: u64, notes: &mut Self::Notes, lanes: &mut Lanes) -> bool;
}

/// Instructions that a load or store is the last of, address arithmetic and all, unless told: assumed alike of all
/// programs.
pub const INSTRUCTIONS: u32 = 4;

/// What the lanes of an instruction name.
pub struct Lanes<'a> {
    refs: &'a mut Vec<Ref>,
    instructions: u32,
    write: bool,
}

impl<'a> Lanes<'a> {
    /// Each load or store is the last of this number of instructions.
    pub fn new(refs: &'a mut Vec<Ref>, instructions: u32) -> Self {
        Self { refs, instructions, write: false }
    }

    /// The lanes load, by the instruction at `site` (0..=63).
    pub fn load(&mut self, site: u64) -> &mut Self {
        self.begin(site, false)
    }

    /// The lanes store.
    pub fn store(&mut self, site: u64) -> &mut Self {
        self.begin(site, true)
    }

    fn begin(&mut self, site: u64, write: bool) -> &mut Self {
        debug_assert!(site < 64, "beyond the page of code");
        self.refs.push(Ref::fetch(VirtAddr::new(CODE + site * SITE_BYTES), self.instructions));
        self.write = write;
        self
    }

    /// A lane names element `index`.
    #[inline]
    pub fn lane<T: Word>(&mut self, array: Array<T>, index: u64) {
        let va = VirtAddr::new(array.at(index));
        self.refs.push(if self.write { Ref::write(va) } else { Ref::read(va) });
    }

    /// Each thread of `threads` names the element that `index` says, if any.
    #[inline]
    pub fn each<T: Word>(
        &mut self,
        array: Array<T>,
        threads: impl IntoIterator<Item = u64>,
        index: impl Fn(u64) -> Option<u64>,
    ) -> bool {
        threads.into_iter().filter_map(index).for_each(|at| self.lane(array, at));
        true
    }

    /// Each lane whose bit is set in `on` names the element that `index` says.
    #[inline]
    pub fn those<T: Word>(&mut self, array: Array<T>, mut on: u32, index: impl Fn(usize) -> u64) -> bool {
        while on != 0 {
            self.lane(array, index(on.trailing_zeros() as usize));
            on &= on - 1;
        }
        true
    }
}
