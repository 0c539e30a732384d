//! What the tables of prefetchers and branch target buffers have in common: the place of an instruction. And the page
//! that prefetchers do not leave.

/// log2 of the lines of a page of 4 KiB, which prefetchers of physical memory do not leave: the next page may lie
/// anywhere.
pub(crate) const PAGE_SHIFT: u32 = 6;

/// The place of the instruction `load` in a table of `places`, which must not be 0: by a multiplicative hash.
#[inline]
pub(crate) fn place(load: u64, places: usize) -> usize {
    let hash = load.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((hash * places as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_spread_over_all_places() {
        let mut seen = [0; 64];
        (0..6400).for_each(|load| seen[place(4 * load, 64)] += 1);
        assert!(seen.iter().all(|&count| (50..200).contains(&count)), "{seen:?}");
    }
}
