//! Byte counts in TOML and JSON descriptions: serde and JSON-schema support for sizes with a unit. Readers accept
//! text and plain numbers. Writers always print text.

use crate::{parse_bytes, show_bytes};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Unexpected, Visitor},
};
use std::{borrow::Cow, fmt};

/// A number of bytes, written `"64K"`, `"8M"`, or as a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Bytes(pub u64);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&show_bytes(self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(Reader)
    }
}

struct Reader;

impl Visitor<'_> for Reader {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, such as 64K")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
        let wrong = || E::custom(format!("'{text}' is not a number of bytes: write a number with K, M, G or T"));
        parse_bytes(text).map(Bytes).ok_or_else(wrong)
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<Bytes, E> {
        Ok(Bytes(bytes))
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<Bytes, E> {
        u64::try_from(bytes).map(Bytes).map_err(|_| E::invalid_value(Unexpected::Signed(bytes), &self))
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A number of bytes, with K, M, G or T (powers of 1024).",
            "examples": ["4096", "64K", "8M", "2G"],
        })
    }
}
