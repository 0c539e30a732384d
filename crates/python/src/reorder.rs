//! Python binding of function orders: one pass over a recording, which counts calls, and the order that C3 makes of
//! them.

use crate::{
    attend::attended,
    errors::{of_trace, request, user},
    simulate::text,
};
use mmulab_elf::{CodeSection, Function};
use mmulab_machine::open;
use mmulab_reshape::{CLUSTER_BYTES, CallProfile, FunctionTables, by_calls};
use mmulab_trace::{Batch, Source, TraceError};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;

/// What `reorder` is asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    trace: String,
    /// By path: functions that are taken in place of the file's own, as offset, bytes and name.
    #[serde(default)]
    functions: HashMap<String, Vec<(u64, u64, String)>>,
    #[serde(default)]
    max_instructions: Option<u64>,
    #[serde(default)]
    cluster_bytes: Option<u64>,
}

impl Spec {
    /// The tables: functions that follow each other without a gap are of one section.
    fn tables(&self) -> PyResult<FunctionTables> {
        let mut tables = HashMap::new();
        for (path, functions) in &self.functions {
            let mut functions = functions.clone();
            functions.sort_unstable();
            let mut sections: Vec<CodeSection> = Vec::new();
            for (offset, bytes, name) in functions {
                let wrong = |why| user(format!("{path}: the function '{name}' at {offset:#x} {why}"));
                let end = offset.checked_add(bytes).filter(|&end| end > offset).ok_or_else(|| wrong("has no bytes"))?;
                let name = Some(name.clone()).filter(|name| !name.is_empty());
                let function = Function { start: offset, end, name };
                match sections.last_mut() {
                    Some(last) if offset < last.range.end => return Err(wrong("begins within another one")),
                    Some(last) if offset == last.range.end => {
                        last.range.end = end;
                        last.functions.push(function);
                    }
                    _ => sections.push(CodeSection { range: offset..end, functions: vec![function] }),
                }
            }
            tables.insert(path.as_str().into(), sections);
        }
        Ok(FunctionTables(tables))
    }
}

/// An order of a recording's functions by the calls that it makes.
#[pyfunction]
pub fn reorder(py: Python<'_>, spec: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let spec: Spec = serde_json::from_str(spec).map_err(request)?;
    let tables = spec.tables()?;
    let mut source = open(&spec.trace).map_err(of_trace)?;
    if !source.info().has_address_space {
        return Err(user(format!(
            "{}: the trace has no mappings, so that its code belongs to no file; record the program with mmulab",
            spec.trace
        )));
    }
    let most = spec.max_instructions.unwrap_or(u64::MAX);
    let profile = attended(py, progress.as_ref(), |desk| {
        let mut profile = CallProfile::new(tables);
        let mut batch = Batch::default();
        let mut read = |source: &mut dyn Source| -> Result<(), TraceError> {
            loop {
                let more = source.next_batch(&mut batch)?;
                let goes_on = profile.take(&batch, most);
                let now = json!({ "instructions": profile.instructions, "fraction": source.progress() });
                if !more || !goes_on || !desk.report(&now) {
                    return Ok(());
                }
            }
        };
        read(source.as_mut()).map(|()| (profile, desk.stop.is_asked()))
    })?;
    let (profile, interrupted) = profile.map_err(of_trace)?;
    let instructions = profile.instructions;
    let (order, files) = by_calls(profile, &spec.trace, spec.cluster_bytes.unwrap_or(CLUSTER_BYTES));
    text(&json!({ "order": order, "files": files, "instructions": instructions, "interrupted": interrupted }))
}
