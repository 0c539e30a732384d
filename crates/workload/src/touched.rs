//! Touches memory once before the clock starts, in an order at random.
//!
//! A hypervisor may give a guest its memory late. On one host the first 200,000 accesses to 8 GB that had just been
//! written took up to 3,900 ns each. Once every page had been read, they took 41 to 92 ns (docs/concepts/timing.md).
//! Time that the host takes is no cost of translation.

use crate::{layout::Region, seed::Shuffle};
use std::ptr;

/// Seed of the order.
const ORDER: u64 = 1;

/// Reads a word of every page of `regions` that is in memory. Pages that nobody has touched stay so. Where the system
/// does not say which are in memory, nothing is read.
pub fn touch(regions: &[Region]) {
    let page = page_size();
    for region in regions {
        let there = resident(region).unwrap_or_default();
        let count = there.len().next_power_of_two() as u64;
        let order = Shuffle::new(count, ORDER);
        for at in (0..count).map(|i| order.forth(i)) {
            if there.get(at as usize).is_some_and(|flags| flags & 1 == 1) {
                let word = ptr::with_exposed_provenance::<u8>((region.base + at * page) as usize);
                // SAFETY: the page is mapped for reading and in memory.
                unsafe { word.read_volatile() };
            }
        }
    }
}

/// A byte for each page of a mapping, whose lowest bit says whether the page is in memory (mincore(2)).
fn resident(region: &Region) -> Option<Vec<u8>> {
    let mut there = vec![0; region.bytes.div_ceil(page_size()) as usize];
    let start = ptr::with_exposed_provenance_mut(region.base as usize);
    // SAFETY: `there` has room for as many pages as are asked about.
    let answer = unsafe { libc::mincore(start, region.bytes as usize, there.as_mut_ptr()) };
    (answer == 0).then_some(there)
}

fn page_size() -> u64 {
    // SAFETY: it reads a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::Prot;

    #[test]
    fn pages_that_nobody_has_touched_stay_out_of_memory() {
        let bytes = 64 * page_size();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, wherever there is room.
        let found =
            unsafe { libc::mmap(ptr::null_mut(), bytes as usize, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        assert_ne!(found, libc::MAP_FAILED);
        // Pages as small as they can be, whatever the system's settings are.
        // SAFETY: the mapping is this test's.
        unsafe { libc::madvise(found, bytes as usize, libc::MADV_NOHUGEPAGE) };
        let region = Region { base: found.expose_provenance() as u64, bytes, prot: Prot::RW };
        for page in [3, 40] {
            // SAFETY: within the mapping.
            unsafe { found.cast::<u8>().add((page * page_size()) as usize).write_volatile(1) };
        }
        touch(&[region]);
        let there = resident(&region).unwrap();
        let found_there: Vec<usize> = (0..64).filter(|&page| there[page] & 1 == 1).collect();
        assert_eq!(found_there, [3, 40]);
        // SAFETY: nothing refers to it any more.
        unsafe { libc::munmap(found, bytes as usize) };
    }

    #[test]
    fn memory_that_is_not_mapped_is_left_alone() {
        let nowhere = Region { base: 1 << 40, bytes: page_size(), prot: Prot::RW };
        assert!(resident(&nowhere).is_none());
        touch(&[nowhere]);
    }
}
