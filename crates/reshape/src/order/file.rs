//! Files of function orders (`mmulab reorder --out`): for each ELF file, which bytes of its code go where. An order is
//! a permutation: the bytes that move are those that are moved to.

use crate::error::ReshapeError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the layout of such files.
pub const SCHEMA: u32 = 1;

/// Orders of the functions of ELF files.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderFile {
    /// Version of this layout: 1.
    #[schemars(range(min = 1, max = 1))]
    pub schema: u32,
    /// How the order was found: `c3`.
    pub method: String,
    /// The recording whose calls it was found by.
    pub trace: String,
    /// The files.
    pub files: Vec<OrderedFile>,
}

/// The order of one file's functions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderedFile {
    /// Its path, as mappings name it.
    pub path: String,
    /// Its functions that move, by offset.
    pub moves: Vec<Move>,
}

/// A function that moves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// Where it begins in the file.
    #[schemars(range(min = 0, max = i64::MAX))]
    pub offset: u64,
    /// Its bytes, with those behind it up to the next function.
    #[schemars(range(min = 1, max = i64::MAX))]
    pub bytes: u64,
    /// Where it begins in the order.
    #[schemars(range(min = 0, max = i64::MAX))]
    pub to: u64,
    /// Its symbol, if it has one. Nothing depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl OrderFile {
    /// Checks that each file's order is a permutation of its bytes.
    ///
    /// # Errors
    /// Where it is not.
    pub fn check(&self) -> Result<(), ReshapeError> {
        if self.schema != SCHEMA {
            let why = format!("schema is {}; this version of mmulab reads {SCHEMA}", self.schema);
            return Err(ReshapeError::Order(why));
        }
        for file in &self.files {
            let wrong = |why: String| Err(ReshapeError::Order(format!("{}: {why}", file.path)));
            let mut from: Vec<(u64, u64)> = Vec::new();
            let mut to = Vec::new();
            for Move { offset, bytes, to: target, .. } in &file.moves {
                if *bytes == 0 || offset.checked_add(*bytes).is_none() || target.checked_add(*bytes).is_none() {
                    return wrong(format!("the move of {bytes} bytes from {offset:#x} to {target:#x} is none"));
                }
                from.push((*offset, offset + bytes));
                to.push((*target, target + bytes));
            }
            match (covered(from), covered(to)) {
                (Ok(from), Ok(to)) if from == to => {}
                (Ok(_), Ok(_)) => return wrong("code moves to where none moves away".into()),
                (Err(at), _) => return wrong(format!("the code at {at:#x} moves twice")),
                (_, Err(at)) => return wrong(format!("two functions move to {at:#x}")),
            }
        }
        Ok(())
    }
}

/// The union of ranges, as ranges that do not touch; or where two overlap.
fn covered(mut ranges: Vec<(u64, u64)>) -> Result<Vec<(u64, u64)>, u64> {
    ranges.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match out.last_mut() {
            Some((_, last)) if start < *last => return Err(start),
            Some((_, last)) if start == *last => *last = end,
            _ => out.push((start, end)),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(moves: &[(u64, u64, u64)]) -> Result<(), String> {
        let moves = moves.iter().map(|&(offset, bytes, to)| Move { offset, bytes, to, name: None }).collect();
        let files = vec![OrderedFile { path: "/bin/a".into(), moves }];
        let file = OrderFile { schema: SCHEMA, method: "c3".into(), trace: String::new(), files };
        file.check().map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_no_permutation_is_refused() {
        assert_eq!(checked(&[(0, 16, 32), (16, 32, 0)]), Ok(()));
        assert_eq!(checked(&[(0, 16, 64), (64, 16, 0)]), Ok(()));
        let refused = |moves: &[(u64, u64, u64)], why: &str| {
            let error = checked(moves).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        refused(&[(0, 16, 16)], "moves to where none moves away");
        refused(&[(0, 16, 0), (8, 16, 16)], "the code at 0x8 moves twice");
        refused(&[(0, 16, 8), (16, 16, 0)], "two functions move to 0x8");
        refused(&[(0, 0, 0)], "is none");
        refused(&[(u64::MAX, 16, 0)], "is none");
    }
}
