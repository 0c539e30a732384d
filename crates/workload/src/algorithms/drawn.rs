//! Algorithm shared by the generators of independent random loads, `sparse` and `zipf`: one load per round. A [`Draw`]
//! chooses the element from the number of the load alone, so parts and threads can start at any load.

use crate::{
    algorithm::{Algorithm, Sharing},
    layout::Layout,
    memory::{Array, Memory, Setup},
};
use mmulab_trace::Loads;

/// Which elements are loaded.
pub trait Draw: Clone + Send + 'static {
    /// The element of load `at`: a function of nothing else.
    fn index(&mut self, at: u64) -> u64;
}

/// Loads of elements that are drawn at random.
#[derive(Clone)]
pub struct Drawn<D> {
    layout: Layout,
    elements: Array<u64>,
    /// Which.
    pub draw: D,
    references: u64,
    at: u64,
}

impl<D> Drawn<D> {
    /// `references` of an array, by its number of elements.
    pub fn new(elements: u64, draw: D, references: u64) -> Self {
        let mut layout = Layout::default();
        let elements = layout.array(elements);
        Self { layout, elements, draw, references, at: 0 }
    }
}

impl<D: Draw> Algorithm for Drawn<D> {
    fn loads(&self) -> Option<Loads> {
        Some(Loads::Independent)
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.references)
    }

    fn instructions_before(&self, round: u64) -> Option<u64> {
        // Take the next index, load the element, add to the sum, advance, compare, branch.
        round.checked_mul(6)
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.elements, |i| i);
    }

    fn sharing(&self) -> Sharing {
        Sharing::INTERVALS
    }

    fn seek(&mut self, round: u64) -> bool {
        self.at = round;
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        m.block(0, 6);
        let index = self.draw.index(self.at);
        self.at += 1;
        m.load(self.elements, index, || 0);
        true
    }
}
