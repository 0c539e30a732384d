//! Figures of a kernel for reports: counters, regions of programs, memory, contiguity.

pub(crate) mod contiguity;
pub(crate) mod counts;
pub(crate) mod recorded;
pub(crate) mod region;
pub(crate) mod regions;
pub(crate) mod residency;
pub(crate) mod runs;
pub(crate) mod tables;
pub(crate) mod tally;
pub(crate) mod usage;
pub(crate) mod work;
