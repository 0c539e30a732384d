//! Sets of ranges: which ranges of a set hold a number is found for four ways at once.

/// Lanes of a vector.
const FOUR: usize = 4;
/// Ways of a block: the bits of a word.
const BLOCK: usize = u64::BITS as usize;
/// Vectors compare signed numbers only: with this added to both sides, that is a comparison of unsigned ones.
const BIAS: u64 = 1 << 63;

/// The ranges of four ways: a line of the host's.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Four {
    first: [u64; FOUR],
    /// How many numbers, [`BIAS`] added.
    len: [u64; FOUR],
}

impl Four {
    const EMPTY: Self = Self { first: [0; FOUR], len: [BIAS; FOUR] };

    /// One bit for each range with `n - first < len + before`.
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
    #[inline(always)]
    fn meeting(&self, n: u64, before: u64) -> u64 {
        use std::arch::x86_64::{
            _mm256_add_epi64, _mm256_castsi256_pd, _mm256_cmpgt_epi64, _mm256_movemask_pd, _mm256_set1_epi64x,
            _mm256_setr_epi64x, _mm256_sub_epi64,
        };
        let four = |[a, b, c, d]: [u64; FOUR]| (a as i64, b as i64, c as i64, d as i64);
        let ((f0, f1, f2, f3), (l0, l1, l2, l3)) = (four(self.first), four(self.len));
        // SAFETY: the functions exist only where the whole program is built for CPUs with AVX2.
        unsafe {
            let at =
                _mm256_sub_epi64(_mm256_set1_epi64x(n.wrapping_add(BIAS) as i64), _mm256_setr_epi64x(f0, f1, f2, f3));
            let len = _mm256_add_epi64(_mm256_setr_epi64x(l0, l1, l2, l3), _mm256_set1_epi64x(before as i64));
            _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(len, at))) as u64
        }
    }

    /// One bit for each range with `n - first < len + before`.
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
    #[inline(always)]
    fn meeting(&self, n: u64, before: u64) -> u64 {
        let is = |way: usize| {
            let at = n.wrapping_add(BIAS).wrapping_sub(self.first[way]) as i64;
            at < self.len[way].wrapping_add(before) as i64
        };
        (0..FOUR).fold(0, |found, way| found | u64::from(is(way)) << way)
    }
}

/// A range of numbers for each way of each set. Ranges, and the numbers asked for, are shorter than 2^62.
#[derive(Clone)]
pub struct Ranges {
    fours: Vec<Four>,
    /// Vectors of a set.
    stride: usize,
    ways: usize,
}

impl Ranges {
    /// Empty ranges.
    pub fn new(sets: usize, ways: usize) -> Self {
        let stride = ways.div_ceil(FOUR);
        Self { fours: vec![Four::EMPTY; sets * stride], stride, ways }
    }

    /// Blocks of up to 64 ways that a set is asked for by.
    #[inline(always)]
    pub fn blocks(&self) -> usize {
        self.stride.div_ceil(BLOCK / FOUR)
    }

    /// Has a way hold the `len` numbers from `first` on; none for a `len` of 0.
    #[inline(always)]
    pub fn put(&mut self, set: usize, way: usize, first: u64, len: u64) {
        let four = &mut self.fours[set * self.stride + way / FOUR];
        four.first[way % FOUR] = first;
        four.len[way % FOUR] = len.wrapping_add(BIAS);
    }

    /// The ways of a block whose ranges hold one of the numbers from `n - before` to `n`, bit by bit. A way that holds
    /// none may be among them if `before` is not 0.
    #[inline(always)]
    pub fn meeting(&self, set: usize, block: usize, n: u64, before: u64) -> u64 {
        // Lanes beyond the last way hold nothing.
        let ways = u64::MAX >> (BLOCK - (self.ways - block * BLOCK).min(BLOCK));
        if self.stride == 1 {
            return self.fours[set].meeting(n, before) & ways;
        }
        let (first, end) = (set * self.stride + block * (BLOCK / FOUR), (set + 1) * self.stride);
        let fours = self.fours[first..end].iter().take(BLOCK / FOUR);
        fours.rev().fold(0, |found, four| found << FOUR | four.meeting(n, before)) & ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ranges: &Ranges, n: u64, before: u64) -> Vec<usize> {
        let in_block = |block| {
            let bits = ranges.meeting(1, block, n, before);
            (0..64).filter(move |way| bits >> way & 1 == 1).map(move |way| block * 64 + way)
        };
        (0..ranges.blocks()).flat_map(in_block).collect()
    }

    #[test]
    fn ways_are_found_by_what_they_hold() {
        let mut ranges = Ranges::new(2, 70);
        for (way, first, len) in [(0, 10, 5), (3, 1, 1), (4, 14, 100), (69, 1 << 50, 2)] {
            ranges.put(1, way, first, len);
        }
        let ways = |n| found(&ranges, n, 0);
        assert_eq!([9, 10, 14, 15, 113, 114].map(ways), [vec![], vec![0], vec![0, 4], vec![4], vec![4], vec![]]);
        assert_eq!([0, 1, (1 << 50) + 1, (1 << 50) + 2].map(ways), [vec![], vec![3], vec![69], vec![]]);
        // Some of 7 to 14, of 15 to 20.
        assert_eq!((found(&ranges, 14, 7), found(&ranges, 20, 5)), (vec![0, 4], vec![4]));
        assert!(found(&ranges, 99, 99).iter().all(|&way| way < 70), "there are no more");
        assert_eq!(ranges.meeting(0, 0, 12, 0), 0);
        ranges.put(1, 4, 0, 0);
        assert_eq!(ranges.meeting(1, 0, 50, 0), 0);
    }
}
