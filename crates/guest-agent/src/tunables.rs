//! Files by which the kernel is told what to do: what prepares the system writes them, and so does what holds memory.

use std::{
    fs,
    io::{self, Write},
};

/// Writes to a file of the kernel's.
pub fn tell_kernel(path: &str, value: &str) -> Result<(), String> {
    let file = fs::OpenOptions::new().write(true).open(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => format!("{path}: this kernel has no such file"),
        _ => format!("{path}: {e}"),
    })?;
    (&file).write_all(value.as_bytes()).map_err(|e| format!("{path}: '{value}': {e}"))
}
