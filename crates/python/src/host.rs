//! The binding of `mmulab probe`: timings of this computer, taken in Rust.

use crate::errors::{failure, request, user};
use mmulab_host::{Curve, CurveSpec, Frames, HostError, figures, measure, noise, pin_to};
use pyo3::{exceptions::PyKeyboardInterrupt, prelude::*};
use serde_json::json;

fn host(error: HostError) -> PyErr {
    match error {
        HostError::Asked(_) => user(error),
        HostError::System { .. } => failure(error),
        HostError::Stopped => PyKeyboardInterrupt::new_err(()),
    }
}

/// The processor that this runs on.
#[pyfunction]
pub fn probe_processor() -> PyResult<String> {
    serde_json::to_string(&mmulab_host::processor()).map_err(failure)
}

/// Keeps the calling thread on one CPU; its number.
#[pyfunction]
pub fn probe_pin(cpu: Option<usize>) -> PyResult<usize> {
    pin_to(cpu).map_err(host)
}

/// Times one curve. `progress` gets the share that is done.
#[pyfunction]
pub fn probe_curve(py: Python<'_>, spec: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let spec: CurveSpec = serde_json::from_str(spec).map_err(request)?;
    let mut raised = None;
    let measured = py.detach(|| {
        measure(&spec, |done| {
            Python::attach(|py| {
                let heard = progress.as_ref().map_or(Ok(()), |p| p.call1(py, (done,)).map(drop));
                heard.and_then(|()| py.check_signals()).map_err(|error| raised = Some(error)).is_ok()
            })
        })
    });
    if let Some(error) = raised {
        return Err(error);
    }
    serde_json::to_string(&measured.map_err(host)?).map_err(failure)
}

/// What curves show: the figures, and the noise of each curve.
#[pyfunction]
pub fn probe_figures(curves: &str) -> PyResult<String> {
    let curves: Vec<Curve> = serde_json::from_str(curves).map_err(request)?;
    let noises: serde_json::Map<_, _> = curves.iter().map(|c| (c.name.clone(), json!(noise(c)))).collect();
    serde_json::to_string(&json!({ "figures": figures(&curves), "noise": noises })).map_err(failure)
}

/// Of base pages' frames by number: how many lie scattered, and how densely; null where the system hides the numbers.
#[pyfunction]
pub fn probe_frames(frames: Vec<u64>) -> PyResult<String> {
    serde_json::to_string(&Frames::of(frames)).map_err(failure)
}

/// Whether the curve of jumps can be measured here.
#[pyfunction]
pub fn probe_jumps() -> bool {
    mmulab_host::jumps_are_possible()
}
