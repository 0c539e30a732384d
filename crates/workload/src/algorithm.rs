//! Interface of an algorithm: its arrays, their initial contents, and the rounds of its outermost loop. One
//! implementation runs on every memory: the generator's and the real one of the native program. A recording of the
//! native program can thus be compared with the generated references. [`Sharing`] states how threads divide the rounds.

use crate::{
    layout::Layout,
    memory::{Memory, Setup},
};
use mmulab_trace::Loads;

/// An algorithm, written once for every memory, as the rounds of its outermost loop.
pub trait Algorithm: Clone + Send + 'static {
    /// Where its arrays lie.
    fn layout(&self) -> &Layout;

    /// Rounds in all, where that is known before they are done.
    fn rounds(&self) -> Option<u64>;

    /// Instructions of the rounds before `round`, where that is known without doing them.
    fn instructions_before(&self, round: u64) -> Option<u64> {
        let _ = round;
        None
    }

    /// Which loads wait for which, for cores in time. An address that a branch selects waits for nothing, for branches
    /// are predicted. None: not stated, so that both bounds must be run.
    fn loads(&self) -> Option<Loads> {
        None
    }

    /// Bytes that it takes to make its data ready, besides what is kept.
    fn built_bytes(&self) -> u64 {
        0
    }

    /// Makes what is made only once, and takes memory.
    fn build(&mut self) {}

    /// Tells what its data are before the first round, array by array, in the order a program fills them.
    fn prepare(&self, setup: &mut impl Setup);

    /// How threads share the rounds.
    fn sharing(&self) -> Sharing {
        Sharing::Alone
    }

    /// Goes to the beginning of `round` at once and answers true, if the algorithm keeps no contents and its rounds are
    /// known. Others answer false and stay where they are: they reach a round by doing those before.
    fn seek(&mut self, round: u64) -> bool {
        let _ = round;
        false
    }

    /// The next round; false when there was none left, and nothing was done.
    fn round(&mut self, memory: &mut impl Memory) -> bool;
}

/// How threads share the rounds of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One does them all, as each depends on the one before.
    Alone,
    /// Each takes the next ones when it is its turn, as with OpenMP's `schedule(dynamic)`.
    Turns,
    /// From round `after` on, all begin a phase of `each` rounds together, and each has an interval of it, as with
    /// OpenMP's `schedule(static)`. Rounds before are taken in turns. Only for algorithms that seek.
    Intervals {
        /// Rounds taken in turns.
        after: u64,
        /// Rounds of a phase; the last one may have fewer.
        each: u64,
    },
}

impl Sharing {
    /// All rounds are one phase.
    pub const INTERVALS: Self = Self::Intervals { after: 0, each: u64::MAX };
}
