//! The description of physical memory: size, allocator parameters, and the state of free memory before the program
//! starts. Fragmentation (FMFI target, memhog) and aging decide how many huge pages the kernel can allocate.

use mmulab_addr::{BASE_BYTES, PageOrder, parse_bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// Memory that cannot be as described.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("memory.{key}: {what}")]
pub struct MemoryError {
    /// The key.
    pub key: &'static str,
    /// The mistake, and the remedy.
    pub what: String,
}

/// The history of memory before the program starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Aged {
    /// Nothing: all of it is free, in an order that no boot leaves it in.
    #[default]
    Off,
    /// The boot of a small guest.
    Booted,
    /// A boot, and then builds, the reading of files, and many short processes.
    Used,
}

/// Whether the pages that occupy memory before the program starts may be moved to other frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HeldPages {
    /// They may, by compaction and by daemons that need their frames: they are ordinary pages of a process.
    Movable,
    /// They stay where they are for the whole run, as pages that are locked for a device, or the kernel's own, do.
    Pinned,
}

/// Memory that is occupied before the program starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Fragment {
    /// Nothing.
    #[default]
    None,
    /// All of it, but for `free`: small chunks at the start of 2 MiB blocks, and whole blocks. Then `target` is the
    /// share of free memory that blocks of `order` cannot use. (The tool is that of paper 3, section VI; the index is
    /// Gorman and Whitcroft's.)
    Fmfi {
        /// The share of free memory that is to be unusable for blocks of `order`.
        #[schemars(range(min = 0.0, max = 1.0))]
        target: f64,
        /// Memory left free, such as `"4G"`: the program's footprint.
        #[schemars(extend("x-least" = "0", "x-most" = "16T"))]
        free: String,
        /// The block size the index is for. Default `2M`.
        #[serde(default = "two_mebibytes")]
        order: PageOrder,
        /// Whether the pages that hold the rest are `movable` or `pinned`. The tool of paper 3 holds ordinary pages of
        /// its own process, which Linux's compaction moves. FreeBSD has none. Default `movable`.
        #[serde(default = "movable")]
        held: HeldPages,
    },
    /// A share of it, in chunks placed at random (memhog, paper 4 section 6).
    Memhog {
        /// The share of memory taken, in percent.
        #[schemars(range(min = 0.0, max = 95.0))]
        percent: f64,
        /// How much lies together, such as `"2M"`; no source states it. Default `2M`.
        #[serde(default = "chunk")]
        #[schemars(extend("x-least" = "4K", "x-most" = "4T"))]
        chunk: String,
        /// How much of memory it is a share of, from the beginning; the rest is free, in whole blocks. With a chunk of
        /// `"4K"` base pages get frames that do not follow each other, as where page caches were reclaimed, and large
        /// pages whole blocks. Default all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-least" = "1M", "x-most" = "16T"))]
        within: Option<String>,
        /// How many regions of 2 MiB that memory lies in: some groups of eight frames in each, and what else is in them
        /// is taken. So pages come from as many entries of a hypervisor's page directories. Default: it lies together.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 8_388_608))]
        regions: Option<u32>,
        /// How much of memory these regions lie in, evenly and from the beginning. Default all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-least" = "2M", "x-most" = "16T"))]
        over: Option<String>,
        /// Whether the pages that are taken are `movable` or `pinned`; no paper that uses memhog states it. Default
        /// `pinned`: memory stays as fragmented as it was made.
        #[serde(default = "pinned", skip_serializing_if = "is_pinned")]
        held: HeldPages,
    },
}

fn movable() -> HeldPages {
    HeldPages::Movable
}

fn pinned() -> HeldPages {
    HeldPages::Pinned
}

fn is_pinned(held: &HeldPages) -> bool {
    *held == HeldPages::Pinned
}

fn two_mebibytes() -> PageOrder {
    PageOrder::P2M
}

fn chunk() -> String {
    "2M".into()
}

/// Physical memory, and how Linux hands it out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryDesc {
    /// How much there is, such as `"32G"`.
    #[schemars(extend("x-least" = "16M", "x-most" = "15T"))]
    pub size: String,
    /// The largest block of the buddy allocator, as an order of base pages. Default 10 (4 MiB), as
    /// MAX_PAGE_ORDER of Linux on x86-64.
    #[serde(default = "max_order")]
    #[schemars(range(min = 9, max = 13))]
    pub max_order: u8,
    /// Frames a per-CPU list is refilled with or relieved of at a time. Default 63, what
    /// `zone_batchsize` (mm/page_alloc.c) gives on a zone of 1 GiB or more.
    #[serde(default = "batch")]
    #[schemars(range(min = 1, max = 512))]
    pub pcp_batch: u32,
    /// Seed of whatever is placed at random. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = i64::MAX))]
    pub seed: u64,
    /// Its history before the program starts: `off`, none, so that free memory is in perfect order; `booted`; or
    /// `used`, for builds, reading of files and many processes. Free lists and memory in use are then as in guests of
    /// Linux 6.1, drawn by the seed. Under FreeBSD, or with a `fragment`, it changes nothing. Default `off`.
    #[serde(default)]
    pub aged: Aged,
    /// Memory that is occupied before the program starts. Default none.
    #[serde(default)]
    pub fragment: Fragment,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
}

fn max_order() -> u8 {
    10
}

fn batch() -> u32 {
    63
}

impl MemoryDesc {
    /// Memory of `size` with every default.
    pub fn of(size: &str) -> Self {
        Self {
            size: size.into(),
            max_order: max_order(),
            pcp_batch: batch(),
            seed: 0,
            aged: Aged::Off,
            fragment: Fragment::None,
            source: String::new(),
            assumed: BTreeMap::new(),
        }
    }

    /// Adds the state of memory to the assumptions. For a machine of another size, with more processors, or after other
    /// work, it is not known.
    pub fn say_aged(&mut self) {
        let after = match self.aged {
            Aged::Off => return,
            Aged::Booted => "had booted",
            Aged::Used => "had built programs, read files and run many processes",
        };
        let reason = format!(
            "free lists and memory in use as in guests of Linux 6.1 with one CPU and 1 or 2 GiB that {after}, drawn by \
             memory.seed; under FreeBSD and with memory.fragment it changes nothing"
        );
        self.assumed.entry("aged".into()).or_insert(reason);
    }

    /// Its size in bytes, whole frames; 0 where `size` is no size, which [`crate::Frames::new`] refuses.
    pub fn bytes(&self) -> u64 {
        parse_bytes(&self.size).unwrap_or(0) & !(BASE_BYTES - 1)
    }
}
