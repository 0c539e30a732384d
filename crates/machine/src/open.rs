use mmulab_trace::{Source, TraceError, TraceErrorKind, open_file};
use std::path::Path;

/// Opens whatever a user names as a trace: a file of any format that is read, or `gen:NAME?key=value`.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn open(name: &str) -> Result<Box<dyn Source>, TraceError> {
    if name.starts_with("gen:") {
        return mmulab_workload::open(name)
            .map_err(|e| TraceError::new(e.to_string(), "", TraceErrorKind::Request("no such generator".into())));
    }
    open_file(Path::new(name))
}
