//! How much of a reservation must be in memory: clusters or pages. Paper 2 has both, 28 clusters being 448 pages.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A number of clusters (`28`, `"28 clusters"`) or of base pages (`"448 pages"`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threshold {
    /// Clusters of which any page is in memory.
    Clusters(u64),
    /// Base pages in memory.
    Pages(u64),
}

impl Threshold {
    /// The number.
    pub fn count(self) -> u64 {
        match self {
            Self::Clusters(count) | Self::Pages(count) => count,
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clusters(count) => write!(f, "{count} clusters"),
            Self::Pages(count) => write!(f, "{count} pages"),
        }
    }
}

impl Serialize for Threshold {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_string())
    }
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(Reader)
    }
}

struct Reader;

impl Visitor<'_> for Reader {
    type Value = Threshold;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of clusters, or pages as in \"448 pages\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Threshold, E> {
        let (count, unit) = text.trim().split_once(' ').unwrap_or((text.trim(), "clusters"));
        match (count.parse(), unit.trim()) {
            (Ok(count), "pages" | "page") => Ok(Threshold::Pages(count)),
            (Ok(count), "clusters" | "cluster") => Ok(Threshold::Clusters(count)),
            _ => Err(E::custom(format!("'{text}' is not a threshold: write \"28 clusters\" or \"448 pages\""))),
        }
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<Threshold, E> {
        Ok(Threshold::Clusters(count))
    }

    fn visit_i64<E: Error>(self, count: i64) -> Result<Threshold, E> {
        u64::try_from(count).map(Threshold::Clusters).map_err(|_| E::invalid_value(Unexpected::Signed(count), &self))
    }
}

impl JsonSchema for Threshold {
    fn schema_name() -> Cow<'static, str> {
        "Threshold".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of clusters (28, \"28 clusters\") or of base pages (\"448 pages\").",
            "anyOf": [
                { "type": "integer", "minimum": 1, "maximum": 512 },
                { "type": "string", "pattern": "^[1-9][0-9]* (clusters?|pages?)$" }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Threshold, String> {
        #[derive(Deserialize)]
        struct File {
            threshold: Threshold,
        }
        let file: Result<File, _> = toml::from_str(&format!("threshold = {text}"));
        file.map(|file| file.threshold).map_err(|error| error.to_string())
    }

    #[test]
    fn a_threshold_is_read_in_either_unit_and_refused_otherwise() {
        assert_eq!(read("28"), Ok(Threshold::Clusters(28)));
        assert_eq!(read("\"1 cluster\""), Ok(Threshold::Clusters(1)));
        assert_eq!(read("\"448 pages\""), Ok(Threshold::Pages(448)));
        for wrong in ["\"many\"", "\"4 regions\"", "-3", "1.5", "\"448pages\""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
