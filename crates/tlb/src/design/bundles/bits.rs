//! Positions of the bits that are set in a word: they stand for ways, or for pages of bitmaps.

/// The bits of a word, lowest first.
#[inline(always)]
pub fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        (word != 0).then(|| {
            word &= word - 1;
            bit
        })
    })
}
