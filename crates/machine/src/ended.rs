//! Ends of a run, with their names and messages in results, and the errors that prevent a machine from being built.
//! The reason in a result shows whether the whole trace ran.

use mmulab_addr::{Access, VirtAddr};
use mmulab_describe::DescribeError;
use mmulab_kernel::{FaultError, KernelError};
use mmulab_tlb::GeometryError;
use mmulab_trace::TraceError;
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

/// Why a run, or one machine in it, came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The trace was over.
    End,
    /// The limit the user set.
    Limit,
    /// The user stopped it.
    Interrupted,
    /// The trace could not be read further.
    TraceDamaged(String),
    /// All references were run, but what follows them in the trace is damaged.
    EndDamaged(String),
    /// Physical memory ran out.
    OutOfMemory(String),
    /// The trace touched memory it may not, and the run was to stop at that.
    Violation(String),
    /// A reference faulted over and over: a defect of the simulator.
    Stuck {
        /// The address.
        va: VirtAddr,
        /// The access to it.
        access: Access,
    },
    /// A warp acted that this machine has no place for.
    NoPlace(String),
    /// A check found a translation that could be used wrongly: a defect of the simulator, at this place.
    Unsound(String),
    /// The kernel could not go on.
    Kernel(String),
    /// The adviser failed, or asked for what cannot be done.
    Adviser(String),
    /// The trace needs more memory of the host than a file may.
    TooMuch(String),
}

/// An [`Ended`] as results carry it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EndedReport {
    /// `end`, `limit`, `interrupted`, `trace-damaged`, `trace-end-damaged`, `out-of-memory`, `segfault`, `stuck`,
    /// `no-place`, `unsound`, `kernel`, `adviser` or `too-much`.
    pub reason: &'static str,
    /// The event and the remedy; empty for `end`.
    pub message: String,
}

impl Ended {
    /// Whether the whole trace was run, or as much as was asked for.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::End | Self::Limit)
    }

    /// A trace that could not be read further.
    pub(crate) fn of_trace(error: &TraceError) -> Self {
        if error.is_after_all() { Self::EndDamaged(error.to_string()) } else { Self::TraceDamaged(error.to_string()) }
    }

    /// The kernel could not go on, on its own account or its adviser's.
    pub(crate) fn of_kernel(error: &KernelError) -> Self {
        match error {
            KernelError::Adviser(_)
            | KernelError::OutOfMemory(FaultError::Advised { .. } | FaultError::Adviser { .. }) => {
                Self::Adviser(error.to_string())
            }
            KernelError::Description { .. }
            | KernelError::Memory(_)
            | KernelError::Table(_)
            | KernelError::OutOfMemory(_)
            | KernelError::SmallerPages { .. }
            | KernelError::TooMany { .. } => Self::Kernel(error.to_string()),
        }
    }

    /// In the form results carry it.
    pub fn report(&self) -> EndedReport {
        let (reason, message) = match self {
            Self::End => ("end", String::new()),
            Self::Limit => ("limit", "the limit of instructions was reached".into()),
            Self::Interrupted => ("interrupted", "stopped by the user; figures cover the part that ran".into()),
            Self::TraceDamaged(m) => ("trace-damaged", format!("{m}; figures cover what came before")),
            Self::EndDamaged(m) => ("trace-end-damaged", format!("{m}; every reference was run")),
            Self::OutOfMemory(m) => ("out-of-memory", m.clone()),
            Self::Violation(m) => {
                ("segfault", format!("{m}; run with unmapped=fault or unmapped=map to go on past such references"))
            }
            Self::Stuck { va, access } => {
                ("stuck", format!("a {access:?} of {va} keeps faulting: please report this with the trace"))
            }
            Self::NoPlace(m) => ("no-place", format!("{m}; figures cover what came before")),
            Self::Unsound(m) => ("unsound", format!("{m}: please report this with the trace and the description")),
            Self::Kernel(m) => ("kernel", m.clone()),
            Self::Adviser(m) => ("adviser", m.clone()),
            Self::TooMuch(m) => ("too-much", format!("{m}; figures cover what came before")),
        };
        EndedReport { reason, message }
    }
}

/// Why a machine cannot be built.
#[derive(Debug, Error)]
pub enum MachineError {
    /// A TLB, walk cache or cache cannot have this shape.
    #[error("{0}")]
    Geometry(#[from] GeometryError),
    /// The walker or its caches cannot have this shape.
    #[error("{0}")]
    Walker(#[from] mmulab_walker::WalkerError),
    /// Memory or policy cannot be as described.
    #[error("{0}")]
    Kernel(#[from] KernelError),
    /// The host's memory or policy cannot be as described.
    #[error("the host: {0}")]
    Host(KernelError),
    /// The memory or policy of a guest cannot be as described.
    #[error("the guest: {0}")]
    Guest(KernelError),
    /// It came to its end before the trace began.
    #[error("{}", .0.report().message)]
    Start(Ended),
    /// A trace of more warps than fit.
    #[error(
        "{machine}: the trace has {warps} warps on a core, and gpu.warps is {has}: {} of each core would have no \
         place; deal it out anew (warps={has} in the name of a generator's or an Accel-Sim trace), or give more \
         (--set gpu.warps={warps})",
        u32::from(*.warps) - .has
    )]
    Warps {
        /// The machine.
        machine: String,
        /// Warps of its cores.
        has: u32,
        /// Warps of the trace's.
        warps: u16,
    },
    /// The description itself.
    #[error("{0}")]
    Describe(#[from] DescribeError),
}
