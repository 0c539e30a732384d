//! An adviser in Python: an object of `mmulab.advised`, which calls the user's. Sizes pass as text, all else as
//! numbers. The object keeps the exception that its user's raised; here only the fact of it counts.

use mmulab_addr::{PageOrder, Pid, VirtAddr};
use mmulab_kernel::{Adviser, Advises, Asked, Mapping, Promotion, Raised, Sizes, View};
use pyo3::prelude::*;
use serde::Serialize;

/// Calls the methods `fault` and `tick` of an object.
pub struct PyAdviser {
    object: Py<PyAny>,
    advises: Advises,
}

/// A mapping: the first address and the one after the last, kind, name, advice.
type MappingParts<'a> = (u64, u64, String, &'a str, Option<&'static str>);

/// A process: its number, its mappings, and runs of pages: address, size, number.
type ProcessParts<'a> = (u32, Vec<MappingParts<'a>>, Vec<(u64, String, u64)>);

impl PyAdviser {
    /// Of an object with the attributes `faults`, `ticks` and `period_ms`, which say what it wants to be asked.
    pub fn new(py: Python<'_>, object: Py<PyAny>) -> PyResult<Self> {
        let advises = Advises {
            faults: object.getattr(py, "faults")?.extract(py)?,
            ticks: object.getattr(py, "ticks")?.extract(py)?,
            period_ms: object.getattr(py, "period_ms")?.extract(py)?,
        };
        Ok(Self { object, advises })
    }
}

impl Adviser for PyAdviser {
    fn advises(&self) -> Advises {
        self.advises
    }

    fn fault(&mut self, asked: &Asked) -> Result<Option<PageOrder>, Raised> {
        let answer = Python::attach(|py| {
            let parts = (asked.va.raw(), word(asked.access), asked.pid.0, mapping(&asked.mapping), sizes(asked.sizes));
            self.object.call_method1(py, "fault", parts)?.extract::<Option<String>>(py)
        });
        match answer.map_err(|_| Raised)? {
            None => Ok(None),
            Some(size) => size.parse().map(Some).map_err(|_| Raised),
        }
    }

    fn tick(&mut self, view: &View) -> Result<Vec<Promotion>, Raised> {
        let answer = Python::attach(|py| {
            let processes: Vec<ProcessParts> = view
                .processes
                .iter()
                .map(|process| {
                    let mappings = process.mappings.iter().map(mapping).collect();
                    let run = |run: &mmulab_kernel::PageRun| (run.start.raw(), run.size.to_string(), run.pages);
                    (process.pid.0, mappings, process.pages.iter().map(run).collect())
                })
                .collect();
            let parts = (view.now_ns, sizes(view.sizes), processes);
            self.object.call_method1(py, "tick", parts)?.extract::<Vec<(u32, u64, u64, String)>>(py)
        });
        let promotion = |(pid, start, end, size): (u32, u64, u64, String)| {
            let size = size.parse().map_err(|_| Raised)?;
            Ok(Promotion { pid: Pid(pid), start: VirtAddr::new(start), end: VirtAddr::new(end), size })
        };
        answer.map_err(|_| Raised)?.into_iter().map(promotion).collect()
    }
}

fn mapping(of: &Mapping) -> MappingParts<'_> {
    (of.start.raw(), of.end.raw(), word(of.kind), &of.name, of.advice)
}

fn sizes(of: Sizes) -> Vec<String> {
    of.iter().map(|size| size.to_string()).collect()
}

/// The word that results have for it.
fn word(of: impl Serialize) -> String {
    serde_json::to_value(of).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
