//! A walk in flight: what the TLBs take when it ends.

use mmulab_addr::{Access, Asid, VirtAddr};
use mmulab_pagetable::{Leaf, Walked};
use rustc_hash::FxHashMap;

/// A walk in flight.
#[derive(Clone, Copy)]
pub(super) struct InFlight {
    pub va: VirtAddr,
    /// The code that wanted it, for page-size predictors.
    pub code: VirtAddr,
    /// Second-level misses that it serves: its own, if it had one, and those that joined it.
    pub misses: u64,
    pub leaf: Leaf,
    pub asid: Asid,
    pub access: Access,
}

/// Whether a walk that brings `leaf` lets `access` through.
pub(super) fn serves(leaf: &Leaf, access: Access) -> bool {
    leaf.allows(access) && (leaf.dirty || access != Access::Write)
}

/// A walk that any core may join.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    pub end: u64,
    pub walked: Walked,
}

/// Walks in flight by base page, where cores have the second level in common.
pub(super) type SharedWalks = FxHashMap<u64, Shared>;
