//! From the keys of a generator's text to its description, checked against the schema, and to the one text of all that
//! mean the same. Algorithms and GPU programs, which have registries of their own, are described alike.

use crate::query::{count, hint};
use mmulab_addr::parse_bytes;
use schemars::{JsonSchema, schema_for};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The description of a generator called `name` that `keys` are, and the one text of all that describe the same.
pub fn described<D>(name: &str, mut keys: Map<String, Value>) -> Result<(D, String), String>
where
    D: DeserializeOwned + Serialize + JsonSchema,
{
    let schema = schema_for!(D).to_value();
    // Sizes and names are texts even when they are written as plain numbers.
    for (key, value) in &mut keys {
        let field = &schema["properties"][key.as_str()];
        if let (Some(text), Some("integer" | "number")) = (value.as_str(), field["type"].as_str()) {
            *value = number(text).unwrap_or_else(|| value.clone());
        }
    }
    let keys = Value::Object(keys);
    mmulab_describe::within::<D>(&keys).map_err(|wrong| wrong.to_string())?;
    let desc: D = serde_json::from_value(keys).map_err(|e| {
        let message = e.to_string();
        let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        match quoted.split_first() {
            Some((key, known)) if message.starts_with("unknown field") => format!("{message}{}", hint(key, known)),
            _ => message,
        }
    })?;
    let identity = canonical(name, &desc);
    Ok((desc, identity))
}

/// The number that a text is, a whole one if it can be. JSON has no infinities and no NaN, so that these stay texts.
fn number(text: &str) -> Option<Value> {
    let whole = count(text).map(Value::from).or_else(|| text.parse::<i64>().ok().map(Value::from));
    whole.or_else(|| match text.parse::<f64>().ok().filter(|real| real.is_finite())? {
        // 1e6, too.
        real if real.fract() == 0.0 && real.abs() < i64::MAX as f64 => Some(Value::from(real as i64)),
        real => Some(Value::from(real)),
    })
}

/// The one text of all that name the same references: every key, in the order of the alphabet, sizes in bytes.
fn canonical(name: &str, desc: &impl Serialize) -> String {
    let Ok(Value::Object(keys)) = serde_json::to_value(desc) else { return name.to_owned() };
    let sorted: BTreeMap<String, Value> = keys.into_iter().collect();
    let told = sorted.into_iter().map(|(key, value)| match value.as_str() {
        Some(text) => format!("{key}={}", parse_bytes(text).map_or(text.to_owned(), |bytes| bytes.to_string())),
        None => format!("{key}={value}"),
    });
    format!("gen:{name}?{}", told.collect::<Vec<_>>().join("&"))
}
