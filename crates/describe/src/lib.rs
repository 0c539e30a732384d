//! From TOML text and `--set key=value` to a description, with errors a person can act on: how machines, policies and
//! recipes are read.

mod former;
mod inherit;
mod ranges;

pub use inherit::{Whole, file_schema};
pub use ranges::{OutOfRange, Step, Tree, within};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use thiserror::Error;
use toml::{
    Table, Value,
    de::{DeTable, DeValue},
};

/// Why a description cannot be used.
#[derive(Debug, Error)]
pub enum DescribeError {
    /// The file is not there or cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// No file of that name.
    #[error("no {what} named '{name}'{hint}; known: {known}")]
    Unknown {
        /// `machine`, `policy` or `workload`.
        what: &'static str,
        /// The name that was asked for.
        name: String,
        /// The nearest name, as a sentence part.
        hint: String,
        /// All names.
        known: String,
    },
    /// The text is not TOML or not a description.
    #[error("{place}: {message}")]
    Malformed {
        /// File with line and column, or the `--set` text.
        place: String,
        /// The mistake, and the remedy.
        message: String,
    },
    /// Each value is fine, their combination is impossible.
    #[error("{name}: {message}")]
    Impossible {
        /// The machine, policy or workload.
        name: String,
        /// The mistake, and the remedy.
        message: String,
    },
}

/// Reads `text` (from `place`) as a table.
pub fn table(text: &str, place: &str) -> Result<Table, DescribeError> {
    text.parse::<Table>().map_err(|e| malformed(place, Some(text), &e))
}

/// A table as the description `T`, every number in its range.
pub fn typed<T: DeserializeOwned + JsonSchema>(table: Table, place: &str) -> Result<T, DescribeError> {
    let value = Value::Table(table);
    within::<T>(&value)
        .map_err(|wrong| DescribeError::Malformed { place: place.into(), message: wrong.to_string() })?;
    value.try_into().map_err(|e| malformed(place, None, &e))
}

/// Reads `text` (from `place`) as the description `T`, every number in its range; errors carry line and column.
pub fn text<T: DeserializeOwned + JsonSchema>(text: &str, place: &str) -> Result<T, DescribeError> {
    let value = Value::Table(table(text, place)?);
    within::<T>(&value).map_err(|wrong| {
        let place = spot(text, &wrong.path).map_or(place.to_owned(), |at| at_offset(place, text, at));
        DescribeError::Malformed { place, message: wrong.to_string() }
    })?;
    toml::from_str(text).map_err(|e| malformed(place, Some(text), &e))
}

fn malformed(place: &str, text: Option<&str>, error: &toml::de::Error) -> DescribeError {
    let at = match (text, error.span()) {
        (Some(text), Some(span)) => at_offset(place, text, span.start),
        _ => place.to_owned(),
    };
    DescribeError::Malformed { place: at, message: with_hint(error.message()) }
}

/// `place` with the line and the column of a byte of `text`.
fn at_offset(place: &str, text: &str, offset: usize) -> String {
    let before = &text[..offset.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    format!("{place}:{line}:{column}")
}

/// The first byte in `text`, which is TOML, of the value that `path` leads to.
fn spot(text: &str, path: &[Step]) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let (first, path) = path.split_first()?;
    let Step::Key(key) = first else { return None };
    let mut at = table.get_ref().get(key.as_str())?;
    for step in path {
        at = match (at.get_ref(), step) {
            (DeValue::Table(inner), Step::Key(key)) => inner.get(key.as_str())?,
            // A file that inherits the list changes the entry so.
            (DeValue::Table(inner), Step::Entry(_, Some(name))) => inner.get(name.as_str())?,
            (DeValue::Array(inner), Step::Entry(index, _)) => inner.get(*index)?,
            _ => return None,
        };
    }
    Some(at.span().start)
}

/// Adds `did you mean` to serde's "unknown field `x`, expected one of `a`, `b`".
fn with_hint(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let unknown = message.contains("unknown field") || message.contains("unknown variant");
    match (unknown, quoted.split_first()) {
        (true, Some((given, known))) => match nearest(given, known.iter().copied()) {
            Some(near) => format!("{message}; did you mean `{near}`?"),
            None => message.to_owned(),
        },
        _ => message.to_owned(),
    }
}

/// The known word nearest to `given`, unless none is near. A word is near as a whole, or else by one of its parts, as
/// `thp` is near to `linux-thp` and `zen4` to `zen3-5900x`. Of equally near words one that begins with `given` counts
/// first, then the shortest.
pub fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let distance = |word: &str| strsim::damerau_levenshtein(&given, &word.to_lowercase());
    let known: Vec<&str> = known.collect();
    let differs = |word: &str| !word.to_lowercase().starts_with(&given);
    let whole = known.iter().map(|k| (distance(k), differs(k), k.len(), *k));
    let whole = whole.filter(|(d, _, len, _)| *d <= 2.max(len / 3)).min();
    let whole = whole.map(|(d, _, len, k)| (d, len, k));
    let by_part = || {
        let parts = |k: &'a str| k.split(['-', '_', '.']).map(move |part| (part, k));
        let near = known.iter().flat_map(|k| parts(k)).map(|(part, k)| (distance(part), part.len(), k));
        near.filter(|(d, len, _)| *d <= len / PART_LETTERS).map(|(d, _, k)| (d, k.len(), k)).min()
    };
    whole.or_else(by_part).map(|(_, _, k)| k)
}

/// Letters of a part of a name for each that may differ.
const PART_LETTERS: usize = 4;

/// Applies one `--set key=value` to `table`. Keys are dotted, and entries of lists are named by their `name`
/// (`tlb.STLB.entries=2048`). A value is a number, a boolean, a list in TOML, or else a text. After an error the table
/// is not to be used.
pub fn set(table: &mut Table, assignment: &str) -> Result<(), DescribeError> {
    let wrong = |message: String| DescribeError::Malformed { place: format!("--set {assignment}"), message };
    let (key, value) = assignment.split_once('=').ok_or_else(|| wrong("write it as key=value".into()))?;
    let value = format!("v = {value}")
        .parse::<Table>()
        .ok()
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| Value::String(value.to_owned()));
    let (path, last) = match key.rsplit_once('.') {
        Some((path, last)) => (path.split('.').collect(), last),
        None => (Vec::new(), key),
    };
    if last.is_empty() {
        return Err(wrong("the key is empty".into()));
    }
    let mut root = Value::Table(std::mem::take(table));
    let mut at = &mut root;
    for part in path {
        at = step(at, part).map_err(wrong)?;
    }
    match at {
        Value::Table(t) => t.insert(last.to_owned(), value),
        _ => return Err(wrong("the key names a list: name one of its entries, as in tlb.STLB.entries".into())),
    };
    if let Value::Table(t) = root {
        *table = t;
    }
    Ok(())
}

fn step<'a>(value: &'a mut Value, part: &str) -> Result<&'a mut Value, String> {
    match value {
        Value::Table(t) => Ok(t.entry(part).or_insert_with(|| Value::Table(Table::new()))),
        Value::Array(entries) => {
            let names: Vec<String> =
                entries.iter().filter_map(|e| e.get("name")?.as_str().map(str::to_owned)).collect();
            match names.iter().position(|n| n == part) {
                Some(i) => Ok(&mut entries[i]),
                None => {
                    let hint = nearest(part, names.iter().map(String::as_str))
                        .map(|n| format!("; did you mean '{n}'?"))
                        .unwrap_or_default();
                    Err(format!("no entry named '{part}'{hint} (there are: {})", names.join(", ")))
                }
            }
        }
        _ => Err(format!("'{part}' is inside a plain value")),
    }
}

/// The file of `name`: a path (has a slash or ends in .toml), or `NAME.toml` in one of `dirs`.
pub fn find(what: &'static str, name: &str, dirs: &[PathBuf]) -> Result<PathBuf, DescribeError> {
    if name.contains('/') || name.ends_with(".toml") {
        return Ok(PathBuf::from(name));
    }
    let known = list(dirs);
    match known.iter().find(|(n, _)| n == name) {
        Some((_, path)) => Ok(path.clone()),
        None => Err(DescribeError::Unknown {
            what,
            name: name.to_owned(),
            hint: nearest(name, known.iter().map(|(n, _)| n.as_str()))
                .map(|n| format!(" (did you mean '{n}'?)"))
                .unwrap_or_default(),
            known: known.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>().join(", "),
        }),
    }
}

/// Names and files of the descriptions in `dirs`, sorted; an earlier directory hides a later one's equal name.
pub fn list(dirs: &[PathBuf]) -> Vec<(String, PathBuf)> {
    let mut found = std::collections::BTreeMap::new();
    for dir in dirs {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "toml")
                && let Some(stem) = path.file_stem().and_then(|s| s.to_str())
            {
                found.entry(stem.to_owned()).or_insert(path);
            }
        }
    }
    found.into_iter().collect()
}

/// Reads the file `path`.
pub fn load(path: &Path) -> Result<String, DescribeError> {
    std::fs::read_to_string(path).map_err(|error| DescribeError::Unreadable { path: path.to_owned(), error })
}

/// The title in the file `path`, if it can be read.
pub fn title(path: &Path) -> Option<String> {
    let table: Table = load(path).ok()?.parse().ok()?;
    Some(table.get("title")?.as_str()?.to_owned())
}
