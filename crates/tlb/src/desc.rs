use mmulab_addr::{PageOrder, Side};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{borrow::Cow, collections::BTreeMap};

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

/// Which entry of a full set goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The least recently used, exactly.
    #[default]
    Lru,
    /// By a binary tree of bits that point away from the recently used (ways must be a power of two).
    TreePlru,
    /// A random one, from a seeded generator.
    Random,
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

/// Ways of a set, or all entries in one set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ways {
    /// Fully associative.
    Full,
    /// So many.
    Count(u32),
}

impl Serialize for Ways {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Full => s.serialize_str("full"),
            Self::Count(n) => s.serialize_u32(*n),
        }
    }
}

impl<'de> Deserialize<'de> for Ways {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Count(u32),
            Text(String),
        }
        match Either::deserialize(d) {
            Ok(Either::Count(n)) => Ok(Self::Count(n)),
            Ok(Either::Text(t)) if t == "full" => Ok(Self::Full),
            _ => Err(serde::de::Error::custom("ways must be a number of ways or \"full\"")),
        }
    }
}

impl JsonSchema for Ways {
    fn schema_name() -> Cow<'static, str> {
        "Ways".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Ways of a set, or \"full\" for one set of all entries.",
            "anyOf": [{ "type": "integer", "minimum": 1 }, { "const": "full" }],
        })
    }
}

/// One TLB array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrayDesc {
    /// What reports call it; unique in the machine.
    pub name: String,
    /// 1 or 2.
    pub level: u8,
    /// What it serves: `instruction`, `data` or `both`.
    pub side: Placement,
    /// Entries in all. Range 1..=65536.
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
    pub hit_cycles: u32,
    /// A page larger than any in `sizes` is held as its part of this size, which must be one of them. Default: it is
    /// not held at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smash_to: Option<PageOrder>,
    /// The first-level array whose evicted entries this one takes; it is then filled by nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim_of: Option<String>,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
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

/// How the arrays work together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HierarchyDesc {
    /// Whether the second level includes the first: `none` or `inclusive`. Default `none`.
    pub inclusion: Inclusion,
    /// Bits of address-space tag; 0 means that a switch of address space flushes all but global entries. Range 0..=16.
    /// Default 12.
    pub asid_bits: u8,
    /// Where the rules come from.
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    pub assumed: BTreeMap<String, String>,
}

impl Default for HierarchyDesc {
    fn default() -> Self {
        Self { inclusion: Inclusion::None, asid_bits: 12, source: String::new(), assumed: BTreeMap::new() }
    }
}
