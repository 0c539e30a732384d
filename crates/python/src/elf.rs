//! Python binding of the ELF analysis. One function shows how the segments of a program and its libraries lie
//! relative to aligned groups of pages; the other computes where a linker would place them. Both return JSON.

use crate::errors::{failure, request, user};
use mmulab_elf::{ElfError, Linker, Part, PlacedSegment, Segment, layout, libraries, phase_of, read};
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
        json!({
            "path": path.display().to_string(),
            "isa": isa,
            "segments": segments.iter().map(segment).collect::<Vec<_>>(),
        })
    };
    let mut files = vec![one(path, &file.segments, file.isa)];
    for library in found {
        let file = read(&library).map_err(failure)?;
        files.push(one(&library, &file.segments, file.isa));
    }
    serde_json::to_string(&json!({ "files": files, "missing": missing })).map_err(failure)
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
