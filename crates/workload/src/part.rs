//! Parts of an algorithm's work, as threads would share them. Generators tell of one part, and programs whose threads
//! take turns do so in rounds of the same number.

/// One part of an algorithm's work: part `index` of `count`, divided as threads would divide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// From 0.
    pub index: u64,
    /// At least 1.
    pub count: u64,
}

impl Part {
    /// All of it.
    pub const WHOLE: Self = Self { index: 0, count: 1 };
    /// Rounds that a part takes at once where parts take turns, as with OpenMP's `schedule(static, 64)`.
    pub const TURN: u64 = 64;
}
