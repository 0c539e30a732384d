//! A value in a recipe: of a parameter, or where a parameter may be named. Workloads and their mixes have both.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A whole number or a text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}
