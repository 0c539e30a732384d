//! The kinds of machines: which parts of the engine a description asks for. The kind is decided when a machine is
//! built, and asked once for each batch.
//!
//! ```text
//! description              below   execution
//! -                        Bare    Windowed, or in a group with one first level: Windowed<Leading>, Following
//! [gpu]                    Bare    ShaderCores
//! [core.timing], --timing  Bare    InTime
//! [virtual]                Host    Windowed
//! both                     Host    InTime
//! ```

use crate::{
    count::{Counted, Tally},
    describe::{MachineDesc, Resolved},
    ended::{Ended, MachineError},
    engine::{Bare, Build, Engine, State, Windowed},
    gpu::ShaderCores,
    leshy::Online,
    observe::{NoObserver, Watch, Watched},
    share::{Following, Leading, Log, in_common},
    system::System,
    timed::InTime,
    virt::{Host, systems},
};
use mmulab_kernel::Stop;
use mmulab_tlb::{HierarchyCounts, SharedLevels};
use mmulab_trace::{Batch, TraceInfo};
use mmulab_walker::{NestedWalker, WalkSlots, Walker};
use std::sync::Arc;

/// A machine of one of the kinds.
pub(crate) enum Running {
    Plain(Box<Engine<Bare, Windowed>>),
    Leads(Box<Engine<Bare, Windowed<Leading>>>),
    Follows(Box<Engine<Bare, Following>>),
    ShaderCores(Box<Engine<Bare, ShaderCores>>),
    InTime(Box<Engine<Bare, InTime>>),
    Guests(Box<Engine<Host, Windowed>>),
    GuestsInTime(Box<Engine<Host, InTime>>),
}

/// Runs `$body` with the engine, whatever its kind.
macro_rules! engine {
    ($running:expr, $engine:ident => $body:expr) => {
        match $running {
            Running::Plain($engine) => $body,
            Running::Leads($engine) => $body,
            Running::Follows($engine) => $body,
            Running::ShaderCores($engine) => $body,
            Running::InTime($engine) => $body,
            Running::Guests($engine) => $body,
            Running::GuestsInTime($engine) => $body,
        }
    };
}

/// The system that programs run on first, and the host below it.
fn first_system(desc: &Resolved) -> Result<(System, Option<Host>), MachineError> {
    Ok(match (&desc.machine.guest, &desc.host_policy) {
        (Some(guest), Some(policy)) => {
            let (host, first) = Host::new(desc, guest, policy)?;
            (first, Some(host))
        }
        _ => (System::new(&desc.kernel_desc(), Tally::new(&desc.options), Online::new(desc))?, None),
    })
}

/// What the CPUs of a machine are built with.
fn build(machine: &MachineDesc, in_time: bool) -> Build {
    let is_nested = machine.guest.as_ref().is_some_and(|guest| guest.is_nested());
    Build {
        clock: match (&machine.gpu, in_time) {
            (_, true) => InTime::clock(),
            (Some(_), false) => ShaderCores::clock(&machine.core),
            (None, false) => Windowed::clock(&machine.core),
        },
        walker: if is_nested { NestedWalker::guest } else { Walker::new },
        slots: if in_time { WalkSlots::any_order } else { WalkSlots::in_order },
    }
}

impl Running {
    /// Builds the machine of `desc` for a trace that carries its address-space events, or does not.
    pub fn new(desc: Arc<Resolved>, has_address_space: bool) -> Result<Self, MachineError> {
        let machine = &desc.machine;
        let timing = machine.core.timing.clone().filter(|_| desc.options.timing);
        let gpu = machine.gpu.clone();
        let (system, host) = first_system(&desc)?;
        let state = State::new(Arc::clone(&desc), system, &build(machine, timing.is_some()), has_address_space)?;
        Ok(match (host, timing, gpu) {
            (None, None, None) => Self::Plain(Engine::start(state, Bare, Windowed::default())?.into()),
            (None, None, Some(gpu)) => {
                let cores = ShaderCores::new(machine, &gpu);
                Self::ShaderCores(Engine::start(state, Bare, cores)?.into())
            }
            (None, Some(timing), _) => {
                let in_time = InTime::new(&state, &timing);
                Self::InTime(Engine::start(state, Bare, in_time)?.into())
            }
            (Some(host), None, _) => Self::Guests(Engine::start(state, host, Windowed::default())?.into()),
            (Some(host), Some(timing), _) => {
                let in_time = InTime::new(&state, &timing);
                Self::GuestsInTime(Engine::start(state, host, in_time)?.into())
            }
        })
    }

    /// The same machine before it has run anything, as one that leads others or follows one: one search of these levels
    /// serves for all. Other kinds stay as they are.
    pub fn in_group(self, levels: SharedLevels, leads: bool) -> Self {
        let Self::Plain(engine) = self else { return self };
        let Engine { mut state, below, .. } = *engine;
        state.hardware.cpus.iter_mut().for_each(|cpu| cpu.tlbs.keep_trail(levels, !leads));
        match leads {
            true => {
                let execution = Windowed { record: Leading::new(levels) };
                Self::Leads(Engine { state, below, execution }.into())
            }
            false => Self::Follows(Engine { state, below, execution: Following::new(levels) }.into()),
        }
    }

    /// What machines of one group have in common; `None` if it cannot be in one with others, or not any more.
    pub fn in_common(&self, levels: SharedLevels) -> Option<String> {
        match self {
            Self::Plain(engine) if engine.state.account.references == 0 => {
                in_common(&engine.state.desc, &engine.state.hardware.cpus[0].tlbs, levels)
            }
            _ => None,
        }
    }

    /// The log of the batch that was run; empty unless it leads.
    pub fn take_log(&mut self, used: Log) -> Log {
        match self {
            Self::Leads(engine) => engine.execution.record.take(used),
            _ => used,
        }
    }

    /// The log of the batch that is run next, to one that follows.
    pub fn give_log(&mut self, log: Arc<Log>) {
        if let Self::Follows(engine) = self {
            engine.execution.give(log);
        }
    }

    /// The run is over; `counts` are the leader's.
    pub fn end_following(&mut self, counts: HierarchyCounts) {
        if let Self::Follows(engine) = self {
            engine.execution.end(counts);
        }
    }

    /// The state that all kinds have.
    pub fn state(&self) -> &State {
        engine!(self, engine => &engine.state)
    }

    /// The same, to be changed.
    pub fn state_mut(&mut self) -> &mut State {
        engine!(self, engine => &mut engine.state)
    }

    /// The host below virtual machines.
    pub fn host(&self) -> Option<&Host> {
        match self {
            Self::Plain(_) | Self::Leads(_) | Self::Follows(_) | Self::ShaderCores(_) | Self::InTime(_) => None,
            Self::Guests(engine) => Some(&engine.below),
            Self::GuestsInTime(engine) => Some(&engine.below),
        }
    }

    /// Every kernel that programs run on, with its memory: the one machine's, or each guest's, by number.
    pub fn systems(&self) -> impl Iterator<Item = (usize, &System)> {
        systems(&self.state().system, self.host())
    }

    /// Whether the run is observed from now on.
    pub fn observe(&mut self, observed: bool) {
        engine!(self, engine => engine.observe(observed));
    }

    /// Runs a batch.
    pub fn run(&mut self, batch: &Batch, watch: Option<&mut dyn Watch>) -> Result<(), Ended> {
        match watch {
            None => engine!(self, engine => engine.run(batch, &mut NoObserver)),
            Some(watch) => engine!(self, engine => engine.run(batch, &mut Watched(watch))),
        }
    }

    /// Completes all walks in flight: the trace is over.
    pub fn complete_walks(&mut self, watch: Option<&mut dyn Watch>) {
        match watch {
            None => engine!(self, engine => engine.complete_walks(&mut NoObserver)),
            Some(watch) => engine!(self, engine => engine.complete_walks(&mut Watched(watch))),
        }
    }

    /// Ends within an event that takes long, and after any, once `stop` is asked for.
    pub fn stop_with(&mut self, stop: &Stop) {
        engine!(self, engine => engine.stop_with(stop));
    }

    /// Takes a trace.
    pub fn take(&mut self, info: &TraceInfo) -> Result<(), MachineError> {
        engine!(self, engine => engine.take(info))
    }

    /// The run is over: the acting process gets its counts, the first system runs again, and walks in flight complete.
    pub fn close(&mut self) {
        engine!(self, engine => engine.close());
    }

    /// Counts begin here.
    pub fn resume(&mut self) {
        engine!(self, engine => engine.resume(&mut NoObserver));
    }

    /// All counters since counts began.
    pub fn counted(&mut self) -> Counted {
        engine!(self, engine => engine.counted())
    }
}
