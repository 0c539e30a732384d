use pyo3::{create_exception, exceptions::PyException, prelude::*};
use std::fmt::Display;

create_exception!(_core, UserError, PyException, "A mistake in what was asked for: the exit code is 2.");
create_exception!(_core, Failure, PyException, "Something that should have worked did not: the exit code is 1.");

/// An error of the user's making.
pub fn user(error: impl Display) -> PyErr {
    UserError::new_err(error.to_string())
}

/// An error of ours or the system's.
pub fn failure(error: impl Display) -> PyErr {
    Failure::new_err(error.to_string())
}

/// A request that is none. The user wrote a value of it and never saw its text, so where in that it stands says nothing.
pub fn request(error: serde_json::Error) -> PyErr {
    let told = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    user(told.strip_suffix(&place).unwrap_or(&told))
}
