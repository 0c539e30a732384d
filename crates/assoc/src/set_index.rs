//! Which set of an array a number belongs to: its low bits, or its remainder where the sets are no power of two.

/// The number of sets of an array, and how sets are found.
///
/// ```text
/// 128 sets: number 130 belongs to set 2
///  96 sets: number 130 belongs to set 34
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetIndex {
    sets: u64,
    /// `sets - 1` where that is a mask. It is kept, for asking whether `sets` is a power of two takes longer.
    mask: Option<u64>,
}

impl SetIndex {
    /// Finds the sets of an array that has this number of them: at least one.
    pub fn new(sets: usize) -> Self {
        let sets = sets.max(1) as u64;
        Self { sets, mask: sets.is_power_of_two().then_some(sets - 1) }
    }

    /// How many sets there are.
    #[inline(always)]
    pub fn count(self) -> usize {
        self.sets as usize
    }

    /// The set of a number, such as a page's or a line's.
    #[inline(always)]
    pub fn of(self, number: u64) -> usize {
        match self.mask {
            Some(mask) => (number & mask) as usize,
            None => (number % self.sets) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_belongs_to_the_set_of_its_remainder() {
        assert_eq!(SetIndex::new(128).of(130), 2);
        assert_eq!(SetIndex::new(96).of(130), 34);
        assert_eq!((SetIndex::new(0).count(), SetIndex::new(0).of(130)), (1, 0));
    }
}
