//! An out-of-order core in time, one instruction after the other, without a queue of events.
//!
//! Each instruction gets four times: when it is dispatched, when its accesses issue, when its results are ready, and
//! when it retires. Each time follows from times of earlier instructions, so one pass over a trace is enough
//! (`docs/concepts/timing.md` states all rules). What an access takes is the business of a [`Memory`], which is asked
//! in program order.

mod block;
mod branches;
mod core;
mod desc;
mod lines;
mod per_cycle;
mod regions;
mod ring;
mod slots;
mod stack;
mod stores;
mod streams;
mod strides;
mod tables;
mod targets;

pub use crate::{
    block::Block,
    core::{Access, Core, Fetch, Memory},
    desc::{
        BranchTargets, Fusion, Latencies, MemoryTiming, Predictor, Renaming, TargetBuffer, TimingDesc, Units, Unknown,
    },
    lines::{Arrival, Bandwidth, Lines},
    per_cycle::PerCycle,
    regions::Regions,
    stack::{Stack, Wait},
    streams::Streams,
    strides::{Prefetched, Strides},
};
