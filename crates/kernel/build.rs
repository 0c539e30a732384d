//! Lists the parts that memory managers are put together of, so that a part is one file. Each file of a folder of
//! `src/parts` is a part, and nothing else has to name it.
//!
//! ```text
//! src/parts/placement/buddy.rs --.                     OUT_DIR/placement.rs
//! src/parts/placement/ca.rs    --+--> this script -->    with_parts!  the list: modules and their types
//! ..                           --'                       each!        a match over the parts
//!                                                            |
//! src/parts/placement/mod.rs  <-- include!, for kind! -------'   (src/parts/list.rs: modules, enums, names)
//! ```
//!
//! A part's type has the name of its file: `at_store.rs` holds `AtStore`. What several parts share lies in a folder of
//! its own, such as `src/parts/daemon/scan`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// A file of a folder of parts.
#[derive(Debug, PartialEq, Eq)]
pub struct PartFile {
    /// Its name without the ending: the name of its module.
    pub module: String,
    /// The name of its type.
    pub part: String,
}

/// The folders of parts, each with its name.
///
/// # Errors
/// `parts` cannot be read.
pub fn kinds(parts: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parts)? {
        let path = entry?.path();
        if path.is_dir()
            && let Some(name) = path.file_name().and_then(|name| name.to_str())
        {
            found.push((name.to_owned(), path.clone()));
        }
    }
    found.sort();
    Ok(found)
}

/// The parts of a folder, in the order of their names.
///
/// # Errors
/// What is wrong with a file, and what to do.
pub fn list(folder: &Path) -> Result<Vec<PartFile>, String> {
    let cannot = |error: io::Error| format!("{} cannot be read: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let is_rust = path.extension().is_some_and(|ending| ending == "rs");
        if is_rust && path.file_name().is_some_and(|name| name != "mod.rs") {
            found.push(part(&path)?);
        }
    }
    if found.is_empty() {
        return Err(format!("{} holds no part: add the file of one, or remove the folder", folder.display()));
    }
    found.sort_by(|a, b| a.module.cmp(&b.module));
    Ok(found)
}

/// The part of a file.
fn part(path: &Path) -> Result<PartFile, String> {
    let (place, module) = (path.display(), path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default());
    let is_small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !module.starts_with(|c: char| c.is_ascii_lowercase()) || !module.chars().all(is_small) {
        return Err(format!("{place}: the file of a part is named in small letters, digits and _: rename it"));
    }
    let part: String = module.split('_').map(capitalised).collect();
    let text = fs::read_to_string(path).map_err(|error| format!("{place} cannot be read: {error}"))?;
    match defines(&text, &part) {
        true => Ok(PartFile { module: module.to_owned(), part }),
        false => Err(format!(
            "{place}: there is no `struct {part}` in it. Each file of this folder is a part, and its type has the name \
             of the file: name one of them after the other. A file that parts share belongs into a folder of its own, \
             as src/parts/daemon/scan is."
        )),
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

/// Whether a line of the text begins the definition of a type.
fn defines(text: &str, part: &str) -> bool {
    let name_of = |line: &str| {
        let (before, after) = line.split_once("struct ").or_else(|| line.split_once("enum "))?;
        let is_code = before.is_empty() || before.starts_with("pub");
        is_code.then(|| after.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned))?
    };
    text.lines().any(|line| name_of(line).is_some_and(|name| name == part))
}

/// The macros that hand a list of parts on.
pub fn macros(kind: &str, parts: &[PartFile]) -> String {
    let mut list = String::new();
    let mut arms = String::new();
    for PartFile { module, part } in parts {
        let _ = write!(list, "{module}::{part}, ");
        let _ = writeln!(arms, "            Self::{part}($part) => $call,");
    }
    format!(
        "// Written by build.rs: the parts in src/parts/{kind}, one for each file.

/// Hands the list of parts to a macro, before what else is for it.
macro_rules! with_parts {{
    ($then:ident! {{ $($rest:tt)* }}) => {{
        $then! {{ [{list}] $($rest)* }}
    }};
}}

/// Calls a method of whichever part it is.
macro_rules! each {{
    ($parts:expr, $part:ident => $call:expr) => {{
        match $parts {{
{arms}        }}
    }};
}}
"
    )
}

/// Writes the list of each folder.
fn write_lists() -> Result<(), String> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).ok_or(format!("cargo did not set {name}"));
    let parts = folder("CARGO_MANIFEST_DIR")?.join("src/parts");
    let out = folder("OUT_DIR")?;
    let failed = |error: io::Error| error.to_string();
    for (kind, folder) in kinds(&parts).map_err(failed)? {
        fs::write(out.join(format!("{kind}.rs")), macros(&kind, &list(&folder)?)).map_err(failed)?;
    }
    Ok(())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/parts");
    if let Err(message) = write_lists() {
        println!("cargo::error={message}");
    }
}
