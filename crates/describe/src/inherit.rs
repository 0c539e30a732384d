//! Files that inherit: `base = "NAME"` in a machine or policy file stands for all that the named file says.
//!
//! ```text
//! file with base --> file it names --> .. --> file without
//!       `---- its keys before those of what it names ----'--> one table
//! ```
//!
//! Tables are merged key by key. A list of tables such as `[[tlb]]` replaces the inherited one; `[tlb.NAME]` changes
//! the entry of that name, as `--set tlb.NAME.KEY=VALUE` does. What a file is called is its own: `name`, `title` and
//! `description` are not inherited. Neither is the reason for an assumed value, where the file sets the value itself.

use crate::former::{Both, rename};
use crate::{DescribeError, at_offset, find, load, set, spot, step, table, text, typed, with_hint, within};
use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use toml::{
    Table, Value,
    de::{DeTable, DeValue},
};

/// The key that names the file to inherit from.
const BASE: &str = "base";
/// Keys that every file gives for itself.
const OWN: [&str; 3] = ["name", "title", "description"];
/// Where values without a source are listed with their reasons, in each table.
const ASSUMED: &str = "assumed";

/// A description with all that it inherits.
pub struct Whole {
    /// The merged table.
    table: Table,
    /// The files it is merged from, with their text: the one that was asked for first.
    files: Vec<(PathBuf, String)>,
    /// What the table is read by.
    schema: Json,
}

impl Whole {
    /// Reads `name`, a file of one of `dirs` or a path that describes a `T`, and all files that it inherits from.
    ///
    /// # Errors
    /// A file that is not there or is no TOML; a base that nobody knows, or that leads back to the file.
    pub fn read<T: JsonSchema>(what: &'static str, name: &str, dirs: &[PathBuf]) -> Result<Self, DescribeError> {
        let path = find(what, name, dirs)?;
        let mut files = Vec::new();
        let schema = schema_for!(T).to_value();
        let table = chain(&Search { what, dirs, schema: &schema }, &path, &mut files)?;
        Ok(Self { table, files, schema })
    }

    /// As the description `T`, with the assignments `overrides` made (`--set`); every number in its range.
    ///
    /// # Errors
    /// What is wrong, with the file, line and column that say it.
    pub fn typed<T: DeserializeOwned + JsonSchema>(&self, overrides: &[String]) -> Result<T, DescribeError> {
        // Read once as it stands, so that an error in a file carries its line and column.
        let described: T = self.described()?;
        if overrides.is_empty() {
            return Ok(described);
        }
        let mut table = self.table.clone();
        for assignment in overrides {
            if assignment.split_once('=').is_some_and(|(key, _)| key == BASE) {
                return Err(DescribeError::Malformed {
                    place: format!("--set {assignment}"),
                    message: "only a file inherits: name another file, or write one with this base".into(),
                });
            }
            set(&mut table, assignment)?;
            rename(&self.schema, &mut table, Both::FormerCounts);
        }
        let overrides: Vec<_> = overrides.iter().map(|s| format!("--set {s}")).collect();
        typed(table, &format!("{} with {}", self.files[0].0.display(), overrides.join(" ")))
    }

    /// The merged table as TOML.
    ///
    /// # Errors
    /// A value that TOML cannot say, which no table that was read from TOML has.
    pub fn toml(&self) -> Result<String, DescribeError> {
        toml::to_string(&self.table).map_err(|error| DescribeError::Malformed {
            place: self.files[0].0.display().to_string(),
            message: error.to_string(),
        })
    }

    fn described<T: DeserializeOwned + JsonSchema>(&self) -> Result<T, DescribeError> {
        let value = Value::Table(self.table.clone());
        let is_within = within::<T>(&value);
        let described: Result<T, _> = value.try_into();
        let (path, own) = &self.files[0];
        // Something is wrong. Read as text, it has its line and column. Where a key was renamed, the text is not what
        // is read.
        if (is_within.is_err() || described.is_err())
            && self.files.len() == 1
            && table(own, "").is_ok_and(|own| own == self.table)
        {
            return text(own, &path.display().to_string());
        }
        is_within.map_err(|wrong| {
            let place = self.place(|text| spot(text, &wrong.path));
            DescribeError::Malformed { place, message: wrong.to_string() }
        })?;
        described.map_err(|error: toml::de::Error| {
            let message = with_hint(error.message());
            // Serde names the key or the word that it does not know first.
            let wrong = message.split('`').nth(1).unwrap_or_default();
            let place = self.place(|text| mentioned(DeTable::parse(text).ok()?.get_ref(), wrong));
            DescribeError::Malformed { place, message }
        })
    }

    /// The first file in which `spot` finds the place, with line and column; else the file that was asked for.
    fn place(&self, spot: impl Fn(&str) -> Option<usize>) -> String {
        let found = self
            .files
            .iter()
            .find_map(|(path, text)| spot(text).map(|at| at_offset(&path.display().to_string(), text, at)));
        found.unwrap_or_else(|| self.files[0].0.display().to_string())
    }
}

/// The schema of files that hold a `T` and may inherit.
pub fn file_schema<T: JsonSchema>() -> Json {
    let mut schema = schema_for!(T).to_value();
    schema["properties"][BASE] = json!({
        "type": "string",
        "description": "The file to inherit from: its name, or its path from this file's directory. This file's keys \
                        come first. A list of tables replaces the inherited one; `[LIST.NAME]` changes its entry of \
                        that name. `name`, `title` and `description` are not inherited.",
    });
    schema
}

/// Where files are looked for, and what they are read by.
struct Search<'a> {
    what: &'static str,
    dirs: &'a [PathBuf],
    schema: &'a Json,
}

/// The table of the file `path`, merged with that of its base. `files` gets the files that were read.
fn chain(search: &Search, path: &Path, files: &mut Vec<(PathBuf, String)>) -> Result<Table, DescribeError> {
    let &Search { what, dirs, schema } = search;
    let text = load(path)?;
    let place = path.display().to_string();
    let mut own: Table = table(&text, &place)?;
    rename(schema, &mut own, Both::Refused);
    files.push((path.to_owned(), text));
    let at = files.len() - 1;
    let Some(base) = own.remove(BASE) else { return Ok(own) };
    let wrong = |files: &[(PathBuf, String)], message: String| {
        let text = &files[at].1;
        let spot = spot(text, &[crate::Step::Key(BASE.into())]);
        let place = spot.map_or(place.clone(), |at| at_offset(&place, text, at));
        DescribeError::Malformed { place, message }
    };
    let Value::String(base) = base else {
        return Err(wrong(files, format!("base is {base}: give the name of a {what} or the path of its file")));
    };
    let next = match find_base(what, &base, path, dirs) {
        Ok(next) => next,
        Err(error) => return Err(wrong(files, format!("base: {error}"))),
    };
    if files.iter().any(|(seen, _)| is_same(seen, &next)) {
        let way: Vec<_> = files.iter().map(|(file, _)| file).chain([&next]).map(|file| shown(file)).collect();
        return Err(wrong(files, format!("base leads back to a file that inherits from it: {}", way.join(" -> "))));
    }
    let mut whole = chain(search, &next, files)?;
    for key in OWN {
        whole.remove(key);
    }
    merge(&mut whole, own, "").map_err(|message| wrong(files, message))?;
    Ok(whole)
}

/// The file that `base` means in the file `path`: a path from that file's directory, or a name. Bases that are no
/// descriptions by themselves lie in the directory `base` of those searched.
fn find_base(what: &'static str, base: &str, path: &Path, dirs: &[PathBuf]) -> Result<PathBuf, DescribeError> {
    if base.contains('/') || base.ends_with(".toml") {
        return Ok(path.parent().unwrap_or(Path::new("")).join(base));
    }
    let all: Vec<_> = dirs.iter().flat_map(|dir| [dir.clone(), dir.join(BASE)]).collect();
    find(what, base, &all)
}

fn is_same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

fn shown(path: &Path) -> String {
    path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}

/// Puts what `own` says over what `whole`, the table at `place`, says.
fn merge(whole: &mut Table, own: Table, place: &str) -> Result<(), String> {
    let explained: Vec<&str> =
        own.get(ASSUMED).and_then(Value::as_table).into_iter().flat_map(Table::keys).map(String::as_str).collect();
    if let Some(Value::Table(reasons)) = whole.get_mut(ASSUMED) {
        reasons.retain(|key, _| !own.contains_key(key) || explained.contains(&key));
        if reasons.is_empty() {
            whole.remove(ASSUMED);
        }
    }
    for (key, value) in own {
        let below = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
        match (whole.get_mut(&key), value) {
            (Some(Value::Table(inherited)), Value::Table(value)) => merge(inherited, value, &below)?,
            (Some(list @ Value::Array(_)), Value::Table(entries)) => {
                for (name, entry) in entries {
                    let inherited = step(list, &name).map_err(|message| format!("{below}: {message}"))?;
                    match (inherited, entry) {
                        (Value::Table(inherited), Value::Table(entry)) => {
                            merge(inherited, entry, &format!("{below}.{name}"))?;
                        }
                        (_, entry) => {
                            return Err(format!("{below}.{name} is {entry}: give a table of the keys to change"));
                        }
                    }
                }
            }
            (_, value) => {
                whole.insert(key, value);
            }
        }
    }
    Ok(())
}

/// Where `table` has the key or the text `wanted`.
fn mentioned(table: &DeTable<'_>, wanted: &str) -> Option<usize> {
    table.iter().find_map(|(key, value)| {
        if key.get_ref() == wanted {
            return Some(key.span().start);
        }
        in_value(value.get_ref(), value.span().start, wanted)
    })
}

fn in_value(value: &DeValue<'_>, at: usize, wanted: &str) -> Option<usize> {
    match value {
        DeValue::Table(inner) => mentioned(inner, wanted),
        DeValue::Array(inner) => inner.iter().find_map(|entry| in_value(entry.get_ref(), entry.span().start, wanted)),
        DeValue::String(text) if text == wanted => Some(at),
        _ => None,
    }
}
