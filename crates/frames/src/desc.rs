use mmulab_addr::{BASE_BYTES, PageOrder, parse_bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What occupies memory before the program starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Fragment {
    /// Nothing.
    #[default]
    None,
    /// All of it, but for `free`: small chunks at the start of 2 MiB blocks, and so many whole blocks that the free
    /// memory which blocks of `order` cannot use is `target` of it (the tool of paper 3, section VI; the index is Gorman
    /// and Whitcroft's).
    Fmfi {
        /// The share of free memory that is to be unusable for blocks of `order` (0.0..=1.0).
        target: f64,
        /// Memory left free, such as `"4G"`: the program's footprint.
        free: String,
        /// The block size the index is for. Default `2M`.
        #[serde(default = "two_mebibytes")]
        order: PageOrder,
    },
    /// A share of it, in chunks placed at random (memhog, paper 4 section 6).
    Memhog {
        /// The share of memory taken, in percent (0..=95).
        percent: f64,
        /// How much lies together, such as `"2M"`; no source states it. Default `2M`.
        #[serde(default = "chunk")]
        chunk: String,
    },
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
    /// How much there is, such as `"32G"`. From 16M to 16T.
    pub size: String,
    /// The largest block of the buddy allocator, as an order of base pages. Range 9..=13. Default 10 (4 MiB), as
    /// MAX_PAGE_ORDER of Linux on x86-64.
    #[serde(default = "max_order")]
    pub max_order: u8,
    /// Frames a per-CPU list is refilled with or relieved of at a time. Range 1..=512. Default 63, what
    /// `zone_batchsize` (mm/page_alloc.c) gives on a zone of 1 GiB or more.
    #[serde(default = "batch")]
    pub pcp_batch: u32,
    /// Seed of whatever is placed at random. Default 0.
    #[serde(default)]
    pub seed: u64,
    /// What occupies it before the program starts. Default nothing.
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
            fragment: Fragment::None,
            source: String::new(),
            assumed: BTreeMap::new(),
        }
    }

    /// Its size in bytes, whole frames; 0 where `size` is no size, which [`crate::Frames::new`] refuses.
    pub fn bytes(&self) -> u64 {
        parse_bytes(&self.size).unwrap_or(0) & !(BASE_BYTES - 1)
    }
}
