//! Names of allocation sites: the function that asked for memory, with the source line of the call, out of the files
//! that the program runs. They are looked up while the program is recorded, because its files may change afterwards.

use crate::Frame;
use mmulab_elf::{Function, functions, source_lines};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where Linux distributions install debug files (GDB's manual, "Separate Debug Files").
const DEBUG_ROOT: &str = "/usr/lib/debug";
/// Of larger files no line tables are read: the recorded program waits for them. Ours: a second's work or so.
const MOST_BYTES: u64 = 256 << 20;
/// Ends of the names of functions that only pass requests for memory on.
const WRAPPERS: [&str; 9] =
    ["malloc", "calloc", "realloc", "alloc", "allocate", "reallocarray", "memalign", "alignedalloc", "mmap"];
/// Letters that stand before it in their names at most: `x`, `z`, `g`, `my`.
const PREFIX: usize = 3;

/// The names found so far.
#[derive(Default)]
pub(crate) struct Names {
    by_frames: BTreeMap<Vec<Frame>, Arc<str>>,
    /// The functions of each file, in order.
    functions: BTreeMap<String, Vec<Function>>,
}

impl Names {
    /// The name of the place that is first in `frames`, its callers behind it. A function that only passes requests on
    /// gives way to its caller. Empty: there is no frame.
    pub fn of(&mut self, frames: &[Frame]) -> Arc<str> {
        if let Some(name) = self.by_frames.get(frames) {
            return Arc::clone(name);
        }
        let found: Vec<Option<String>> = frames.iter().map(|frame| self.function(frame)).collect();
        let asks = found.iter().position(|name| !name.as_deref().is_some_and(is_wrapper)).unwrap_or_default();
        let name: Arc<str> = match (frames.get(asks), found.into_iter().nth(asks).flatten()) {
            (None, _) => "".into(),
            (Some(frame), Some(function)) => match line(frame) {
                Some(line) => format!("{function} ({line})").into(),
                None => function.into(),
            },
            (Some(frame), None) => format!("{}+{:#x}", file_name(&frame.path), frame.offset).into(),
        };
        self.by_frames.insert(frames.to_vec(), Arc::clone(&name));
        name
    }

    /// The name of the function that a place is in, if a symbol says it.
    fn function(&mut self, frame: &Frame) -> Option<String> {
        let all = self.functions.entry(frame.path.clone()).or_insert_with(|| {
            // A file that cannot be read names nothing.
            functions(Path::new(&frame.path), &[PathBuf::from(DEBUG_ROOT)]).unwrap_or_default().all
        });
        let before = all.partition_point(|function| function.start <= frame.offset).checked_sub(1)?;
        all[before].name.clone().filter(|_| frame.offset < all[before].end)
    }
}

/// The source line of a place, as `table.c:42`.
fn line(frame: &Frame) -> Option<String> {
    let path = Path::new(&frame.path);
    if path.metadata().is_ok_and(|file| file.len() > MOST_BYTES) {
        return None;
    }
    let found = source_lines(path, &[frame.offset], &[PathBuf::from(DEBUG_ROOT)]).ok()?.pop()??;
    Some(format!("{}:{}", file_name(&found.file), found.line))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a function only passes requests for memory on, by its name: `xmalloc`, `zcalloc`, `operator new`, those of
/// the standard libraries of C++ and Rust.
fn is_wrapper(name: &str) -> bool {
    // Itanium C++ ABI: _Znw and _Zna are `operator new`, St is `std`; Rust's own crates, by either mangling.
    let library =
        ["_Znw", "_Zna", "_ZNSt", "_ZNKSt", "_ZSt", "_ZN9__gnu_cxx", "_ZN5alloc", "_ZN4core", "__rust", "__rdl"];
    if library.iter().any(|start| name.starts_with(start)) || name.starts_with("_R") && name.contains("5alloc") {
        return true;
    }
    let bare: String = name.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect();
    WRAPPERS.iter().any(|word| bare.strip_suffix(word).is_some_and(|before| before.len() <= PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_pass_requests_on_are_told_by_their_names() {
        for name in ["malloc", "xmalloc", "zcalloc", "my_alloc", "g_malloc", "_Znwm", "_ZNSt6vectorIiE7reserveEm"] {
            assert!(is_wrapper(name), "{name}");
        }
        for name in ["table_new", "alloc_table", "table_alloc", "main", "_ZN5table3newEv", "realloc_all"] {
            assert!(!is_wrapper(name), "{name}");
        }
    }

    #[test]
    fn a_place_is_named_by_its_function_and_line_or_by_its_file() {
        let path = std::env::current_exe().unwrap().display().to_string();
        let all = functions(Path::new(&path), &[]).unwrap().all;
        let own = all.iter().find(|f| f.name.as_ref().is_some_and(|name| name.contains("a_place_is_named_by")));
        let frame = Frame { path: path.clone(), offset: own.unwrap().start };
        let mut names = Names::default();
        let name = names.of(std::slice::from_ref(&frame));
        assert!(name.contains("a_place_is_named_by") && name.contains("names.rs:"), "{name}");
        assert_eq!(names.of(&[frame]), name);
        let nowhere = Frame { path: "/nowhere/libx.so".into(), offset: 0x123 };
        assert_eq!(&*names.of(&[nowhere]), "libx.so+0x123");
        assert_eq!(&*names.of(&[]), "");
    }
}
