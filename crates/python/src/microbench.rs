//! Python binding of the TLB microbenchmark. One function runs the benchmark on a simulated machine, or on the host
//! processor with performance counters, and returns the report as JSON.

use crate::{
    errors::{failure, request, user},
    simulate::{Job, Search},
};
use mmulab_machine::{Machine, Options};
use mmulab_microbench::{Live, Perf, Plan, Program, Report, Simulated, TargetError, run};
use pyo3::prelude::*;
use serde::Deserialize;
use std::sync::Arc;

/// What `microbench` is asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    /// The machine; absent for the one this runs on.
    job: Option<Job>,
    search: Search,
    /// The program's text.
    program: String,
    plan: Plan,
    #[serde(default)]
    options: Options,
    /// Whether to tell what became of every page.
    #[serde(default)]
    pages: bool,
}

impl Spec {
    fn program(&mut self, own_group: Option<u16>) -> PyResult<Program> {
        if self.plan.group == 0 {
            self.plan.group = own_group.ok_or_else(|| {
                user(
                    "no array of level 1 for data coalesces groups on this machine: say how many pages a group has \
                      (--group)",
                )
            })?;
        }
        self.plan.check().map_err(user)?;
        let program = Program::parse(&self.program, self.plan.group).map_err(user)?;
        self.plan.check_program(&program).map_err(user)?;
        Ok(program)
    }
}

/// Runs the microbenchmark, simulated or live.
#[pyfunction]
pub fn microbench(py: Python<'_>, spec: &str) -> PyResult<String> {
    let mut spec: Spec = serde_json::from_str(spec).map_err(request)?;
    let ran: Result<Report, TargetError> = match &spec.job {
        None => {
            let program = spec.program(None)?;
            // Counters are of the thread that opens them.
            py.detach(|| {
                let counters = Perf::open()?;
                run(&mut Live::new(counters), &spec.plan, &program, spec.pages)
            })
        }
        Some(job) => {
            let resolved = job.resolve(&spec.options, &spec.search)?;
            let group = resolved.machine.data_group();
            let machine = Machine::new(Arc::new(resolved), true).map_err(user)?;
            let program = spec.program(group)?;
            py.detach(|| run(&mut Simulated::new(machine), &spec.plan, &program, spec.pages))
        }
    };
    serde_json::to_string(&ran.map_err(|e| if spec.job.is_none() { user(e) } else { failure(e) })?).map_err(failure)
}
