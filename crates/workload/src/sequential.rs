use crate::generator::{DATA, Round, Rounds};

/// Loads at a fixed distance from one another, round and round.
pub struct Stride {
    footprint: u64,
    stride: u64,
    references: u64,
    at: u64,
}

impl Stride {
    /// Loads every `stride` bytes of `footprint`.
    pub fn new(footprint: u64, stride: u64, references: u64) -> Self {
        Self { footprint, stride, references, at: 0 }
    }
}

impl Rounds for Stride {
    fn footprint(&self) -> u64 {
        self.footprint
    }

    fn rounds(&self) -> u64 {
        self.references
    }

    fn instructions(&self) -> u32 {
        // Load, add to the sum, advance, compare, branch.
        5
    }

    #[inline]
    fn next(&mut self) -> Round {
        let va = DATA.add(self.at);
        self.at += self.stride;
        if self.at >= self.footprint {
            self.at = 0;
        }
        Round { read: Some(va), write: None }
    }
}
