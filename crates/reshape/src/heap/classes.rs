//! Size classes of jemalloc: four to each doubling, 16 bytes apart up to 128 (jemalloc(3), "Implementation notes"). Its
//! class of 8 bytes is left out, because C's malloc aligns to 16 if more than 8 were asked for.

use mmulab_addr::BASE_BYTES;

/// Distance of the smallest classes (LG_QUANTUM is 4).
const QUANTUM: u64 = 16;
/// Classes to a doubling (SC_LG_NGROUP is 2).
const LG_GROUP: u32 = 2;
/// The largest class kept in slabs; larger ones have pages of their own (SC_SMALL_MAXCLASS for pages of 4 KiB).
pub const SMALL_MOST: u64 = 14 * 1024;

/// Distance of the classes around `bytes`, which is above 0.
fn step(bytes: u64) -> u64 {
    let doubling = 63 - bytes.leading_zeros();
    (1u64 << doubling.saturating_sub(LG_GROUP)).max(QUANTUM)
}

/// The smallest class of at least `bytes`.
pub fn ceil(bytes: u64) -> u64 {
    let bytes = bytes.max(1);
    bytes.next_multiple_of(step(bytes - (bytes > QUANTUM) as u64))
}

/// The smallest class of pages of at least `bytes` (sz_psz_quantize_ceil).
pub fn pages_ceil(bytes: u64) -> u64 {
    let bytes = bytes.max(BASE_BYTES);
    bytes.next_multiple_of(step(bytes - 1).max(BASE_BYTES))
}

/// The largest class of pages of at most `bytes` (sz_psz_quantize_floor), which are at least a page.
pub fn pages_floor(bytes: u64) -> u64 {
    let step = step(bytes).max(BASE_BYTES);
    bytes / step * step
}

/// All classes kept in slabs.
pub fn small() -> Vec<u64> {
    let next = |&class: &u64| Some(ceil(class + 1)).filter(|&class| class <= SMALL_MOST);
    std::iter::successors(Some(QUANTUM), next).collect()
}

/// Bytes of a slab of a class: the fewest pages that it fills without rest (slab_size in jemalloc's sc.c).
pub fn slab_bytes(class: u64) -> u64 {
    (1..).map(|pages| pages * BASE_BYTES).find(|bytes| bytes % class == 0).unwrap_or(BASE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_the_manual() {
        let small = small();
        assert_eq!(small[..9], [16, 32, 48, 64, 80, 96, 112, 128, 160]);
        assert_eq!(small[small.len() - 4..], [8192, 10240, 12288, 14336]);
        assert_eq!(small.len(), 35, "the manual's 36 without that of 8 bytes");
        assert_eq!([1, 16, 17, 128, 129, 160, 161, 14336].map(ceil), [16, 16, 32, 128, 160, 160, 192, 14336]);
        assert_eq!(
            [1, 4096, 4097, 20481, 2 << 20, (2 << 20) + 1].map(pages_ceil),
            [4096, 4096, 8192, 24576, 2 << 20, 5 << 19]
        );
        assert_eq!([4096, 36864, 5 << 19, (5 << 19) + 4096].map(pages_floor), [4096, 32768, 5 << 19, 5 << 19]);
        assert_eq!([16, 48, 160, 10240].map(slab_bytes), [4096, 12288, 20480, 20480]);
    }
}
