//! Python binding of the recorder: options in, report out, both in JSON. An exception in the progress callback or
//! Ctrl-C stops the recording, and the trace up to that point is kept.

use crate::errors::{failure, request, user};
use crate::trace::report_progress;
use mmulab_record::{Ended, RecordOptions, record as record_program};
use pyo3::prelude::*;

/// Runs a program under QEMU and writes what it did. `progress` gets how far it is; if it raises, the recording
/// ends and keeps what it has.
#[pyfunction]
pub fn record(py: Python<'_>, spec: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let options: RecordOptions = serde_json::from_str(spec).map_err(request)?;
    let report = py.detach(|| record_program(&options, |now| report_progress(progress.as_ref(), now)));
    match report {
        Ok(mut report) => {
            // Ctrl-C on a terminal reaches the program too, which may end before this process handles the signal.
            if py.check_signals().is_err() {
                report.ended = Ended::Interrupted;
            }
            serde_json::to_string(&report).map_err(failure)
        }
        Err(error) if error.is_mistake() => Err(user(error)),
        Err(error) => Err(failure(error)),
    }
}
