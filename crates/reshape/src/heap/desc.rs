//! The `reshape.heap` table: the modelled allocators and their parameters, with the ranges that each parameter may
//! have.

use crate::ReshapeError;
use mmulab_addr::{BASE_BYTES, Bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The allocator that keeps a program's heap.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum HeapDesc {
    /// As FreeBSD's malloc: size classes, slabs, and unused pages given to the system by MADV_FREE.
    Jemalloc(JemallocDesc),
    /// As glibc's malloc: a heap that grows and shrinks at its end, and mappings of their own for large objects.
    Glibc(GlibcDesc),
    /// As V8's heap in Node.js: blocks below 2 MiB, each mapped by itself.
    Blocks(BlocksDesc),
}

/// References that the recorded allocator makes to its own records, as a chunk's size before it or a list through free
/// chunks. They are loads and stores in mappings, or in the brk heap, that have, or had, objects, but in no object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Bookkeeping {
    /// They stay where they are: so pages of the recorded heap stay in use.
    #[default]
    Keep,
    /// They are left out; the instructions that made them are not.
    Drop,
}

/// Parameters of the jemalloc-like allocator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JemallocDesc {
    /// Milliseconds in which unused pages are given to the system, half of them in the first half; 0: at once, -1:
    /// never. Default: 10000 (jemalloc(3), opt.dirty_decay_ms).
    #[schemars(range(min = -1, max = 86_400_000))]
    pub dirty_decay_ms: i64,
    /// Instructions in a millisecond, all processes together. Default: 3500000 (an assumption: one each cycle at 3.5
    /// GHz).
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub instructions_per_ms: u64,
    /// Size of the first mapping; later ones grow by one size class each. Default: `2M` (jemalloc's HUGEPAGE).
    #[schemars(extend("x-least" = "4K", "x-most" = "128G"))]
    pub first_mapping: Bytes,
    /// Alignment of mappings. Default: `2M` (FreeBSD aligns large mappings to superpages: mmap(2), vm_mmap.c).
    #[schemars(extend("x-least" = "4K", "x-most" = "1G", "x-power-of-two" = true))]
    pub mapping_align: Bytes,
    /// Treatment of references to memory that the recorded allocator keeps between objects. Default: `keep`.
    pub bookkeeping: Bookkeeping,
    /// The first of the 128 GiB of addresses that the heap has; the recorded program must have nothing there. Default:
    /// `64G`.
    #[schemars(extend("x-least" = "4K", "x-most" = "128T"))]
    pub window: Bytes,
}

/// Parameters of the glibc-like allocator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GlibcDesc {
    /// Objects from this size on are mapped by themselves if no free memory serves. Default: `128K` (mallopt(3),
    /// M_MMAP_THRESHOLD).
    #[schemars(extend("x-least" = "0", "x-most" = "128G"))]
    pub mmap_threshold: Bytes,
    /// Whether the thresholds follow the largest such object that was given back, up to 32 MiB. Default: true
    /// (mallopt(3)).
    pub dynamic: bool,
    /// Free bytes at the heap's end from which on it shrinks. Default: `128K` (mallopt(3), M_TRIM_THRESHOLD).
    #[schemars(extend("x-least" = "0", "x-most" = "128G"))]
    pub trim_threshold: Bytes,
    /// Memory that is taken, and kept when the heap shrinks, beyond the need. Default: `128K` (mallopt(3), M_TOP_PAD).
    #[schemars(extend("x-least" = "0", "x-most" = "128G"))]
    pub top_pad: Bytes,
    /// Treatment of references to memory that the recorded allocator keeps between objects. Default: `keep`.
    pub bookkeeping: Bookkeeping,
    /// The first of the 128 GiB of addresses that the heap has; the recorded program must have nothing there. Default:
    /// `64G`.
    #[schemars(extend("x-least" = "4K", "x-most" = "128T"))]
    pub window: Bytes,
}

/// Parameters of the allocator of blocks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BlocksDesc {
    /// Bytes of a block. Default: `256K` (V8's pages: kPageSizeBits is 18, src/common/globals.h).
    #[schemars(extend("x-least" = "4K", "x-most" = "2044K"))]
    pub block: Bytes,
    /// Distance between blocks, and what they are aligned to. Default: `2M` (an assumption: mappings of their own).
    #[schemars(extend("x-least" = "4K", "x-most" = "1G", "x-power-of-two" = true))]
    pub stride: Bytes,
    /// Objects larger than this are mapped by themselves. Default: `128K` (V8's kMaxRegularHeapObjectSize: half a
    /// page).
    #[schemars(extend("x-least" = "0", "x-most" = "1022K"))]
    pub largest: Bytes,
    /// Treatment of references to memory that the recorded allocator keeps between objects. Default: `keep`.
    pub bookkeeping: Bookkeeping,
    /// The first of the 128 GiB of addresses that the heap has; the recorded program must have nothing there. Default:
    /// `64G`.
    #[schemars(extend("x-least" = "4K", "x-most" = "128T"))]
    pub window: Bytes,
}

/// Where the heap lies: 64 GiB. That is above programs that are linked to a fixed place and their brk heaps. It is
/// below QEMU's mappings (from 0x4000000000 on) and the images laid out anew, and far below Linux's mappings.
const WINDOW: Bytes = Bytes(0x10_0000_0000);
/// Bytes of the window.
pub const WINDOW_BYTES: u64 = 128 << 30;
/// The end of what 48-bit addresses leave to programs.
const USER_END: u64 = 1 << 47;

impl Default for JemallocDesc {
    fn default() -> Self {
        Self {
            dirty_decay_ms: 10_000,
            instructions_per_ms: 3_500_000,
            first_mapping: Bytes(2 << 20),
            mapping_align: Bytes(2 << 20),
            bookkeeping: Bookkeeping::Keep,
            window: WINDOW,
        }
    }
}

impl Default for GlibcDesc {
    fn default() -> Self {
        let threshold = Bytes(128 << 10);
        Self {
            mmap_threshold: threshold,
            dynamic: true,
            trim_threshold: threshold,
            top_pad: threshold,
            bookkeeping: Bookkeeping::Keep,
            window: WINDOW,
        }
    }
}

impl Default for BlocksDesc {
    fn default() -> Self {
        Self {
            block: Bytes(256 << 10),
            stride: Bytes(2 << 20),
            largest: Bytes(128 << 10),
            bookkeeping: Bookkeeping::Keep,
            window: WINDOW,
        }
    }
}

impl HeapDesc {
    /// The first address of its window.
    pub fn window(&self) -> u64 {
        match self {
            Self::Jemalloc(d) => d.window.0,
            Self::Glibc(d) => d.window.0,
            Self::Blocks(d) => d.window.0,
        }
    }

    /// Treatment of the recorded allocator's own references.
    pub fn bookkeeping(&self) -> Bookkeeping {
        match self {
            Self::Jemalloc(d) => d.bookkeeping,
            Self::Glibc(d) => d.bookkeeping,
            Self::Blocks(d) => d.bookkeeping,
        }
    }

    /// Refuses what cannot be.
    pub fn check(&self) -> Result<(), ReshapeError> {
        let wrong = |key, value: Bytes, wanted| Err(ReshapeError::Heap { key, value, wanted });
        let pages = |bytes: Bytes| bytes.0 > 0 && bytes.0.is_multiple_of(BASE_BYTES);
        let fits = |bytes: Bytes| pages(bytes) && bytes.0 <= WINDOW_BYTES;
        let window = Bytes(self.window());
        if !window.0.is_multiple_of(2 << 20) || !(BASE_BYTES..=USER_END - WINDOW_BYTES).contains(&window.0) {
            return wrong("window", window, "a multiple of 2M whose next 128G lie below 2^47");
        }
        match self {
            Self::Jemalloc(d) => {
                if d.instructions_per_ms == 0 {
                    return wrong("instructions_per_ms", Bytes(0), "a number above 0");
                }
                if !fits(d.first_mapping) {
                    return wrong("first_mapping", d.first_mapping, "a multiple of 4K of at most 128G");
                }
                if !fits(d.mapping_align) || !d.mapping_align.0.is_power_of_two() || d.mapping_align.0 > 1 << 30 {
                    return wrong("mapping_align", d.mapping_align, "a power of two from 4K to 1G");
                }
            }
            Self::Glibc(d) => {
                for (key, value) in [("trim_threshold", d.trim_threshold), ("top_pad", d.top_pad)] {
                    if value.0 > WINDOW_BYTES {
                        return wrong(key, value, "at most 128G");
                    }
                }
            }
            Self::Blocks(d) => {
                if !pages(d.block) || d.block.0 >= 2 << 20 {
                    return wrong("block", d.block, "a multiple of 4K below 2M");
                }
                if !d.stride.0.is_power_of_two() || d.stride.0 < d.block.0 || d.stride.0 > 1 << 30 {
                    return wrong("stride", d.stride, "a power of two from the block's size to 1G");
                }
                if d.largest.0 > d.block.0 / 2 {
                    return wrong("largest", d.largest, "at most half a block");
                }
            }
        }
        Ok(())
    }
}
