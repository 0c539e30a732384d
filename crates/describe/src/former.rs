//! Keys that had another name in earlier versions: files and `--set` may still use it.
//!
//! A field says so where it is declared, by `#[schemars(extend("x-formerly" = "guides"))]`. The value then moves to the
//! key's name of today before files are merged, so that nothing else knows of former names.

use serde_json::Value as Json;
use toml::{Table, Value};

/// What happens where both names of one key are given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Both {
    /// The former name stays, for whoever reads the table to refuse.
    Refused,
    /// The value under the former name counts: it was given later.
    FormerCounts,
}

/// Moves the values in `table`, which is to be read by `schema`, to their keys' names of today.
pub(crate) fn rename(schema: &Json, table: &mut Table, both: Both) {
    Renaming { root: schema, both }.table(schema, table);
}

/// The key's name of today, for the key `former` of the table that `schema` describes.
fn today<'a>(schema: &'a Json, former: &str) -> Option<&'a str> {
    let fields = schema["properties"].as_object()?;
    fields.iter().find(|(_, field)| field["x-formerly"] == former).map(|(key, _)| key.as_str())
}

struct Renaming<'a> {
    root: &'a Json,
    both: Both,
}

impl<'a> Renaming<'a> {
    fn table(&self, schema: &'a Json, table: &mut Table) {
        let keys: Vec<String> = table.keys().cloned().collect();
        for key in keys {
            let Some(now) = today(schema, &key) else { continue };
            if self.both == Both::FormerCounts || !table.contains_key(now) {
                let value = table.remove(&key);
                value.map(|value| table.insert(now.to_owned(), value));
            }
        }
        for (key, value) in table.iter_mut() {
            self.value(&schema["properties"][key.as_str()], value);
        }
    }

    fn value(&self, schema: &'a Json, value: &mut Value) {
        if let Some(name) = schema["$ref"].as_str().and_then(|r| r.rsplit('/').next()) {
            return self.value(&self.root["$defs"][name], value);
        }
        for several in ["anyOf", "oneOf", "allOf"] {
            schema[several].as_array().into_iter().flatten().for_each(|inner| self.value(inner, value));
        }
        match value {
            // A file that inherits a list changes its entries by `[LIST.NAME]`.
            Value::Table(entries) if !schema["items"].is_null() => {
                entries.iter_mut().for_each(|(_, entry)| self.value(&schema["items"], entry));
            }
            Value::Table(table) => self.table(schema, table),
            Value::Array(entries) => entries.iter_mut().for_each(|entry| self.value(&schema["items"], entry)),
            Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
        }
    }
}
