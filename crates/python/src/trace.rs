//! Python binding of trace files: summary, length, first words, verification, conversion and cutting. Further
//! functions evaluate recordings: the page sizes of a recorded system, and the comparison of a program with its
//! generator.

use crate::attend::{Desk, attended};
use crate::errors::{failure, of_trace, request, user};
use mmulab_describe::within;
use mmulab_kernel::RecordedPages;
use mmulab_machine::open;
use mmulab_reshape::{ReshapeDesc, reshape, with_headers};
use mmulab_trace::{Batch, Format, Progress, Span, summarize, write_batch, write_file};
use mmulab_workload::TwinError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;

fn text<T: Serialize>(value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(failure)
}

/// How many batches are read before Ctrl-C is looked for.
const BATCHES_A_REPORT: u64 = 64;

/// Reports progress to a callback; false once it raises or Ctrl-C was pressed.
pub(crate) fn report_progress(on_progress: Option<&Py<PyAny>>, now: &impl Serialize) -> bool {
    Python::attach(|py| {
        let text = serde_json::to_string(now).unwrap_or_default();
        let sent = on_progress.map_or(Ok(()), |call| call.call1(py, (text,)).map(drop));
        sent.and_then(|()| py.check_signals()).is_ok()
    })
}

/// Reads a whole trace and summarises it.
#[pyfunction]
pub fn trace_info(py: Python<'_>, path: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let mut source = open(path).map_err(of_trace)?;
    text(&attended(py, progress.as_ref(), |desk| summarize(source.as_mut(), |now: &Progress| desk.report(now)))?)
}

/// Instructions of a trace, or `most` if it has more; read only as far as must be, where the trace does not say.
#[pyfunction]
#[pyo3(signature = (path, most))]
pub fn trace_length(py: Python<'_>, path: &str, most: Option<u64>) -> PyResult<u64> {
    let most = most.unwrap_or(u64::MAX);
    let mut source = open(path).map_err(of_trace)?;
    if let Some(known) = source.info().instructions {
        return Ok(known.min(most));
    }
    let (mut found, mut batches) = (0u64, 0u64);
    let mut batch = Batch::default();
    py.detach(|| {
        loop {
            // A trace that is damaged has the instructions before that.
            let more = source.next_batch(&mut batch).unwrap_or(false);
            found += batch.counts().0;
            batches += 1;
            if !more || found >= most {
                return Ok(found.min(most));
            }
            if batches.is_multiple_of(BATCHES_A_REPORT) {
                Python::attach(|py| py.check_signals())?;
            }
        }
    })
}

/// The first `count` words of a trace in text form, and what is wrong with it if it ends before that.
#[pyfunction]
pub fn trace_head(path: &str, count: usize) -> PyResult<String> {
    let mut source = open(path).map_err(of_trace)?;
    let mut batch = Batch::default();
    let (mut out, mut left) = (Vec::new(), count);
    let mut problem = None;
    while left > 0 {
        let read = source.next_batch(&mut batch);
        batch.refs.truncate(left);
        left -= batch.refs.len();
        write_batch(&batch, &mut out).map_err(failure)?;
        match read {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                problem = (left > 0).then(|| error.to_string());
                break;
            }
        }
    }
    text(&json!({ "text": String::from_utf8(out).map_err(failure)?, "problem": problem }))
}

/// Where a recorded system had the pages of its programs: runs by page size (null if the trace does not tell), and by
/// what memory is for.
#[pyfunction]
pub fn recorded_pages(py: Python<'_>, path: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let mut source = open(path).map_err(of_trace)?;
    let mut pages = RecordedPages::default();
    let mut batch = Batch::default();
    let mut seen = 0u64;
    py.detach(|| -> PyResult<()> {
        while source.next_batch(&mut batch).map_err(failure)? {
            for event in &batch.events {
                pages.event(event).map_err(|what| failure(format!("{path}: {what}")))?;
            }
            seen += 1;
            if seen.is_multiple_of(BATCHES_A_REPORT) && !report_progress(progress.as_ref(), &json!({})) {
                break;
            }
        }
        Ok(())
    })?;
    let by_size = pages.runs().map(|runs| runs.by_size());
    let by_kind = pages.by_kind().by_kind();
    text(&json!({ "by_size": by_size, "by_kind": by_kind, "with_kernel": pages.with_kernel() }))
}

/// Reads all of a trace and says whether it is whole.
#[pyfunction]
pub fn trace_verify(py: Python<'_>, path: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let mut source = open(path).map_err(of_trace)?;
    let check = |desk: &Desk| source.verify(&mut |fraction| desk.report(&json!({ "fraction": fraction })));
    text(&attended(py, progress.as_ref(), check)?)
}

/// The name of the format that a file of this name is written in; empty when its name does not tell.
#[pyfunction]
pub fn trace_format(path: &str) -> &'static str {
    Format::of_name(Path::new(path)).map_or("", Format::name)
}

/// What is changed of a trace on its way into another file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Change {
    /// The program headers of the ELF files it maps are added.
    program_headers: bool,
    reshape: ReshapeDesc,
}

/// Writes instructions `start..end` of a trace in the format `fmt`, with the address space as it was at `start`,
/// changed as `change` says.
#[pyfunction]
#[pyo3(signature = (src, dst, fmt, start, end, change, progress))]
#[allow(clippy::too_many_arguments)]
pub fn trace_copy(
    py: Python<'_>,
    src: &str,
    dst: &str,
    fmt: &str,
    start: u64,
    end: Option<u64>,
    change: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let format: Format = fmt.parse().map_err(user)?;
    let raw: serde_json::Value = serde_json::from_str(change).map_err(request)?;
    within::<ReshapeDesc>(&raw["reshape"]).map_err(user)?;
    let change: Change = serde_json::from_value(raw).map_err(request)?;
    let mut source = open(src).map_err(of_trace)?;
    if change.program_headers {
        source = with_headers(source);
    }
    let mut source = reshape(&change.reshape, source).map_err(user)?;
    let written = attended(py, progress.as_ref(), |desk| {
        let on_progress = |now: &Progress| desk.report(now);
        write_file(source.as_mut(), Path::new(dst), format, Span { start, end }, on_progress)
    })?;
    let info = source.info();
    let mut written = serde_json::to_value(written.map_err(of_trace)?).map_err(failure)?;
    written["warnings"] = json!(info.warnings);
    written["reshaped"] = json!(info.reshaped);
    text(&written)
}

/// A recording of `mmulab-kernel` held against the generator of the same keys.
#[pyfunction]
pub fn twins(recording: &str, generator: &str) -> PyResult<String> {
    let mut recorded = open(recording).map_err(of_trace)?;
    text(&mmulab_workload::compare(recorded.as_mut(), generator).map_err(of_twin)?)
}

/// The address of the page that `mmulab-kernel` has mapped while it makes its data ready.
#[pyfunction]
pub fn gate() -> u64 {
    mmulab_workload::GATE
}

/// Instructions of a recording of `mmulab-kernel` before its data are ready.
#[pyfunction]
pub fn before_gate(py: Python<'_>, recording: &str) -> PyResult<u64> {
    let mut recorded = open(recording).map_err(of_trace)?;
    py.detach(|| mmulab_workload::before_gate(recorded.as_mut())).map_err(of_twin)
}

fn of_twin(error: TwinError) -> PyErr {
    match error {
        TwinError::Trace(error) => of_trace(error),
        other => user(other),
    }
}
