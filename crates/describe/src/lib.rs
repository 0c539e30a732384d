//! From TOML text and `--set key=value` to a description, with errors a person can act on: how machines, policies and
//! recipes are read.

use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use thiserror::Error;
use toml::{Table, Value};

/// Why a description cannot be used.
#[derive(Debug, Error)]
pub enum DescribeError {
    /// The file is not there or cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// No file of that name.
    #[error("no {what} named '{name}'{hint}; known: {known}")]
    Unknown {
        /// `machine`, `policy` or `workload`.
        what: &'static str,
        /// What was asked for.
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
        /// What is wrong and what to do.
        message: String,
    },
    /// Each value is fine, their combination is impossible.
    #[error("{name}: {message}")]
    Impossible {
        /// The machine, policy or workload.
        name: String,
        /// What is wrong and what to do.
        message: String,
    },
}

/// Reads `text` (from `place`) as a table.
pub fn table(text: &str, place: &str) -> Result<Table, DescribeError> {
    text.parse::<Table>().map_err(|e| malformed(place, Some(text), &e))
}

/// A table as the description `T`.
pub fn typed<T: DeserializeOwned>(table: Table, place: &str) -> Result<T, DescribeError> {
    Value::Table(table).try_into().map_err(|e| malformed(place, None, &e))
}

/// Reads `text` (from `place`) as the description `T`; errors carry line and column.
pub fn text<T: DeserializeOwned>(text: &str, place: &str) -> Result<T, DescribeError> {
    toml::from_str(text).map_err(|e| malformed(place, Some(text), &e))
}

fn malformed(place: &str, text: Option<&str>, error: &toml::de::Error) -> DescribeError {
    let at = match (text, error.span()) {
        (Some(text), Some(span)) => {
            let before = &text[..span.start.min(text.len())];
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
            format!("{place}:{line}:{column}")
        }
        _ => place.to_owned(),
    };
    DescribeError::Malformed { place: at, message: with_hint(error.message()) }
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

/// The known word nearest to `given`, unless none is near.
pub fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|k| (strsim::damerau_levenshtein(&given.to_lowercase(), &k.to_lowercase()), k))
        .filter(|(d, k)| *d <= 2.max(k.len() / 3))
        .min()
        .map(|(_, k)| k)
}

/// Applies one `--set key=value` to `table`: keys are dotted, entries of lists are named by their `name`
/// (`tlb.STLB.entries=2048`); a value is a number, a boolean, a list in TOML, or else a text. After an error the table
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
