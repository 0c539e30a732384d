//! Anonymous memory with pages of a chosen size, and which size the kernel really gave it.

use crate::{Backing, HostError, random::Random};
use std::ptr::NonNull;

/// A base page.
pub const PAGE: usize = 4096;
/// A large page.
pub const LARGE: usize = 2 << 20;
/// The unit of caches.
pub const LINE: usize = 64;
/// `MADV_COLLAPSE` (linux/mman.h, from Linux 6.1 on), which needs no setting of the system.
const MADV_COLLAPSE: i32 = 25;

/// Memory that starts at a multiple of 2 MB. It is empty until it is stored to.
pub struct Region {
    mapped: NonNull<u8>,
    mapped_bytes: usize,
    start: NonNull<u8>,
    bytes: usize,
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this was mapped, and nothing refers to it any more.
        unsafe { libc::munmap(self.mapped.as_ptr().cast(), self.mapped_bytes) };
    }
}

impl Region {
    /// Maps `bytes`, rounded up to large pages.
    ///
    /// # Errors
    /// The system has not that much address space, or refuses the advice.
    pub fn map(bytes: usize, backing: Backing) -> Result<Self, HostError> {
        let bytes = bytes.next_multiple_of(LARGE);
        let mapped_bytes = bytes + LARGE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping wherever the kernel likes.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), mapped_bytes, protection, flags, -1, 0) };
        let mapped = match NonNull::new(mapped.cast::<u8>()) {
            Some(mapped) if mapped.as_ptr().cast() != libc::MAP_FAILED => mapped,
            _ => return Err(HostError::last(format!("mmap of {} MB", bytes >> 20))),
        };
        let skip = mapped.as_ptr().align_offset(LARGE);
        // SAFETY: below 2 MB, which the mapping has beyond `bytes`.
        let start = unsafe { mapped.add(skip) };
        let region = Self { mapped, mapped_bytes, start, bytes };
        let advice = match backing {
            Backing::Small => libc::MADV_NOHUGEPAGE,
            Backing::Large => libc::MADV_HUGEPAGE,
        };
        // A kernel without huge pages has only base pages: it refuses both, and is measured all the same.
        let _ = region.advise(advice);
        Ok(region)
    }

    fn advise(&self, advice: i32) -> bool {
        // SAFETY: the region is ours, and no advice used here changes its contents.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, advice) == 0 }
    }

    /// Stores to each base page, and has the kernel collapse what did not become large at once. Base pages are stored
    /// to in random order: frames that follow their pages would let a TLB coalesce them.
    pub fn populate(&self, backing: Backing, random: &mut Random) {
        let mut offsets: Vec<usize> = (0..self.bytes).step_by(PAGE).collect();
        if backing == Backing::Small {
            random.shuffle(&mut offsets);
        }
        for offset in offsets {
            // SAFETY: within the region.
            unsafe { self.start.add(offset).write_volatile(0) };
        }
        if backing == Backing::Large && self.huge_bytes().unwrap_or(0) < self.bytes as u64 {
            // Refused where memory is fragmented or the kernel is older; the curve says what was in force.
            self.advise(MADV_COLLAPSE);
        }
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of an offset that is a multiple of 8.
    pub fn at(&self, offset: u64) -> *mut usize {
        assert!(offset as usize + size_of::<usize>() <= self.bytes && offset.is_multiple_of(8));
        // SAFETY: just checked; the region's start is aligned to 2 MB.
        unsafe { self.start.as_ptr().add(offset as usize).cast() }
    }

    /// Bytes that huge pages map, by /proc/self/smaps; None where that cannot be read.
    pub fn huge_bytes(&self) -> Option<u64> {
        let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let (start, end) = (self.start.as_ptr() as u64, self.start.as_ptr() as u64 + self.bytes as u64);
        Some(huge_bytes_in(&text, start, end))
    }
}

/// `AnonHugePages` of the mappings that overlap a range, but no more than the range has.
fn huge_bytes_in(smaps: &str, start: u64, end: u64) -> u64 {
    let (mut inside, mut total) = (false, 0);
    for line in smaps.lines() {
        let head = line.split(' ').next().unwrap_or_default();
        if let Some((from, to)) = head.split_once('-')
            && let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16))
        {
            inside = from < end && to > start;
            continue;
        }
        if inside && head == "AnonHugePages:" {
            let kilobytes: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
            total += kilobytes << 10;
        }
    }
    total.min(end - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_starts_at_a_large_page_and_holds_what_is_stored() {
        for backing in [Backing::Small, Backing::Large] {
            let region = Region::map(3 << 20, backing).unwrap();
            region.populate(backing, &mut Random::new(1));
            assert_eq!((region.bytes(), region.at(0) as usize % LARGE), (4 << 20, 0));
            // SAFETY: within the region.
            unsafe {
                *region.at((4 << 20) - 8) = 7;
                assert_eq!(*region.at((4 << 20) - 8), 7);
            }
            let huge = region.huge_bytes().unwrap();
            assert!(huge <= 4 << 20 && (backing == Backing::Large || huge == 0), "{huge}");
        }
    }

    #[test]
    fn huge_bytes_are_those_of_the_mappings_in_the_range() {
        let smaps = "1000-3000 rw-p 00000000 00:00 0 \nSize: 8 kB\nAnonHugePages:      2048 kB\nVmFlags: rd wr\n\
                     3000-5000 rw-p 00000000 00:00 0 [heap]\nAnonHugePages:   4096 kB\n";
        assert_eq!(huge_bytes_in(smaps, 0x1000, 0x1000 + (64 << 20)), 6 << 20);
        assert_eq!(huge_bytes_in(smaps, 0x3000, 0x4000), 0x1000, "no more than the range has");
        assert_eq!(huge_bytes_in(smaps, 0x9000, 0xa000), 0);
    }
}
