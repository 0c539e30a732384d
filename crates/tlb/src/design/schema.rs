//! [`Design`] in files: by the names that the designs state, in descriptions, results and schemas.

use super::Design;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::{borrow::Cow, sync::LazyLock};

/// All names, in the order of the list: an unknown one is refused with them.
static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| Design::ALL.iter().map(|d| d.about().name).collect());

impl Serialize for Design {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.about().name)
    }
}

impl<'de> Deserialize<'de> for Design {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let found = Self::ALL.iter().find(|design| design.about().name == name);
        found.copied().ok_or_else(|| D::Error::unknown_variant(&name, &NAMES))
    }
}

impl JsonSchema for Design {
    fn schema_name() -> Cow<'static, str> {
        "Design".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let of = |design: &Self| {
            let about = design.about();
            json_schema!({ "description": about.doc, "type": "string", "const": about.name })
        };
        let all: Vec<Schema> = Self::ALL.iter().map(of).collect();
        json_schema!({ "description": "What one entry of an array may translate.", "oneOf": all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_read_back() {
        let mut names = NAMES.clone();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Design::ALL.len());
        assert_eq!(Design::default().about().name, "plain");
        let schema = schemars::schema_for!(Design);
        let listed = schema.get("oneOf").and_then(|all| all.as_array()).map_or(0, Vec::len);
        assert_eq!(listed, Design::ALL.len());
    }
}
