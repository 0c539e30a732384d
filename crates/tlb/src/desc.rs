//! Description of TLBs in a machine file: the arrays of both levels, the design of their entries, and the rules
//! between arrays (inclusion, ASID bits, coalescing). The types hold values only; `Hierarchy` gives them effect.

use crate::Design;
use mmulab_addr::{PageOrder, Side};
use mmulab_assoc::{Replacement, Ways};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which side an array serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Fetches.
    Instruction,
    /// Loads and stores.
    Data,
    /// Both.
    Both,
}

impl Placement {
    /// Whether lookups of `side` go there.
    pub const fn serves(self, side: Side) -> bool {
        matches!((self, side), (Self::Both, _) | (Self::Instruction, Side::Instruction) | (Self::Data, Side::Data))
    }
}

/// How an array that holds several page sizes is searched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Probe {
    /// All sizes at once: the latency does not depend on the size.
    #[default]
    Parallel,
    /// One size after another, smallest first (hash-rehash): each probe takes the array's latency.
    Serial,
}

/// How an entry of design `mix` records its superpages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Bundle {
    /// A bit for each: holes are possible.
    Bitmap,
    /// How many there are from the first on.
    Length,
}

/// Places allowed for a bundle that is recorded by its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Span {
    /// Within superpages that begin at a multiple of the largest bundle.
    #[default]
    Aligned,
    /// Anywhere.
    Anywhere,
}

/// Where the frames of a bundle may lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Frames {
    /// At any distance from its pages: the address is found by an addition.
    #[default]
    Any,
    /// At a multiple of the largest bundle from its pages: by concatenation.
    Aligned,
}

/// Action of a fill in the sets that were not probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mirrors {
    /// It writes there without a look: copies arise, and go when a lookup meets them (paper 4, section 4.3).
    #[default]
    Blind,
    /// It looks for the bundle, and writes over it.
    Merged,
}

/// Options of design `mix`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MixDesc {
    /// How an entry records its superpages: `bitmap` or `length`. Default: `bitmap` in level 1, `length` in level 2
    /// (paper 4, section 4.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<Bundle>,
    /// Bits added to each entry for the bitmap or the length, beyond the tag bits that a superpage leaves over. Default
    /// 0.
    #[schemars(range(min = 0, max = 64))]
    pub extra_bits: u16,
    /// The page size whose number chooses the set. Default: the smallest of `sizes`, or of a bundle of them. A larger
    /// one needs fewer mirrors, and sends neighbouring small pages to one set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<PageOrder>,
    /// Where a bundle that is encoded by its length may lie: `aligned` or `anywhere`. Default `aligned`.
    pub span: Span,
    /// Where its frames may lie: `any` or `aligned`. Default `any`.
    pub frames: Frames,
    /// How a fill writes to sets that were not probed: `blind` or `merged`. Default `blind`.
    pub mirrors: Mirrors,
    /// Small pages that one entry may translate too, by a bitmap: 1, 2, 4 or 8 (MIX with CoLT: paper 4, section
    /// 7.2). Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8), extend("x-power-of-two" = true))]
    pub small_group: Option<u16>,
}

/// A table that guesses the size of a page by the code that asks for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictorDesc {
    /// Entries.
    #[schemars(range(min = 1, max = 65536), extend("x-power-of-two" = true))]
    pub entries: u32,
    /// Cycles that a guess adds to each lookup of a second level; a first level's is hidden by the pipeline. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10_000))]
    pub cycles: u32,
}

/// Which entries the instructions in flight hold, and what replacing one costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldDesc {
    /// Cycles that a fetch waits which hits the second level and must replace an entry that is held.
    #[schemars(range(min = 1, max = 10_000))]
    pub cycles: u32,
    /// Instructions that are in flight at once. The entry of a page is held until as many began after the last one of
    /// the page.
    #[schemars(range(min = 1, max = 65536))]
    pub instructions: u32,
}

/// One TLB array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrayDesc {
    /// Its name in reports; unique in the machine.
    pub name: String,
    /// 1 or 2.
    #[schemars(range(min = 1, max = 2))]
    pub level: u8,
    /// The side that it serves: `instruction`, `data` or `both`.
    pub side: Placement,
    /// Entries in all.
    #[schemars(range(min = 1, max = 65536))]
    pub entries: u32,
    /// Ways of a set, or `"full"`. They must divide the entries. At most 256.
    pub ways: Ways,
    /// The page sizes an entry can hold. A set is chosen by the low bits of the page number at the entry's size
    /// (modulo the sets, where those are no power of two).
    pub sizes: Vec<PageOrder>,
    /// Which entry of a full set goes: `lru`, `tree-plru` or `random`. Default `lru`.
    #[serde(default)]
    pub replacement: Replacement,
    /// How several sizes are searched: `parallel` or `serial`. Default `parallel`.
    #[serde(default)]
    pub probe: Probe,
    /// Latency of a hit, in cycles; a first level's is hidden by the pipeline and should be 0. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10_000))]
    pub hit_cycles: u32,
    /// A page larger than any in `sizes` is held as its part of this size, which must be one of them. Default: it is
    /// not held at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smash_to: Option<PageOrder>,
    /// The first-level array whose evicted entries this one takes; it is then filled by nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim_of: Option<String>,
    /// Design: the pages that one entry may translate. Default `plain`.
    #[serde(default)]
    pub design: Design,
    /// Pages that one entry may translate together. Which designs have such a group, and how large it may be, is in the
    /// documentation of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub group: Option<u16>,
    /// Options of design `mix`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<MixDesc>,
    /// A page-size predictor in front of an array that is searched size by size: the size it guesses goes first.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictor: Option<PredictorDesc>,
    /// Cycles that the core stalls for each probe of a first level after its first. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 10_000))]
    pub probe_cycles: u32,
    /// One array for all cores rather than one for each: of level 2. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Each hardware thread of a core (`core.threads`) has one of its own, rather than all one together. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_thread: bool,
    /// Time after which 1/e (37 %) of its entries are left, in cycles: where another hardware thread's program
    /// displaces them. Each goes at random. For the designs `plain` and `zen`, and a core in time (`--timing`).
    /// Default: they stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000, max = 1_000_000_000_000_u64))]
    pub retention_cycles: Option<u64>,
    /// Whether instructions in flight hold entries, so that a second-level hit waits that must replace one: of level 1,
    /// of fetches. Default: none is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldDesc>,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
}

impl ArrayDesc {
    /// An array as most are: of one entry a page, least recently used first out, which looks at all its sizes at once
    /// and costs nothing to hit.
    pub fn plain(
        name: &str,
        (level, side): (u8, Placement),
        (entries, ways): (u32, Ways),
        sizes: &[PageOrder],
    ) -> Self {
        Self {
            name: name.into(),
            level,
            side,
            entries,
            ways,
            sizes: sizes.to_vec(),
            replacement: Replacement::Lru,
            probe: Probe::Parallel,
            hit_cycles: 0,
            smash_to: None,
            victim_of: None,
            design: Design::Plain,
            group: None,
            mix: None,
            predictor: None,
            probe_cycles: 0,
            shared: false,
            per_thread: false,
            retention_cycles: None,
            hold: None,
            source: String::new(),
            assumed: BTreeMap::new(),
        }
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Whether the second level holds all that the first holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Inclusion {
    /// Not enforced: walks fill both levels, and each evicts for itself.
    #[default]
    None,
    /// Enforced: what leaves the second level leaves the first.
    Inclusive,
}

/// Whose arrays coalesce.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Coalescing {
    /// Those of both sides.
    #[default]
    Both,
    /// Those that serve loads and stores only.
    Data,
    /// Those that serve fetches only.
    Instruction,
    /// None.
    None,
}

/// How the arrays work together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HierarchyDesc {
    /// Whether the second level includes the first: `none` or `inclusive`. Default `none`.
    pub inclusion: Inclusion,
    /// Bits of an ASID; 0 means that the kernel flushes all but global entries at each switch of address space.
    /// Default 12.
    #[schemars(range(min = 0, max = 16))]
    pub asid_bits: u8,
    /// Whose arrays coalesce as their `design` says: `both`, `data`, `instruction` or `none`; an array that serves both
    /// sides does with `both` alone. Otherwise a design that coalesces holds single pages as `plain` does.
    /// Default `both`.
    pub coalescing: Coalescing,
    /// Where the rules come from.
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    pub assumed: BTreeMap<String, String>,
}

impl Default for HierarchyDesc {
    fn default() -> Self {
        Self {
            inclusion: Inclusion::None,
            asid_bits: 12,
            coalescing: Coalescing::Both,
            source: String::new(),
            assumed: BTreeMap::new(),
        }
    }
}
