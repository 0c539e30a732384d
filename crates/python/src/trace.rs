use crate::errors::{failure, user};
use mmulab_machine::open;
use mmulab_trace::{Batch, Item, TraceError, TraceErrorKind, summarize, write_batch};
use pyo3::prelude::*;
use serde_json::json;
use std::{
    fs::File,
    io::{BufWriter, Write},
};

/// A mistake of the user's, or damage found while reading.
fn raise(error: TraceError) -> PyErr {
    match error.kind {
        TraceErrorKind::Cut(_) | TraceErrorKind::Damaged(_) => failure(error),
        _ => user(error),
    }
}

/// Reads a whole trace and summarises it.
#[pyfunction]
pub fn trace_info(py: Python<'_>, path: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let mut source = open(path).map_err(raise)?;
    let mut raised = None;
    let summary = py.detach(|| {
        summarize(source.as_mut(), |fraction| {
            if let (Some(hear), None) = (&progress, &raised) {
                let told = json!({ "fraction": fraction }).to_string();
                raised = Python::attach(|py| hear.call1(py, (told,)).map(drop)).err();
            }
        })
    });
    match raised {
        Some(error) => Err(error),
        None => serde_json::to_string(&summary.map_err(raise)?).map_err(failure),
    }
}

/// The first `count` words of a trace in text form.
#[pyfunction]
pub fn trace_head(path: &str, count: usize) -> PyResult<String> {
    let mut source = open(path).map_err(raise)?;
    let mut batch = Batch::default();
    let (mut out, mut left) = (Vec::new(), count);
    while left > 0 && source.next_batch(&mut batch).map_err(raise)? {
        batch.refs.truncate(left);
        left -= batch.refs.len();
        write_batch(&batch, &mut out).map_err(failure)?;
    }
    String::from_utf8(out).map_err(failure)
}

/// Reads all of a trace and says whether it is whole.
#[pyfunction]
pub fn trace_verify(py: Python<'_>, path: &str) -> PyResult<String> {
    let mut source = open(path).map_err(raise)?;
    let read = py.detach(|| summarize(source.as_mut(), |_| {}));
    let found = match read {
        Ok(s) => json!({
            "ok": s.warnings.is_empty(), "instructions": s.instructions, "references": s.references,
            "problems": [], "warnings": s.warnings,
        }),
        Err(e) => json!({ "ok": false, "problems": [e.to_string()], "warnings": [] }),
    };
    Ok(found.to_string())
}

/// Where a trace is written to.
fn create(path: &str) -> PyResult<BufWriter<File>> {
    File::create(path).map(BufWriter::new).map_err(|e| user(format!("{path}: {e}")))
}

/// Writes a trace in another format.
#[pyfunction]
pub fn trace_convert(py: Python<'_>, src: &str, dst: &str, fmt: &str) -> PyResult<String> {
    if fmt != "text" {
        return Err(user(format!("no writer for the format '{fmt}'; text can be written")));
    }
    copy(py, src, dst, 0, None)
}

/// Writes the stretch between two instruction counts, with the address space as it was at its start.
#[pyfunction]
#[pyo3(signature = (src, dst, start, end))]
pub fn trace_slice(py: Python<'_>, src: &str, dst: &str, start: u64, end: Option<u64>) -> PyResult<String> {
    if end.is_some_and(|end| end <= start) {
        return Err(user("the slice ends before it begins"));
    }
    copy(py, src, dst, start, end)
}

/// Copies words from instruction `start` on, and every event before it, up to instruction `end`.
fn copy(py: Python<'_>, src: &str, dst: &str, start: u64, end: Option<u64>) -> PyResult<String> {
    let mut source = open(src).map_err(raise)?;
    let mut out = create(dst)?;
    let (mut instructions, mut references) = (0u64, 0u64);
    let (mut batch, mut kept) = (Batch::default(), Batch::default());
    py.detach(|| -> PyResult<()> {
        'all: while source.next_batch(&mut batch).map_err(raise)? {
            kept.clear();
            std::mem::swap(&mut kept.events, &mut batch.events);
            for &word in &batch.refs {
                let (retired, is_reference) = match word.item() {
                    Item::Access(_, _, n) => (u64::from(n), true),
                    Item::Retire(n) => (n, false),
                    Item::Event(_) => (0, false),
                };
                if end.is_some_and(|end| instructions >= end) && (retired > 0 || word.is_fetch()) {
                    write_batch(&kept, &mut out).map_err(failure)?;
                    break 'all;
                }
                instructions += retired;
                if instructions > start || matches!(word.item(), Item::Event(_)) || (start == 0) {
                    kept.refs.push(word);
                    references += u64::from(is_reference);
                }
            }
            write_batch(&kept, &mut out).map_err(failure)?;
        }
        out.flush().map_err(failure)
    })?;
    Ok(json!({ "instructions": instructions.saturating_sub(start), "references": references, "lost": [] }).to_string())
}
