//! What CPUs have in common: hardware threads (SMT siblings) their core, cores perhaps a walker or TLB arrays.

mod sharing;
mod siblings;

pub(crate) use sharing::Sharing;
