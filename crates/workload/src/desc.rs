use crate::{Generator, chase::Chase, gups::Gups, sequential::Stride, sparse::Sparse, zipf::Zipf};
use mmulab_addr::{BASE_BYTES, parse_bytes};
use mmulab_trace::Source;
use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use thiserror::Error;

/// Why a `gen:` text is no generator.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{text}: {what}")]
pub struct GenerateError {
    text: String,
    what: String,
}

/// HPCC RandomAccess: a table updated at random places.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct GupsDesc {
    /// Size of the table: a power of two from 4K to 64T. Default 64M.
    footprint: String,
    /// Updates, each one load and one store. `k`, `M` and `G` are powers of 1000. Default 1000000.
    updates: u64,
    /// Chooses where in the random sequence to begin. Default 1.
    seed: u64,
}

impl Default for GupsDesc {
    fn default() -> Self {
        Self { footprint: "64M".into(), updates: 1_000_000, seed: 1 }
    }
}

/// Loads of one element after another.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct SequentialDesc {
    /// Size of the array, from 4K to 64T. Default 64M.
    footprint: String,
    /// Loads. `k`, `M` and `G` are powers of 1000. Default 1000000.
    references: u64,
}

impl Default for SequentialDesc {
    fn default() -> Self {
        Self { footprint: "64M".into(), references: 1_000_000 }
    }
}

/// Loads at a fixed distance.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct StrideDesc {
    /// Size of the array, from 4K to 64T. Default 64M.
    footprint: String,
    /// Distance between loads, from 1 to the footprint. Default 4K.
    stride: String,
    /// Loads. `k`, `M` and `G` are powers of 1000. Default 1000000.
    references: u64,
}

impl Default for StrideDesc {
    fn default() -> Self {
        Self { footprint: "64M".into(), stride: "4K".into(), references: 1_000_000 }
    }
}

/// Loads of elements by a Zipf distribution.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ZipfDesc {
    /// Size of the array: a power of two from 4K to 64T. Default 64M.
    footprint: String,
    /// Exponent, from 0.01 to 10. Default 0.99.
    exponent: f64,
    /// Loads. `k`, `M` and `G` are powers of 1000. Default 1000000.
    references: u64,
    /// Seed. Default 1.
    seed: u64,
}

impl Default for ZipfDesc {
    fn default() -> Self {
        Self { footprint: "64M".into(), exponent: 0.99, references: 1_000_000, seed: 1 }
    }
}

/// Loads that each tell where the next one goes.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ChaseDesc {
    /// Size of all nodes, from 4K to 64T. Default 64M.
    footprint: String,
    /// Size of a node, from 8 to the footprint. Default 64.
    node: String,
    /// Loads. `k`, `M` and `G` are powers of 1000. Default 1000000.
    references: u64,
    /// Seed. Default 1.
    seed: u64,
}

impl Default for ChaseDesc {
    fn default() -> Self {
        Self { footprint: "64M".into(), node: "64".into(), references: 1_000_000, seed: 1 }
    }
}

/// Loads from random pages of those that are touched.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct SparseDesc {
    /// Size of the array, from 4K to 64T. Default 64M.
    footprint: String,
    /// Share of its pages that are touched, each at random, from 0.01 to 1. Default 0.9.
    share: f64,
    /// Loads. `k`, `M` and `G` are powers of 1000. Default 1000000.
    references: u64,
    /// Seed. Default 1.
    seed: u64,
}

impl Default for SparseDesc {
    fn default() -> Self {
        Self { footprint: "64M".into(), share: 0.9, references: 1_000_000, seed: 1 }
    }
}

const NAMES: [&str; 6] = ["gups", "sequential", "stride", "zipf", "pointer-chase", "sparse"];

/// The generators with the schemas of their parameters, as JSON.
pub fn list() -> Value {
    json!({
        "gups": schema_for!(GupsDesc),
        "sequential": schema_for!(SequentialDesc),
        "stride": schema_for!(StrideDesc),
        "zipf": schema_for!(ZipfDesc),
        "pointer-chase": schema_for!(ChaseDesc),
        "sparse": schema_for!(SparseDesc),
    })
}

/// The generator that `gen:NAME?key=value&key=value` names.
///
/// # Errors
/// An unknown name or key, with the nearest known one, or a value that cannot be.
pub fn open(text: &str) -> Result<Box<dyn Source>, GenerateError> {
    let bad = |what: String| GenerateError { text: text.to_owned(), what };
    let rest = text.strip_prefix("gen:").ok_or_else(|| bad("a generator is written gen:NAME?key=value".into()))?;
    let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut given = Map::new();
    for pair in query.split('&').filter(|p| !p.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| bad(format!("'{pair}' is no key=value")))?;
        let number = || count(value).map(Value::from).or_else(|| value.parse::<f64>().ok().map(Value::from));
        // Sizes are texts even when they are written as plain numbers.
        let is_text = matches!(key, "footprint" | "stride" | "node");
        let value = if is_text { Value::from(value) } else { number().unwrap_or_else(|| Value::from(value)) };
        if given.insert(key.to_owned(), value).is_some() {
            return Err(bad(format!("{key} is given twice")));
        }
    }
    let known = text.to_owned();
    match name {
        "gups" => {
            let d: GupsDesc = typed(given, &bad)?;
            Ok(Box::new(Generator::new(
                known,
                canonical(name, &d),
                Gups::new(power(&d.footprint, &bad)?, d.updates, d.seed),
            )))
        }
        "sequential" => {
            let d: SequentialDesc = typed(given, &bad)?;
            Ok(Box::new(Generator::new(
                known,
                canonical(name, &d),
                Stride::new(size(&d.footprint, &bad)?, 8, d.references),
            )))
        }
        "stride" => {
            let d: StrideDesc = typed(given, &bad)?;
            let footprint = size(&d.footprint, &bad)?;
            let stride = within("stride", &d.stride, 1, footprint, &bad)?;
            Ok(Box::new(Generator::new(known, canonical(name, &d), Stride::new(footprint, stride, d.references))))
        }
        "zipf" => {
            let d: ZipfDesc = typed(given, &bad)?;
            if !(0.01..=10.0).contains(&d.exponent) {
                return Err(bad(format!("exponent is {}: give 0.01 to 10", d.exponent)));
            }
            let footprint = power(&d.footprint, &bad)?;
            Ok(Box::new(Generator::new(
                known,
                canonical(name, &d),
                Zipf::new(footprint, d.exponent, d.references, d.seed),
            )))
        }
        "pointer-chase" => {
            let d: ChaseDesc = typed(given, &bad)?;
            let footprint = size(&d.footprint, &bad)?;
            let node = within("node", &d.node, 8, footprint, &bad)?;
            Ok(Box::new(Generator::new(known, canonical(name, &d), Chase::new(footprint, node, d.references, d.seed))))
        }
        "sparse" => {
            let d: SparseDesc = typed(given, &bad)?;
            if !(0.01..=1.0).contains(&d.share) {
                return Err(bad(format!("share is {}: give 0.01 to 1", d.share)));
            }
            let footprint = size(&d.footprint, &bad)?;
            Ok(Box::new(Generator::new(
                known,
                canonical(name, &d),
                Sparse::new(footprint, d.share, d.references, d.seed),
            )))
        }
        other => Err(bad(format!("no generator '{other}'{}; known: {}", hint(other, &NAMES), NAMES.join(", ")))),
    }
}

/// The one text of all that name the same references: every key, in the order of the alphabet, sizes in bytes.
fn canonical(name: &str, desc: &impl Serialize) -> String {
    let Ok(Value::Object(keys)) = serde_json::to_value(desc) else { return name.to_owned() };
    let sorted: BTreeMap<String, Value> = keys.into_iter().collect();
    let told = sorted.into_iter().map(|(key, value)| match value.as_str().and_then(parse_bytes) {
        Some(bytes) => format!("{key}={bytes}"),
        None => format!("{key}={value}"),
    });
    format!("gen:{name}?{}", told.collect::<Vec<_>>().join("&"))
}

/// A whole number, or one of thousands, millions or billions: `500k`, `35M`, `2G`.
fn count(text: &str) -> Option<u64> {
    let units = [(['k', 'K'], 1_000), (['m', 'M'], 1_000_000), (['g', 'G'], 1_000_000_000)];
    let (digits, unit) = units
        .into_iter()
        .find_map(|(letters, unit)| text.strip_suffix(letters).map(|digits| (digits, unit)))
        .unwrap_or((text, 1));
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn hint(given: &str, known: &[&str]) -> String {
    let near = known.iter().map(|k| (strsim::damerau_levenshtein(given, k), k)).min().filter(|(d, _)| *d <= 3);
    near.map(|(_, k)| format!(" (did you mean '{k}'?)")).unwrap_or_default()
}

fn typed<T: DeserializeOwned>(
    given: Map<String, Value>,
    bad: &dyn Fn(String) -> GenerateError,
) -> Result<T, GenerateError> {
    serde_json::from_value(Value::Object(given)).map_err(|e| {
        let message = e.to_string();
        let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        match quoted.split_first() {
            Some((key, known)) if message.starts_with("unknown field") => bad(format!("{message}{}", hint(key, known))),
            _ => bad(message),
        }
    })
}

fn within(
    key: &str,
    text: &str,
    low: u64,
    high: u64,
    bad: &dyn Fn(String) -> GenerateError,
) -> Result<u64, GenerateError> {
    parse_bytes(text)
        .filter(|b| (low..=high).contains(b))
        .ok_or_else(|| bad(format!("{key} is '{text}': give a size from {low} to {high} bytes, such as 64M")))
}

fn size(text: &str, bad: &dyn Fn(String) -> GenerateError) -> Result<u64, GenerateError> {
    within("footprint", text, BASE_BYTES, 64 << 40, bad)
}

fn power(text: &str, bad: &dyn Fn(String) -> GenerateError) -> Result<u64, GenerateError> {
    let bytes = size(text, bad)?;
    if bytes.is_power_of_two() {
        return Ok(bytes);
    }
    Err(bad(format!("footprint is '{text}': give a power of two, such as {}M", bytes.next_power_of_two() >> 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        open(text).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn mistakes_are_named_with_the_nearest_right_thing() {
        assert!(refused("gen:gupps").contains("did you mean 'gups'?"));
        assert!(refused("gen:gups?footprnt=1G").contains("did you mean 'footprint'?"));
        assert!(refused("gen:gups?footprint=3M").contains("power of two"));
        assert!(refused("gen:stride?stride=0").contains("stride is '0'"));
        assert!(refused("gen:zipf?exponent=0").contains("exponent is 0"));
        assert!(refused("gen:sparse?share=0").contains("share is 0"));
        assert!(refused("gen:gups?updates=many").contains("invalid type"));
        assert!(refused("gen:gups?seed=1&seed=2").contains("twice"));
    }

    #[test]
    fn texts_that_mean_the_same_have_one_identity() {
        let hash = |text: &str| open(text).unwrap().info().hash.clone().unwrap();
        let one = hash("gen:gups?footprint=1G&seed=1");
        assert!(one.starts_with("gen:gups?footprint=1073741824&seed=1&updates=1000000"), "{one}");
        assert_eq!(one, hash("gen:gups?updates=1000000&footprint=1024M"));
        assert_ne!(one, hash("gen:gups?footprint=1G&seed=2"));
        assert_eq!(one, hash("gen:gups?updates=1M&footprint=1G"));
        assert_eq!(count("35k"), Some(35_000));
        assert_eq!(count("18446744073709551615G"), None, "more than can be counted");
    }

    #[test]
    fn every_listed_generator_opens_with_its_defaults_and_ends() {
        for name in NAMES {
            let mut source = open(&format!("gen:{name}")).unwrap();
            let mut batch = mmulab_trace::Batch::default();
            let mut references = 0;
            while source.next_batch(&mut batch).unwrap() {
                references += batch.refs.iter().filter(|r| !r.is_control() && !r.is_fetch()).count();
            }
            assert_eq!(references, if name == "gups" { 2_000_000 } else { 1_000_000 }, "{name}");
        }
        assert_eq!(list().as_object().unwrap().len(), NAMES.len());
    }
}
