//! Errors of traces: the trace, the place in the trace, and the kind of error. Callers use the kind to separate
//! damaged files from mistakes in a request.

use std::path::PathBuf;
use thiserror::Error;

/// A fault of a trace, its place, and the remedy.
#[derive(Debug, Error)]
#[error("{place}: {kind}", place = Self::place(name, at))]
pub struct TraceError {
    /// The trace's name or path.
    pub name: String,
    /// The place in it: `byte 1234`, `line 7, column 3`; empty for the whole.
    pub at: String,
    /// The fault.
    #[source]
    pub kind: TraceErrorKind,
}

/// The ways a trace can be wrong.
#[derive(Debug, Error)]
pub enum TraceErrorKind {
    /// The system refused.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The file is of no known format.
    #[error("not a trace mmulab can read: {0}")]
    Foreign(String),
    /// The file ends too early; what came before is whole.
    #[error("cut short: {0}")]
    Cut(String),
    /// The bytes after the references differ from those written; all references were read.
    #[error("damaged at its end: {0}")]
    End(String),
    /// Bytes are not what was written.
    #[error("damaged: {0}")]
    Damaged(String),
    /// A text line is not understood.
    #[error("{0}")]
    Syntax(String),
    /// A file cannot be written to its end.
    #[error("cannot be written: {0}; nothing was left there")]
    Unwritten(std::io::Error),
    /// A request the user made cannot be met.
    #[error("{0}")]
    Request(String),
}

impl TraceError {
    /// An error in `name` at `at`.
    pub fn new(name: impl Into<String>, at: impl Into<String>, kind: impl Into<TraceErrorKind>) -> Self {
        Self { name: name.into(), at: at.into(), kind: kind.into() }
    }

    /// A system error on the file `path`.
    pub fn io(path: impl Into<PathBuf>, error: std::io::Error) -> Self {
        Self::new(path.into().display().to_string(), "", error)
    }

    /// Whether all references were read: only what follows them is damaged.
    pub fn is_after_all(&self) -> bool {
        matches!(self.kind, TraceErrorKind::End(_))
    }

    fn place(name: &str, at: &str) -> String {
        if at.is_empty() { name.to_owned() } else { format!("{name}: {at}") }
    }
}
