//! Python binding of Leshy: profiles of TLB misses, page sizes selected from them, hint files.

use crate::{
    attend::attended,
    errors::{failure, request, user},
    simulate::{Spec, alone, text},
};
use mmulab_addr::PageOrder;
use mmulab_leshy::{Ask, HintFile, ProfileFile};
use mmulab_machine::{Control, Followed, report, run as run_machines};
use pyo3::prelude::*;
use serde_json::json;
use std::{
    fs::File,
    io::{BufReader, BufWriter, Write},
};

fn save(file: &ProfileFile, path: &str) -> PyResult<()> {
    let write = || -> std::io::Result<()> {
        let mut to = BufWriter::new(File::create(path)?);
        file.write(&mut to)?;
        to.flush()
    };
    write().map_err(|e| user(format!("{path}: {e}")))
}

fn read(path: &str) -> PyResult<ProfileFile> {
    let from = File::open(path).map_err(|e| user(format!("{path}: {e}")))?;
    ProfileFile::read(path, BufReader::new(from)).map_err(user)
}

/// Runs one job whose options ask for samples. Writes the sampled misses to `target`, and the accesses sampled by
/// accessed bits to `accessed` if that is given. Returns the result.
#[pyfunction]
pub fn leshy_profile(
    py: Python<'_>,
    spec: &str,
    target: &str,
    accessed: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (spec, mut source, mut machines) = Spec::open(spec)?;
    let [job] = spec.jobs.as_slice() else { return Err(user("a profile is of one job")) };
    if source.info().misses_of.is_some() {
        return Err(user(
            "this trace holds misses only, without the TLB that misses are sampled behind: run the whole trace",
        ));
    }
    alone(&job.resolve(&spec.options, &spec.search)?)?;
    let ran = attended(py, progress.as_ref(), |desk| {
        machines.iter_mut().for_each(|machine| machine.stop_with(&desk.stop));
        let on_progress = |now: &_| if desk.report(now) { Control::Continue } else { Control::Stop };
        run_machines(source.as_mut(), machines, Followed::default(), spec.limits(), on_progress)
    })?;
    let ended = ran.ended;
    let Some(mut machine) = ran.machines.into_iter().next() else { return Err(failure("no machine ran")) };
    let result = report(&mut machine, source.info(), &ended, None).map_err(failure)?;
    let profiles =
        [(Some(target), machine.sampled_misses(source.info())), (accessed, machine.sampled_accesses(source.info()))];
    for (path, file) in profiles {
        if let (Some(path), Some(file)) = (path, file) {
            save(&file, path)?;
        }
    }
    text(&result)
}

/// What a profile file is of, without its pages.
#[pyfunction]
pub fn leshy_head(path: &str) -> PyResult<String> {
    text(&read(path)?.head)
}

/// Page sizes for a profile file, by one of the methods.
#[pyfunction]
pub fn leshy_select(path: &str, ask: &str) -> PyResult<String> {
    let ask: Ask = serde_json::from_str(ask).map_err(request)?;
    text(&ask.answer(&read(path)?).map_err(user)?)
}

/// Equation 1 over the bins of a profile file.
#[pyfunction]
pub fn leshy_problem(path: &str, ask: &str) -> PyResult<String> {
    let ask: Ask = serde_json::from_str(ask).map_err(request)?;
    text(&ask.problem(&read(path)?).map_err(user)?)
}

/// The samples of a profile file by aligned pieces of memory of `size`.
#[pyfunction]
pub fn leshy_heat(path: &str, size: &str) -> PyResult<String> {
    let order: PageOrder = serde_json::from_value(json!(size)).map_err(request)?;
    text(&read(path)?.heat(order))
}

/// The text of a hint file, checked, as JSON.
#[pyfunction]
pub fn hints(path: &str) -> PyResult<String> {
    let from = std::fs::read_to_string(path).map_err(|e| user(format!("{path}: {e}")))?;
    text(&HintFile::read(path, &from).map_err(user)?)
}

/// The schema of hint files.
#[pyfunction]
pub fn hints_schema() -> PyResult<String> {
    text(&schemars::schema_for!(HintFile))
}
