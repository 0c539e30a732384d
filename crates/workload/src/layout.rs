//! Where the arrays of an algorithm lie.

use crate::memory::{Array, Kept, Word};
use mmulab_addr::Prot;
use mmulab_addr::{BASE_BYTES, VirtAddr};
use mmulab_trace::{Backing, Batch, Event, MapFlags};

/// Where every generator's data begin: aligned to 1 GiB, so that pages of any size fit.
pub const DATA: u64 = 0x10_0000_0000;
/// Where every generator's loop lies: one page of code.
pub const CODE: u64 = 0x40_0000;
/// Bytes from one block of code to the next.
pub const SITE_BYTES: u64 = 64;
/// The gap between arrays. It makes them mappings of their own, as those of a program that maps large arrays with guard
/// pages. Arrays of less than 1 GiB are also aligned to it.
const GAP: u64 = 2 << 20;
const GIB: u64 = 1 << 30;
/// No array may end above it: the lower half of 48-bit addresses, with room for a stack and libraries.
const END: u64 = 0x7000_0000_0000;
/// Most that may be kept.
const KEPT_MAX: u64 = 256 << 30;

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub bytes: u64,
    /// Rights.
    pub prot: Prot,
}

/// The arrays of an algorithm, placed one after another in the order they are asked for.
#[derive(Clone, Debug)]
pub struct Layout {
    regions: Vec<Region>,
    next: u64,
    kept: u64,
}

impl Default for Layout {
    fn default() -> Self {
        Self { regions: Vec::new(), next: DATA, kept: 0 }
    }
}

/// Records of `stride` bytes, whose fields are arrays.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    base: u64,
    stride: u64,
    len: u64,
}

impl Records {
    /// The field `offset` bytes into each record.
    pub fn field<T: Word>(&self, offset: u64) -> Array<T> {
        debug_assert!(offset + T::BYTES <= self.stride, "beyond the record");
        Array::new(self.base + offset, self.stride, self.len)
    }

    /// All words of type `T` of all records, in order.
    pub fn words<T: Word>(&self) -> Array<T> {
        Array::new(self.base, T::BYTES, self.len * (self.stride / T::BYTES))
    }
}

impl Layout {
    fn place(&mut self, bytes: u64, prot: Prot) -> u64 {
        let align = if bytes >= GIB { GIB } else { GAP };
        let base = self.next.checked_next_multiple_of(align).unwrap_or(END);
        self.regions.push(Region { base, bytes, prot });
        self.next = base.saturating_add(bytes).saturating_add(GAP);
        base
    }

    /// `len` elements side by side.
    pub fn array<T: Word>(&mut self, len: u64) -> Array<T> {
        Array::new(self.place(len.saturating_mul(T::BYTES), Prot::RW), T::BYTES, len)
    }

    /// `len` records of `stride` bytes, a multiple of 8.
    pub fn records(&mut self, len: u64, stride: u64) -> Records {
        Records { base: self.place(len.saturating_mul(stride), Prot::RW), stride, len }
    }

    /// The contents of `array` are kept.
    pub fn keep<T: Word>(&mut self, array: Array<T>) -> Kept<T> {
        let start = self.kept;
        self.kept = self.kept.saturating_add(array.len().saturating_mul(T::BYTES)).next_multiple_of(8);
        Kept::new(array, start as usize)
    }

    /// `len` elements side by side, contents kept.
    pub fn kept<T: Word>(&mut self, len: u64) -> Kept<T> {
        let array = self.array(len);
        self.keep(array)
    }

    /// `bytes` of code, aligned to 1 GiB or 2 MiB like data.
    pub fn code(&mut self, bytes: u64) -> u64 {
        self.place(bytes, Prot::RX)
    }

    /// The mappings, in the order they are made.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Bytes of all mappings.
    pub fn footprint(&self) -> u64 {
        self.regions.iter().fold(0, |sum, r| sum.saturating_add(r.bytes))
    }

    /// Bytes of contents that every memory keeps.
    pub fn kept_bytes(&self) -> u64 {
        self.kept
    }

    /// What is wrong with it, if it cannot be.
    ///
    /// # Errors
    /// More than an address space holds, or more kept than can be.
    pub fn check(&self) -> Result<(), String> {
        let tib = |bytes: u64| bytes as f64 / (1u64 << 40) as f64;
        if self.next > END {
            return Err(format!(
                "its arrays of {:.1} TiB do not fit below {END:#x}: make it smaller",
                tib(self.footprint())
            ));
        }
        if self.kept > KEPT_MAX {
            let (gib, most) = (self.kept >> 30, KEPT_MAX >> 30);
            return Err(format!(
                "{gib} GiB of its data must be kept in memory, at most {most} can be: make it smaller"
            ));
        }
        Ok(())
    }

    /// Tells of the mappings: the page of code of the program called `program`, then the arrays, whose pages are there
    /// from the beginning if `populate`.
    pub fn map(&self, program: &str, populate: bool, batch: &mut Batch) {
        let file = Backing::File { path: program.into(), offset: 0 };
        let code = Region { base: CODE, bytes: BASE_BYTES, prot: Prot::RX };
        let arrays = self.regions.iter().map(|region| (*region, Backing::Anon));
        for (Region { base, bytes, prot }, backing) in std::iter::once((code, file)).chain(arrays) {
            let populate = populate && backing == Backing::Anon;
            let (addr, flags) = (VirtAddr::new(base), MapFlags { populate, ..MapFlags::default() });
            batch.push_event(Event::Mmap { addr, len: bytes, prot, flags, backing });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_lie_apart_and_large_ones_on_large_pages() {
        let mut layout = Layout::default();
        let (a, b): (Array<u64>, Array<u32>) = (layout.array(10), layout.array(1 << 28));
        let c = layout.records(3, 48);
        assert_eq!(a.at(1), DATA + 8);
        assert_eq!(b.at(0), DATA + GIB, "1 GiB and more is aligned to 1 GiB");
        assert_eq!(c.field::<f64>(8).at(2), DATA + 2 * GIB + GAP + 2 * 48 + 8, "after a gap");
        assert_eq!(c.words::<u64>().len(), 18);
        assert_eq!(layout.footprint(), 80 + GIB + 144);
        assert!(layout.check().is_ok());
    }

    #[test]
    fn what_cannot_be_is_said() {
        let mut layout = Layout::default();
        layout.array::<u64>(1 << 60);
        layout.array::<u64>(u64::MAX);
        assert!(layout.check().unwrap_err().contains("make it smaller"));
        let mut layout = Layout::default();
        layout.kept::<u64>(1 << 40);
        assert!(layout.check().unwrap_err().contains("8192 GiB of its data must be kept"));
    }
}
