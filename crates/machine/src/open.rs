use mmulab_trace::{Source, TextReader, TraceError, TraceErrorKind};
use std::path::Path;

/// Opens whatever a user names as a trace: a file, or `gen:NAME?key=value`.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn open(name: &str) -> Result<Box<dyn Source>, TraceError> {
    if name.starts_with("gen:") {
        return mmulab_workload::open(name)
            .map_err(|e| TraceError::new(e.to_string(), "", TraceErrorKind::Request("no such generator".into())));
    }
    let path = Path::new(name);
    match path.extension().and_then(|e| e.to_str()) {
        Some("mmtx") => Ok(Box::new(TextReader::open(path)?)),
        _ => {
            std::fs::metadata(path).map_err(|e| TraceError::io(path, e))?;
            let known = "text traces end in .mmtx".into();
            Err(TraceError::new(name, "", TraceErrorKind::Foreign(known)))
        }
    }
}
