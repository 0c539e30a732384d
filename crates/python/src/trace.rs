use crate::errors::{failure, user};
use mmulab_machine::open;
use mmulab_trace::{Batch, TraceError, TraceErrorKind, summarize, write_batch};
use pyo3::prelude::*;
use serde_json::json;

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
