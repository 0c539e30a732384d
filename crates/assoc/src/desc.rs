//! Shape of set-associative arrays in machine files: the number of ways and the replacement policy. `geometry`
//! computes the number of sets and rejects shapes that cannot be built.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// Most ways a set may have.
const MAX_WAYS: u32 = 256;

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
            "anyOf": [{ "type": "integer", "minimum": 1, "maximum": MAX_WAYS }, { "const": "full" }],
        })
    }
}

/// Sets and ways of `entries` entries.
///
/// # Errors
/// A value that is impossible, and the remedy.
pub fn geometry(entries: u64, ways: Ways, replacement: Replacement) -> Result<(usize, usize), String> {
    const MAX_ENTRIES: u64 = 1 << 26;
    if !(1..=MAX_ENTRIES).contains(&entries) {
        return Err(format!("{entries} entries: give 1 to {MAX_ENTRIES}"));
    }
    let ways = match ways {
        Ways::Full => entries,
        Ways::Count(ways) => u64::from(ways),
    };
    if ways == 0 || !entries.is_multiple_of(ways) {
        let near = (1..=entries.min(u64::from(MAX_WAYS))).filter(|w| entries.is_multiple_of(*w));
        let near = near.min_by_key(|w| w.abs_diff(ways)).unwrap_or(1);
        return Err(format!("{ways} ways do not divide {entries} entries; {near} would"));
    }
    if ways > u64::from(MAX_WAYS) {
        return Err(format!("{ways} ways are more than {MAX_WAYS}"));
    }
    if replacement == Replacement::TreePlru && !ways.is_power_of_two() {
        return Err(format!("tree-plru needs a power of two of ways, not {ways}; use lru or random"));
    }
    Ok(((entries / ways) as usize, ways as usize))
}
