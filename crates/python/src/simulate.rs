//! Python binding of simulation runs: `run`, `explain`, miss traces and drawings of page tables. A request names a
//! trace, and machines with their policies; the result is JSON. All machines of one `run` share one decoding of the
//! trace. Further functions return the JSON schemas, and the lists of machines, policies and generators.

use crate::adviser::PyAdviser;
use crate::attend::{Desk, attended};
use crate::errors::{failure, of_trace, request, user};
use mmulab_describe::within;
use mmulab_kernel::PolicyDesc;
use mmulab_machine::{
    CodeWindows, Control, Ended, Followed, Limits, Machine, MachineDesc, Misses, Narrator, Options, Ran, Resolved,
    Touched, Watch, describe, describe::Names, draw_tables as draw, interleave, open, report, run as run_machines,
};
use mmulab_reshape::{ReshapeDesc, reshape};
use mmulab_trace::{Format, Source, Span, TraceInfo, warm_up, write_file};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Requests to `run` and `explain`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    trace: String,
    pub jobs: Vec<Job>,
    pub search: Search,
    #[serde(default)]
    pub options: Options,
    #[serde(default)]
    reshape: ReshapeDesc,
    /// The name of whoever advises the kernel, which no text can bring.
    #[serde(skip)]
    adviser: Option<String>,
}

/// One machine under one policy.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    machine: String,
    policy: String,
    #[serde(default)]
    host_policy: Option<String>,
    #[serde(default)]
    set: Vec<String>,
}

/// Where descriptions are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    machines: Vec<PathBuf>,
    policies: Vec<PathBuf>,
}

impl Job {
    pub fn of(machine: &str, policy: &str, set: Vec<String>) -> Self {
        Self { machine: machine.to_owned(), policy: policy.to_owned(), host_policy: None, set }
    }

    pub fn resolve(&self, options: &Options, search: &Search) -> PyResult<Resolved> {
        let names = Names { machine: &self.machine, policy: &self.policy, host_policy: self.host_policy.as_deref() };
        describe::resolve(names, &self.set, options, &search.machines, &search.policies).map_err(user)
    }
}

/// A request, its trace, and its machines.
type Opened = (Spec, Box<dyn Source>, Vec<Machine>);

impl Spec {
    fn read(text: &str) -> PyResult<Self> {
        let raw: serde_json::Value = serde_json::from_str(text).map_err(request)?;
        within::<Options>(&raw["options"]).map_err(user)?;
        within::<ReshapeDesc>(&raw["reshape"]).map_err(user)?;
        serde_json::from_value(raw).map_err(request)
    }

    pub fn open(text: &str) -> PyResult<Opened> {
        Self::read(text)?.opened()
    }

    /// The same trace from its start, with some of the jobs.
    fn again(text: &str, jobs: &[usize]) -> PyResult<Opened> {
        let mut spec = Self::read(text)?;
        let mut number = 0..;
        spec.jobs.retain(|_| number.next().is_some_and(|number| jobs.contains(&number)));
        spec.opened()
    }

    /// Whether the trace can be read twice: a file, or what makes its own.
    fn can_be_read_again(&self) -> bool {
        let is_made = |name: &str| ["gen:", "mix:"].iter().any(|of| name.starts_with(of));
        std::iter::once(&self.trace).chain(&self.options.vms).all(|name| is_made(name) || Path::new(name).is_file())
    }

    fn opened(self) -> PyResult<Opened> {
        let mut spec = self;
        let one = |name: &String| reshape(&spec.reshape, open(name).map_err(of_trace)?).map_err(user);
        let sources = std::iter::once(&spec.trace).chain(&spec.options.vms).map(one);
        let source = interleave(sources.collect::<PyResult<_>>()?, spec.options.quantum).map_err(user)?;
        spec.take_machines(source.info())?;
        let mut source = warm_up(source, spec.options.skip);
        let with_space = source.info().has_address_space;
        let of_misses = source.info().misses_of.is_some();
        if spec.options.timing {
            if of_misses {
                return Err(user(
                    "this trace holds misses only, and what ran between them decides the time: run the whole trace, \
                     or leave out --timing",
                ));
            }
            source.tell_code();
        }
        let machines = spec.jobs.iter().map(|job| {
            let resolved = job.resolve(&spec.options, &spec.search)?;
            if of_misses {
                alone(&resolved)?;
            }
            let resolved = if of_misses { resolved.without_tlbs() } else { resolved };
            let resolved = Resolved { adviser: spec.adviser.clone(), ..resolved };
            let mut machine = Machine::new(Arc::new(resolved), with_space).map_err(user)?;
            machine.take(source.info()).map_err(user)?;
            Ok(machine)
        });
        let machines = machines.collect::<PyResult<_>>()?;
        Ok((spec, source, machines))
    }

    /// What a mix says of virtual machines is as if each had been named.
    fn take_machines(&mut self, info: &TraceInfo) -> PyResult<()> {
        let Some(mix) = info.mix.as_ref().filter(|_| self.options.vms.is_empty()) else { return Ok(()) };
        if self.options.quantum.is_some() {
            let what = "this mix has turns of its own, which --quantum does not change: set them in its name, as in";
            return Err(user(format!("{what} mix:NAME?quantum=10k")));
        }
        self.options.vms = mix.members.iter().filter(|m| m.vm.is_some()).skip(1).map(|m| m.trace.clone()).collect();
        Ok(())
    }

    pub fn limits(&self) -> Limits {
        let Options { max_instructions, skip, threads, .. } = self.options;
        let instructions = max_instructions.map(|most| most.saturating_add(skip));
        Limits { instructions, threads, shares: self.can_be_read_again() }
    }

    fn followed(&self) -> Followed {
        let Options { touched, code_windows, .. } = self.options;
        Followed { touched: touched.then(Touched::new), windows: code_windows.then(CodeWindows::default) }
    }
}

/// Whether each walk of a machine is for one reference, so that misses say all that walkers do.
pub fn alone(resolved: &Resolved) -> PyResult<()> {
    if resolved.machine.gpu.is_some() {
        let what = "shader cores put references of a warp together, and one walk serves several: misses alone do not \
                    tell what they walk for";
        return Err(user(format!("{}: {what}; take a machine without [gpu]", resolved.machine.name)));
    }
    Ok(())
}

pub fn text<T: Serialize>(value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(failure)
}

/// The engine's version.
#[pyfunction]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Whether overflows and debug assertions are checked: `make test` builds so, and what users run is faster.
#[pyfunction]
pub fn is_checked() -> bool {
    cfg!(debug_assertions)
}

/// Runs machines to the end of a trace, or until the user stops them.
fn run_to_end(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    (source, mut machines): (&mut dyn Source, Vec<Machine>),
    followed: Followed,
    limits: Limits,
) -> PyResult<Ran> {
    attended(py, progress, |desk| {
        machines.iter_mut().for_each(|machine| machine.stop_with(&desk.stop));
        let on_progress = |now: &_| if desk.report(now) { Control::Continue } else { Control::Stop };
        run_machines(source, machines, followed, limits, on_progress)
    })
}

/// A request of one job, whose machine asks an adviser.
fn advised(py: Python<'_>, request: &str, (name, adviser): (String, Py<PyAny>)) -> PyResult<Opened> {
    let spec = Spec { adviser: Some(name), ..Spec::read(request)? };
    let (spec, source, mut machines) = spec.opened()?;
    let [machine] = machines.as_mut_slice() else {
        return Err(user("an adviser is asked by one machine under one policy: run the others apart"));
    };
    machine.advise(Box::new(PyAdviser::new(py, adviser)?)).map_err(user)?;
    Ok((spec, source, machines))
}

/// Runs jobs over one decoding of a trace. Machines with the same first level share that ([`Limits::shares`]); those
/// that turn out to differ there are run once more by themselves. `adviser`: an object of `mmulab.advised` with its
/// name, for one job.
#[pyfunction]
#[pyo3(signature = (spec, progress, adviser=None))]
pub fn run(
    py: Python<'_>,
    spec: &str,
    progress: Option<Py<PyAny>>,
    adviser: Option<(String, Py<PyAny>)>,
) -> PyResult<String> {
    let request = spec;
    let (spec, mut source, machines) = match adviser {
        None => Spec::open(request)?,
        Some(adviser) => advised(py, request, adviser)?,
    };
    let mut ran = run_to_end(py, progress.as_ref(), (source.as_mut(), machines), spec.followed(), spec.limits())?;
    if !ran.again.is_empty() {
        let (_, mut source, machines) = Spec::again(request, &ran.again)?;
        let limits = Limits { shares: false, ..spec.limits() };
        // Whoever stopped the run wants no other: these machines have nothing to show.
        let machines = if ran.ended == Ended::Interrupted {
            machines
        } else {
            let alone = run_to_end(py, progress.as_ref(), (source.as_mut(), machines), Followed::default(), limits)?;
            if alone.ended == Ended::Interrupted {
                ran.ended = alone.ended;
            }
            alone.machines
        };
        for (number, machine) in ran.again.iter().zip(machines) {
            ran.machines[*number] = machine;
        }
    }
    let mut results = Vec::new();
    for machine in &mut ran.machines {
        let result = report(machine, source.info(), &ran.ended, ran.touched.as_ref()).map_err(failure)?;
        if spec.options.skip > 0 && result.instructions() == 0 && ran.ended == Ended::End {
            return Err(user(format!(
                "--skip {} leaves nothing to count: the trace has {} instructions",
                spec.options.skip, ran.progress.instructions
            )));
        }
        results.push(result);
    }
    let p = &ran.progress;
    text(&json!({
        "results": results,
        "code_windows": ran.windows.as_ref().map(CodeWindows::report),
        "decode": {
            "instructions": p.instructions,
            "references": p.references,
            "wall_s": p.elapsed_s,
            "refs_per_s": p.refs_per_s,
            "instructions_per_s": p.instructions as f64 / p.elapsed_s.max(1e-9),
        },
    }))
}

/// Runs one machine, with an observer or none, until the desk says that it is to end.
fn watched(
    source: &mut dyn Source,
    machine: &mut Machine,
    watch: Option<&mut dyn Watch>,
    spec: &Spec,
    desk: &Desk,
) -> Ended {
    mmulab_machine::run_watched(source, machine, watch, spec.limits(), || {
        if desk.stop.is_asked() { Control::Stop } else { Control::Continue }
    })
}

/// Runs one job and tells of each reference.
#[pyfunction]
pub fn explain(py: Python<'_>, spec: &str, line: Py<PyAny>) -> PyResult<String> {
    let (spec, mut source, mut machines) = Spec::open(spec)?;
    let [machine] = machines.as_mut_slice() else { return Err(user("explain takes one job")) };
    let (ended, told, raised) = attended(py, None, |desk| {
        machine.stop_with(&desk.stop);
        let mut raised: Option<PyErr> = None;
        let mut narrator = Narrator::new(machine, |told: &str| {
            if raised.is_none() {
                raised = Python::attach(|py| line.call1(py, (told,)).map(drop)).err();
            }
        });
        let ended = watched(source.as_mut(), machine, Some(&mut narrator), &spec, desk);
        machine.complete_walks(&mut narrator);
        let told = narrator.finish();
        (ended, told, raised)
    })?;
    if let Some(error) = raised {
        return Err(error);
    }
    told.map_err(failure)?;
    text(&report(machine, source.info(), &ended, None).map_err(failure)?)
}

/// Runs one job and writes the references that its TLBs did not serve to a trace; the result, and what was written.
#[pyfunction]
pub fn misses(py: Python<'_>, spec: &str, target: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let (spec, source, mut machines) = Spec::open(spec)?;
    let ([job], [machine]) = (spec.jobs.as_slice(), machines.as_mut_slice()) else {
        return Err(user("misses are written of one job"));
    };
    if source.info().misses_of.is_some() {
        return Err(user("this trace holds misses only: they are what would be written"));
    }
    alone(&job.resolve(&spec.options, &spec.search)?)?;
    let target = Path::new(target);
    let format = match Format::of_name(target) {
        Some(format @ (Format::Native | Format::Text)) => format,
        _ => return Err(user(format!("{}: misses are written as .mmt or .mmtx", target.display()))),
    };
    let mut picked = Misses::new(source, machine, spec.limits());
    let written = attended(py, progress.as_ref(), |desk| {
        picked.stop_with(&desk.stop);
        let on_progress = |now: &mmulab_trace::Progress| desk.report(now);
        write_file(&mut picked, target, format, Span::default(), on_progress)
    })?;
    let written = written.map_err(of_trace)?;
    let (source, ended) = picked.finish();
    let ended = if written.interrupted { Ended::Interrupted } else { ended };
    let result = report(machine, source.info(), &ended, None).map_err(failure)?;
    text(&json!({ "result": result, "written": written }))
}

/// Runs one job and draws the page tables it ends with.
#[pyfunction]
pub fn draw_tables(py: Python<'_>, spec: &str) -> PyResult<String> {
    let (spec, mut source, mut machines) = Spec::open(spec)?;
    let [machine] = machines.as_mut_slice() else { return Err(user("tables are drawn of one job")) };
    let ended = attended(py, None, |desk| {
        machine.stop_with(&desk.stop);
        watched(source.as_mut(), machine, None, &spec, desk)
    })?;
    text(&json!({
        "drawing": draw(machine),
        "result": report(machine, source.info(), &ended, None).map_err(failure)?,
    }))
}

fn search(text: &str) -> PyResult<Search> {
    serde_json::from_str(text).map_err(request)
}

/// A job's descriptions with every value known.
#[pyfunction]
pub fn resolve(
    machine: &str,
    policy: &str,
    host_policy: Option<String>,
    sets: Vec<String>,
    search: &str,
) -> PyResult<String> {
    let job = Job { machine: machine.to_owned(), policy: policy.to_owned(), host_policy, set: sets };
    let resolved = job.resolve(&Options::default(), &self::search(search)?)?;
    // Building it finds what only shows when all parts meet.
    let resolved = Arc::new(resolved);
    Machine::new(Arc::clone(&resolved), true).map_err(user)?;
    text(&*resolved)
}

/// The schema of machine files.
#[pyfunction]
pub fn machine_schema() -> PyResult<String> {
    text(&describe::file_schema::<MachineDesc>())
}

/// The schema of policy files.
#[pyfunction]
pub fn policy_schema() -> PyResult<String> {
    text(&describe::file_schema::<PolicyDesc>())
}

/// The schema of results.
#[pyfunction]
pub fn result_schema() -> PyResult<String> {
    text(&mmulab_machine::report_schema())
}

/// The schema of the lines of `explain`.
#[pyfunction]
pub fn explain_schema() -> PyResult<String> {
    text(&mmulab_machine::line_schema())
}

/// The schema of what can be changed of a recorded program.
#[pyfunction]
pub fn reshape_schema() -> PyResult<String> {
    text(&schemars::schema_for!(ReshapeDesc))
}

/// The schema of the options of a run.
#[pyfunction]
pub fn options_schema() -> PyResult<String> {
    text(&schemars::schema_for!(Options))
}

/// The generators with the schemas of their parameters.
#[pyfunction]
pub fn generators() -> PyResult<String> {
    text(&mmulab_workload::list())
}

fn listing(dirs: &[PathBuf]) -> PyResult<String> {
    let rows: Vec<_> = describe::list(dirs)
        .into_iter()
        .map(|(name, path)| {
            let title = describe::title(&path).unwrap_or_default();
            json!({ "name": name, "title": title, "path": path })
        })
        .collect();
    text(&rows)
}

/// The machine files there are.
#[pyfunction]
pub fn list_machines(search: &str) -> PyResult<String> {
    listing(&self::search(search)?.machines)
}

/// A machine file with all that it inherits, as TOML.
#[pyfunction]
pub fn whole_machine(search: &str, name: &str) -> PyResult<String> {
    whole::<MachineDesc>("machine", name, &self::search(search)?.machines)
}

/// A policy file with all that it inherits, as TOML.
#[pyfunction]
pub fn whole_policy(search: &str, name: &str) -> PyResult<String> {
    whole::<PolicyDesc>("policy", name, &self::search(search)?.policies)
}

fn whole<T: schemars::JsonSchema>(what: &'static str, name: &str, dirs: &[PathBuf]) -> PyResult<String> {
    describe::Whole::read::<T>(what, name, dirs).and_then(|whole| whole.toml()).map_err(user)
}

/// What each policy is: sizes that faults map, allocation, promotion, hints.
#[pyfunction]
pub fn policy_table(search: &str) -> PyResult<String> {
    let dirs = self::search(search)?.policies;
    let row = |(name, _): (String, PathBuf)| describe::policy(&name, &dirs).map(|policy| policy.declared());
    let rows: Result<Vec<_>, _> = describe::list(&dirs).into_iter().map(row).collect();
    text(&rows.map_err(user)?)
}

/// The policy files there are.
#[pyfunction]
pub fn list_policies(search: &str) -> PyResult<String> {
    listing(&self::search(search)?.policies)
}
