//! Sparse storage for the contents of physical memory. Page walkers and kernels read and write page-table entries in
//! these bytes. Every simulated walk reads them, so a lookup takes two array steps. The bytes lie in slabs of 2 MiB,
//! which spare the host TLB misses.
//!
//! ```text
//! directory[pfn / 512] --> leaves[leaf][pfn % 512] --> contents[slot / 512][slot % 512] --> 512 words of a frame
//!     0: no leaf               0: no slot
//!     '------------------------'--- the frame reads as zeros
//! ```

use mmulab_addr::{BASE_SHIFT, Pfn, PhysAddr};

/// Words of eight bytes in a base frame.
const WORDS: usize = 512;
/// log2 of the frames one directory leaf covers (2 MiB).
const LEAF_SHIFT: u32 = 9;

/// The contents of physical memory, kept only for frames something was written to: page tables. A frame never
/// written reads as zeros, as a kernel hands it out.
///
/// Two array steps lead from a frame number to its bytes, so hardware models can afford to read it on every walk. 1 TiB
/// needs a directory of 4 MiB, filled as it is used.
pub struct PhysMem {
    frames: u64,
    /// By frame number / 512: where its leaf lies in `leaves`, plus one.
    directory: Vec<u32>,
    /// Leaves of 512 slots: index into `contents` plus one.
    leaves: Vec<[u32; 1 << LEAF_SHIFT]>,
    /// Frames' bytes, 2 MiB of them together: walks read them at random, and the host should need few translations of
    /// its own for that.
    contents: Vec<Box<Slab>>,
    /// Slots of `contents` ever used.
    used: usize,
    spare: Vec<u32>,
}

/// The bytes of 512 frames, aligned to 2 MiB so that the host can map them with one huge page.
#[repr(align(0x20_0000))]
struct Slab([[u64; WORDS]; SLAB]);

/// Frames in a slab.
const SLAB: usize = 512;

impl Slab {
    fn new() -> Box<Self> {
        let mut slab = Box::<Self>::new_uninit();
        // SAFETY: the range is the slab's own; the call advises and changes no contents. Its failure costs speed only.
        #[cfg(target_os = "linux")]
        unsafe {
            libc::madvise(slab.as_mut_ptr().cast(), size_of::<Self>(), libc::MADV_HUGEPAGE);
        }
        // SAFETY: a slab is plain words, for which all zeros are valid.
        unsafe {
            slab.as_mut_ptr().write_bytes(0, 1);
            slab.assume_init()
        }
    }
}

static ZEROS: [u64; WORDS] = [0; WORDS];

impl PhysMem {
    /// Memory of `bytes` (rounded down to frames), all zero.
    pub fn new(bytes: u64) -> Self {
        let frames = bytes >> BASE_SHIFT;
        let directory = vec![0; (frames as usize).div_ceil(1 << LEAF_SHIFT)];
        Self { frames, directory, leaves: Vec::new(), contents: Vec::new(), used: 0, spare: Vec::new() }
    }

    /// Frames in it.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    #[inline(always)]
    fn slot(&self, pfn: Pfn) -> Option<usize> {
        let leaf = *self.directory.get((pfn.0 >> LEAF_SHIFT) as usize)?;
        if leaf == 0 {
            return None;
        }
        let slot = self.leaves[leaf as usize - 1][pfn.0 as usize & ((1 << LEAF_SHIFT) - 1)];
        (slot != 0).then(|| slot as usize - 1)
    }

    #[inline(always)]
    fn frame(&self, pfn: Pfn) -> &[u64; WORDS] {
        match self.slot(pfn) {
            Some(slot) => &self.contents[slot / SLAB].0[slot % SLAB],
            None => &ZEROS,
        }
    }

    /// Whether something was written to a frame; another reads as zeros.
    pub fn holds(&self, pfn: Pfn) -> bool {
        self.slot(pfn).is_some()
    }

    /// The 64-byte line that holds `pa`, as hardware reads it.
    #[inline(always)]
    pub fn line(&self, pa: PhysAddr) -> &[u64; 8] {
        let first = (pa.0 as usize >> 3) & (WORDS - 1) & !7;
        self.frame(pa.pfn())[first..first + 8].try_into().expect("a line is eight words")
    }

    /// Has the host bring the line that holds `pa` near: a hint without effect on any result.
    #[inline(always)]
    pub fn prefetch(&self, pa: PhysAddr) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing the program could see, and any address is allowed.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.line(pa).as_ptr().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = pa;
    }

    /// The aligned word that holds `pa`.
    #[inline(always)]
    pub fn read(&self, pa: PhysAddr) -> u64 {
        self.frame(pa.pfn())[(pa.0 as usize >> 3) & (WORDS - 1)]
    }

    /// Writes the aligned word that holds `pa`. Writes outside memory are lost, as on a bus with nothing behind it;
    /// no allocator hands out such a frame.
    #[inline]
    pub fn write(&mut self, pa: PhysAddr, value: u64) {
        let word = (pa.0 as usize >> 3) & (WORDS - 1);
        if let Some(slot) = self.slot(pa.pfn()) {
            self.bytes_mut(slot)[word] = value;
        } else if value != 0
            && let Some(slot) = self.grow(pa.pfn())
        {
            self.bytes_mut(slot)[word] = value;
        }
    }

    #[inline(always)]
    fn bytes_mut(&mut self, slot: usize) -> &mut [u64; WORDS] {
        &mut self.contents[slot / SLAB].0[slot % SLAB]
    }

    /// Zeroes a frame and forgets its bytes.
    pub fn clear(&mut self, pfn: Pfn) {
        if let Some(slot) = self.slot(pfn) {
            self.bytes_mut(slot).fill(0);
            self.spare.push(slot as u32);
            let leaf = self.directory[(pfn.0 >> LEAF_SHIFT) as usize] as usize - 1;
            self.leaves[leaf][pfn.0 as usize & ((1 << LEAF_SHIFT) - 1)] = 0;
        }
    }

    /// Frames whose bytes are kept at present.
    pub fn resident_frames(&self) -> usize {
        self.used - self.spare.len()
    }

    #[cold]
    fn grow(&mut self, pfn: Pfn) -> Option<usize> {
        if pfn.0 >= self.frames {
            return None;
        }
        let entry = &mut self.directory[(pfn.0 >> LEAF_SHIFT) as usize];
        if *entry == 0 {
            self.leaves.push([0; 1 << LEAF_SHIFT]);
            *entry = self.leaves.len() as u32;
        }
        let slot = self.spare.pop().unwrap_or_else(|| {
            if self.used.is_multiple_of(SLAB) {
                self.contents.push(Slab::new());
            }
            self.used += 1;
            self.used as u32 - 1
        });
        self.leaves[*entry as usize - 1][pfn.0 as usize & ((1 << LEAF_SHIFT) - 1)] = slot + 1;
        Some(slot as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_cleared_frames_are_zero_when_reused() {
        let mut m = PhysMem::new(1 << 40);
        let pa = PhysAddr((1 << 40) - 4096 + 72);
        assert_eq!(m.read(pa), 0);
        m.write(pa, 7);
        assert_eq!(m.read(pa), 7);
        assert_eq!(m.line(pa)[1], 7);
        m.clear(pa.pfn());
        assert_eq!((m.read(pa), m.resident_frames()), (0, 0));
        m.write(PhysAddr(8), 1);
        assert_eq!(m.line(PhysAddr(0)), &[0, 1, 0, 0, 0, 0, 0, 0]);
        m.write(PhysAddr(1 << 40), 1);
        assert_eq!(m.resident_frames(), 1);
    }
}
