//! Assumptions of a description: values that no source states, collected from the `assumed` maps of all its tables.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// A value that no source states, and why it is what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Assumption {
    /// The table it is in, such as `tlb.STLB`.
    #[serde(rename = "where")]
    pub place: String,
    /// The key.
    pub key: String,
    /// Its value, as TOML.
    pub value: String,
    /// The reason.
    pub reason: String,
}

/// A description as TOML.
pub(super) fn value_of<T: Serialize>(description: &T) -> Value {
    Value::try_from(description).unwrap_or_else(|_| Value::Table(Table::new()))
}

/// Collects the `assumed` maps of every table, with the value each key has.
pub(super) fn gather(place: &str, value: &Value, into: &mut Vec<Assumption>) {
    match value {
        Value::Table(table) => {
            let reasons: BTreeMap<String, String> =
                table.get("assumed").and_then(|a| a.clone().try_into().ok()).unwrap_or_default();
            for (key, reason) in reasons {
                let value = table.get(&key).map(ToString::to_string).unwrap_or_default();
                into.push(Assumption { place: place.to_owned(), key, value, reason });
            }
            for (key, inner) in table.iter().filter(|(k, _)| *k != "assumed") {
                let below = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                gather(&below, inner, into);
            }
        }
        Value::Array(entries) => {
            for entry in entries {
                let name = entry.get("name").and_then(Value::as_str).unwrap_or("?");
                gather(&format!("{place}.{name}"), entry, into);
            }
        }
        _ => {}
    }
}
