//! Python binding of the ELF analysis. One function shows how the segments of a program and its libraries lie relative
//! to aligned groups of pages. One computes where a linker would place them. One pads code to whole superpages, or
//! takes that back. All return JSON.

use crate::errors::{failure, request, user};
use mmulab_elf::{
    ElfError, Linker, PadError, PadTarget, Part, PlacedSegment, Segment, functions, layout, libraries, loaded_sections,
    pad, phase_of, read, residual_of, source_lines, undo,
};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn segment(s: &Segment) -> Value {
    let mut value = json!(s);
    value["rights"] = s.rights().into();
    value["phase"] = json!(phase_of(s));
    value
}

/// One file's segments and how they stand to groups of pages; with `follow`, the libraries it loads, too.
#[pyfunction]
pub fn elf_check(path: &str, follow: bool) -> PyResult<String> {
    let path = Path::new(path);
    let wrong = |e: ElfError| user(format!("{}: {e}", path.display()));
    let file = read(path).map_err(wrong)?;
    let (found, missing) = if follow { libraries(path, &file) } else { Default::default() };
    let one = |path: &Path, segments: &[Segment], isa| {
        let with_residual = |(at, s): (usize, &Segment)| {
            let mut value = segment(s);
            if s.is_code() {
                value["residual"] = json!(residual_of(segments, at));
            }
            value
        };
        json!({
            "path": path.display().to_string(),
            "isa": isa,
            "segments": segments.iter().enumerate().map(with_residual).collect::<Vec<_>>(),
        })
    };
    let mut files = vec![one(path, &file.segments, file.isa)];
    for library in found {
        let file = read(&library).map_err(failure)?;
        files.push(one(&library, &file.segments, file.isa));
    }
    serde_json::to_string(&json!({ "files": files, "missing": missing })).map_err(failure)
}

/// A function of a file: its first offset, the one after its last, and its name.
type Named = (u64, u64, Option<String>);

/// The functions of a file by offset, and the debug file that names some of them.
#[pyfunction]
pub fn elf_functions(path: PathBuf, debug_roots: Vec<PathBuf>) -> PyResult<(Vec<Named>, Option<PathBuf>)> {
    let found = functions(&path, &debug_roots).map_err(user)?;
    Ok((found.all.into_iter().map(|f| (f.start, f.end, f.name)).collect(), found.debug_file))
}

/// The sections of a file that are loaded into memory: name, first byte in the file, and the byte after the last.
#[pyfunction]
pub fn elf_sections(path: PathBuf) -> PyResult<Vec<(String, u64, u64)>> {
    let found = loaded_sections(&path).map_err(user)?;
    Ok(found.into_iter().map(|section| (section.name, section.range.start, section.range.end)).collect())
}

/// The source lines of code at offsets of a file: a path and a number each.
#[pyfunction]
pub fn elf_source_lines(
    path: PathBuf,
    offsets: Vec<u64>,
    debug_roots: Vec<PathBuf>,
) -> PyResult<Vec<Option<(String, u64)>>> {
    let found = source_lines(&path, &offsets, &debug_roots).map_err(user)?;
    Ok(found.into_iter().map(|line| line.map(|line| (line.file, line.line))).collect())
}

/// What `elf_layout` is asked: a file's segments, or parts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayoutSpec {
    #[serde(default)]
    file: Option<PathBuf>,
    #[serde(default)]
    parts: Vec<Part>,
    linker: Linker,
    #[serde(default)]
    max_page_size: Option<u64>,
}

/// Where a linker would place segments.
#[pyfunction]
pub fn elf_layout(spec: &str) -> PyResult<String> {
    let spec: LayoutSpec = serde_json::from_str(spec).map_err(request)?;
    let mut parts = spec.parts;
    if let Some(path) = &spec.file {
        let file = read(path).map_err(|e| user(format!("{}: {e}", path.display())))?;
        parts = file.segments.iter().map(Part::from).collect();
    }
    let max_page_size = spec.max_page_size.unwrap_or(spec.linker.default_max_page_size());
    let placed = layout(&parts, spec.linker, max_page_size).map_err(user)?;
    let one = |p: &PlacedSegment| {
        let mut value = segment(&p.segment);
        value["shares_page"] = p.shares_page.into();
        value
    };
    let answer = json!({
        "linker": spec.linker,
        "max_page_size": max_page_size,
        "segments": placed.iter().map(one).collect::<Vec<_>>(),
    });
    serde_json::to_string(&answer).map_err(failure)
}

/// What `elf_pad` is asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PadSpec {
    file: PathBuf,
    #[serde(default)]
    out: Option<PathBuf>,
    #[serde(default)]
    undo: bool,
    #[serde(default)]
    dry_run: bool,
}

/// Pads the code of a file, or takes that back.
#[pyfunction]
pub fn elf_pad(py: Python<'_>, spec: &str) -> PyResult<String> {
    let spec: PadSpec = serde_json::from_str(spec).map_err(request)?;
    let target = match (spec.dry_run, spec.out) {
        (true, _) => PadTarget::Nowhere,
        (false, Some(out)) => PadTarget::File(out),
        (false, None) => PadTarget::Place,
    };
    let done = py.detach(|| if spec.undo { undo(&spec.file, &target) } else { pad(&spec.file, &target) });
    match done {
        Ok(done) => serde_json::to_string(&done).map_err(failure),
        // It names the file that it is about.
        Err(error @ PadError::Write { .. }) => Err(failure(error)),
        Err(error) => {
            let message = format!("{}: {error}", spec.file.display());
            Err(if error.is_mistake() { user(message) } else { failure(message) })
        }
    }
}
