//! Ranges of numbers: each is declared once, at its field, and checked here for all descriptions alike.
//!
//! A number's range is its schema's `minimum` and `maximum`, which `#[schemars(range(min = .., max = ..))]` declares. A
//! size in bytes, such as `64K`, is a text to a schema: `#[schemars(extend("x-least" = "4K", "x-most" = "2M"))]`.
//! Either may be restricted to powers of two: `#[schemars(extend("x-power-of-two" = true))]`. The reference pages show
//! what is declared.

use mmulab_addr::{parse_bytes, show_bytes};
use schemars::{JsonSchema, schema_for};
use serde_json::Value as Json;
use std::fmt;

/// A step from a description to one of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into a table, by a key.
    Key(String),
    /// Into a list, by an index, with the name that the entry has.
    Entry(usize, Option<String>),
}

/// A value outside of its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Where it is.
    pub path: Vec<Step>,
    /// What it is, and what it may be.
    pub what: String,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.path.iter().enumerate() {
            match step {
                Step::Key(key) => write!(f, "{}{key}", if at == 0 { "" } else { "." })?,
                Step::Entry(_, Some(name)) => write!(f, ".{name}")?,
                Step::Entry(index, None) => write!(f, "[{index}]")?,
            }
        }
        write!(f, " is {}", self.what)
    }
}

/// A value of a description, whatever it was written in.
enum Node<'a, T> {
    Table(Vec<(&'a str, &'a T)>),
    List(&'a [T]),
    Whole(i128),
    Real(f64),
    Text(&'a str),
    Other,
}

/// Values that can be checked: those of TOML and of JSON.
pub trait Tree: Sized {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn node(&self) -> Node<'_, Self>;
}

impl Tree for toml::Value {
    #[allow(private_interfaces)]
    fn node(&self) -> Node<'_, Self> {
        match self {
            Self::Table(table) => Node::Table(table.iter().map(|(key, value)| (key.as_str(), value)).collect()),
            Self::Array(list) => Node::List(list),
            Self::Integer(n) => Node::Whole((*n).into()),
            Self::Float(n) => Node::Real(*n),
            Self::String(text) => Node::Text(text),
            Self::Boolean(_) | Self::Datetime(_) => Node::Other,
        }
    }
}

impl Tree for Json {
    #[allow(private_interfaces)]
    fn node(&self) -> Node<'_, Self> {
        match self {
            Self::Object(table) => Node::Table(table.iter().map(|(key, value)| (key.as_str(), value)).collect()),
            Self::Array(list) => Node::List(list),
            Self::Number(n) => match (n.as_i128(), n.as_f64()) {
                (Some(n), _) => Node::Whole(n),
                (None, Some(n)) => Node::Real(n),
                (None, None) => Node::Other,
            },
            Self::String(text) => Node::Text(text),
            Self::Null | Self::Bool(_) => Node::Other,
        }
    }
}

/// Checks every number and size of `value`, which is to be read as a `T`.
///
/// A value of another type than its field's is left to whoever reads it, but for a number: there it is refused with the
/// range.
///
/// # Errors
/// The first that is outside of its range.
pub fn within<T: JsonSchema>(value: &impl Tree) -> Result<(), OutOfRange> {
    let schema = schema_for!(T).to_value();
    Walk { root: &schema, path: Vec::new() }.value(&schema, value)
}

struct Walk<'a> {
    root: &'a Json,
    path: Vec<Step>,
}

impl<'a> Walk<'a> {
    fn value<T: Tree>(&mut self, schema: &'a Json, value: &T) -> Result<(), OutOfRange> {
        let node = value.node();
        self.limits(schema, &node)?;
        if let Some(name) = schema["$ref"].as_str().and_then(|r| r.rsplit('/').next()) {
            return self.value(&self.root["$defs"][name], value);
        }
        for several in ["anyOf", "oneOf"] {
            for inner in schema[several].as_array().into_iter().flatten().filter(|inner| is_meant(inner, &node)) {
                self.value(inner, value)?;
            }
        }
        match node {
            Node::Table(entries) => {
                for (key, inner) in entries {
                    let below = match &schema["properties"][key] {
                        Json::Null => &schema["additionalProperties"],
                        property => property,
                    };
                    self.below(Step::Key(key.to_owned()), below, inner)?;
                }
                Ok(())
            }
            Node::List(entries) => entries
                .iter()
                .enumerate()
                .try_for_each(|(at, inner)| self.below(Step::Entry(at, name_of(inner)), &schema["items"], inner)),
            _ => Ok(()),
        }
    }

    fn below<T: Tree>(&mut self, step: Step, schema: &'a Json, value: &T) -> Result<(), OutOfRange> {
        self.path.push(step);
        self.value(schema, value)?;
        self.path.pop();
        Ok(())
    }

    /// The limits that `schema` itself declares.
    fn limits<T>(&self, schema: &Json, node: &Node<'_, T>) -> Result<(), OutOfRange> {
        let wrong = |what: String| Err(OutOfRange { path: self.path.clone(), what });
        let Some(range) = Range::of(schema) else { return Ok(()) };
        let allowed = range.words();
        match (&range, node) {
            (Range::Bytes { .. }, Node::Text(text)) => match parse_bytes(text) {
                Some(bytes) if range.holds(bytes.into()) => Ok(()),
                Some(_) => wrong(format!("{text}: give {allowed}")),
                None => wrong(format!("'{text}', which is not a number of bytes: give {allowed}, such as 64K")),
            },
            (Range::Bytes { .. }, Node::Whole(n)) if range.holds(*n) => Ok(()),
            (Range::Bytes { .. }, Node::Whole(n)) => wrong(format!("{n}: give {allowed}")),
            (Range::Whole { .. }, Node::Whole(n)) if range.holds(*n) => Ok(()),
            (Range::Real { least, most }, Node::Whole(n)) if (*least..=*most).contains(&(*n as f64)) => Ok(()),
            (Range::Real { least, most }, Node::Real(n)) if (*least..=*most).contains(n) => Ok(()),
            (Range::Whole { .. } | Range::Real { .. }, Node::Whole(n)) => wrong(format!("{n}: give {allowed}")),
            (Range::Real { .. }, Node::Real(n)) => wrong(format!("{n}: give {allowed}")),
            (Range::Whole { .. }, Node::Real(n)) => wrong(format!("{n}: give a whole number, {allowed}")),
            (Range::Whole { .. } | Range::Real { .. }, Node::Text(text)) if !takes_texts(schema) => {
                wrong(format!("'{text}', which is not a number: give {allowed}"))
            }
            _ => Ok(()),
        }
    }
}

fn takes_texts(schema: &Json) -> bool {
    schema["type"].as_array().is_some_and(|types| types.iter().any(|t| t == "string"))
}

fn name_of<T: Tree>(entry: &T) -> Option<String> {
    let Node::Table(entries) = entry.node() else { return None };
    entries.into_iter().find(|(key, _)| *key == "name").and_then(|(_, value)| match value.node() {
        Node::Text(name) => Some(name.to_owned()),
        _ => None,
    })
}

/// Whether a value may be meant as this one of several alternatives. Its tag must be the alternative's, if that has
/// one, and its type, if that is stated.
fn is_meant<T: Tree>(schema: &Json, node: &Node<'_, T>) -> bool {
    match (&schema["properties"], node) {
        (Json::Object(fields), Node::Table(entries)) => fields.iter().all(|(key, field)| {
            let given = entries.iter().find(|(k, _)| k == key).map(|(_, value)| value.node());
            match (&field["const"], given) {
                (Json::String(tag), Some(Node::Text(text))) => tag == text,
                (Json::String(_), _) => false,
                _ => true,
            }
        }),
        _ => match (schema["type"].as_str(), node) {
            (Some("integer" | "number"), Node::Text(_)) | (Some("string"), Node::Whole(_) | Node::Real(_)) => false,
            _ => schema.get("const").is_none(),
        },
    }
}

/// Declarations of a schema about a number.
enum Range {
    Whole { least: i128, most: i128, power: bool },
    Real { least: f64, most: f64 },
    Bytes { least: u64, most: u64, power: bool },
}

impl Range {
    /// None where none is declared.
    fn of(schema: &Json) -> Option<Self> {
        let power = schema["x-power-of-two"] == true;
        if let (Some(least), Some(most)) = (schema["x-least"].as_str(), schema["x-most"].as_str()) {
            return Some(Self::Bytes { least: parse_bytes(least)?, most: parse_bytes(most)?, power });
        }
        let (least, most) = (schema.get("minimum")?, schema.get("maximum")?);
        let is =
            |name: &str| schema["type"] == name || schema["type"].as_array().is_some_and(|t| t.contains(&name.into()));
        match is("number") {
            true => Some(Self::Real { least: least.as_f64()?, most: most.as_f64()? }),
            false => Some(Self::Whole { least: whole(least)?, most: whole(most)?, power }),
        }
    }

    fn holds(&self, n: i128) -> bool {
        let (least, most, power) = match *self {
            Self::Whole { least, most, power } => (least, most, power),
            Self::Bytes { least, most, power } => (least.into(), most.into(), power),
            Self::Real { least, most } => return (least..=most).contains(&(n as f64)),
        };
        (least..=most).contains(&n) && (!power || n & (n - 1) == 0)
    }

    /// As an error says it after "give".
    fn words(&self) -> String {
        let of = |power: bool| if power { "a power of two from " } else { "" };
        match self {
            Self::Whole { least, most, power } => format!("{}{least} to {most}", of(*power)),
            Self::Real { least, most } => format!("{least} to {most}"),
            Self::Bytes { least, most, power } => {
                format!("{}{} to {}", of(*power), show_bytes(*least), show_bytes(*most))
            }
        }
    }
}

/// A limit of a whole number; some are written as reals.
fn whole(limit: &Json) -> Option<i128> {
    limit
        .as_number()
        .and_then(serde_json::Number::as_i128)
        .or_else(|| limit.as_f64().filter(|n| n.fract() == 0.0).map(|n| n as i128))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Outer {
        #[schemars(range(min = 1, max = 8))]
        count: u8,
        #[schemars(range(min = 0.5, max = 2.0))]
        factor: Option<f64>,
        #[schemars(extend("x-least" = "4K", "x-most" = "2M", "x-power-of-two" = true))]
        size: String,
        entry: Vec<Inner>,
        kind: Option<Kind>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Inner {
        name: String,
        #[schemars(range(min = 0, max = 9))]
        ways: u32,
        #[schemars(inner(range(min = 1, max = 5)))]
        levels: Vec<u8>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "lowercase")]
    #[allow(dead_code)]
    enum Kind {
        Small {
            #[schemars(range(min = 1, max = 2))]
            n: u8,
        },
        Large {
            #[schemars(range(min = 100, max = 200))]
            n: u8,
        },
    }

    fn refused(value: Json) -> String {
        within::<Outer>(&value).err().map(|wrong| wrong.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_value_is_refused_with_its_place_and_its_range() {
        assert_eq!(refused(json!({ "count": 8, "factor": 2, "size": "64K" })), "");
        assert_eq!(refused(json!({ "count": 9 })), "count is 9: give 1 to 8");
        assert_eq!(refused(json!({ "count": -1 })), "count is -1: give 1 to 8");
        assert_eq!(refused(json!({ "count": 1.5 })), "count is 1.5: give a whole number, 1 to 8");
        assert_eq!(refused(json!({ "count": "many" })), "count is 'many', which is not a number: give 1 to 8");
        assert_eq!(refused(json!({ "factor": 0.25 })), "factor is 0.25: give 0.5 to 2");
        assert_eq!(refused(json!({ "size": "3M" })), "size is 3M: give a power of two from 4K to 2M");
        assert_eq!(refused(json!({ "size": "12K" })), "size is 12K: give a power of two from 4K to 2M");
        assert!(refused(json!({ "size": "big" })).starts_with("size is 'big', which is not a number of bytes: give"));
        let entry = json!({ "entry": [{ "name": "A", "ways": 9 }, { "name": "B", "ways": 10 }] });
        assert_eq!(refused(entry), "entry.B.ways is 10: give 0 to 9");
        assert_eq!(refused(json!({ "entry": [{ "levels": [5, 6] }] })), "entry[0].levels[1] is 6: give 1 to 5");
    }

    #[test]
    fn numbers_that_json_does_not_have_are_refused() {
        for odd in ["nan", "inf", "-inf", "1e308"] {
            let table: toml::Value = format!("factor = {odd}").parse::<toml::Table>().expect("TOML").into();
            let what = within::<Outer>(&table).expect_err("refused").to_string();
            assert!(what.starts_with("factor is ") && what.ends_with(": give 0.5 to 2"), "{what}");
        }
    }

    #[test]
    fn of_alternatives_the_one_that_is_meant_counts() {
        assert_eq!(refused(json!({ "kind": { "kind": "small", "n": 2 } })), "");
        assert_eq!(refused(json!({ "kind": { "kind": "small", "n": 100 } })), "kind.n is 100: give 1 to 2");
        assert_eq!(refused(json!({ "kind": { "kind": "large", "n": 2 } })), "kind.n is 2: give 100 to 200");
    }
}
