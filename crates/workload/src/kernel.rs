use crate::{
    layout::Layout,
    memory::{Memory, Setup},
};

/// An algorithm, written once for every memory, as the rounds of its outermost loop.
pub trait Kernel: Send + 'static {
    /// Where its arrays lie.
    fn layout(&self) -> &Layout;

    /// Rounds in all, where that is known before they are done.
    fn rounds(&self) -> Option<u64>;

    /// Instructions of the rounds before `round`, where that is known without doing them.
    fn instructions_before(&self, round: u64) -> Option<u64> {
        let _ = round;
        None
    }

    /// Bytes that it takes to make its data ready, besides what is kept.
    fn built_bytes(&self) -> u64 {
        0
    }

    /// Makes its data ready.
    fn prepare(&mut self, setup: &mut impl Setup);

    /// Goes to the beginning of `round` at once, if it can: a kernel that keeps no contents and whose rounds are known
    /// can; others answer false and stay where they are, and reach a round by doing those before.
    fn seek(&mut self, round: u64) -> bool {
        let _ = round;
        false
    }

    /// The next round; false when there was none left, and nothing was done.
    fn round(&mut self, memory: &mut impl Memory) -> bool;
}
