//! Python exceptions of the engine: `UserError` for a mistake in a request, `Failure` for any other error. The class
//! decides the exit code of the command line, so the functions here sort all Rust errors into the two.

use mmulab_trace::{TraceError, TraceErrorKind};
use pyo3::{create_exception, exceptions::PyException, prelude::*};
use std::{fmt::Display, io::ErrorKind};

create_exception!(_core, UserError, PyException, "A mistake in what was asked for: the exit code is 2.");
create_exception!(_core, Failure, PyException, "Something that should have worked did not: the exit code is 1.");

/// An error about a trace. It is a failure if the contents are wrong, wherever that shows. It is the user's mistake if
/// the named file cannot be a trace or does not exist, or if the request cannot be met.
pub fn of_trace(error: TraceError) -> PyErr {
    let is_mistake = match &error.kind {
        TraceErrorKind::Foreign(_) | TraceErrorKind::Request(_) => true,
        TraceErrorKind::Io(error) => matches!(
            error.kind(),
            ErrorKind::NotFound
                | ErrorKind::PermissionDenied
                | ErrorKind::IsADirectory
                | ErrorKind::NotADirectory
                | ErrorKind::InvalidFilename
        ),
        TraceErrorKind::Cut(_)
        | TraceErrorKind::Damaged(_)
        | TraceErrorKind::End(_)
        | TraceErrorKind::Syntax(_)
        | TraceErrorKind::Unwritten(_) => false,
    };
    if is_mistake { user(error) } else { failure(error) }
}

/// An error of the user's making.
pub fn user(error: impl Display) -> PyErr {
    UserError::new_err(error.to_string())
}

/// An error of ours or the system's.
pub fn failure(error: impl Display) -> PyErr {
    Failure::new_err(error.to_string())
}

/// A request that is none. The user wrote a value of it and never saw its text, so where in that it stands says
/// nothing.
pub fn request(error: serde_json::Error) -> PyErr {
    let told = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    user(told.strip_suffix(&place).unwrap_or(&told))
}
