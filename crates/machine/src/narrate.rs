//! `explain`: one JSON object per reference, from the same engine that counts.

use crate::{
    machine::Machine,
    observe::{Answer, Failure, Observation, WalkEnd, Watch},
};
use mmulab_addr::{Access, PhysAddr, VirtAddr};
use mmulab_kernel::Note;
use mmulab_pagetable::Invalidate;
use mmulab_tlb::Entry;
use mmulab_walker::{Dimension, NestedStep, Pace, Server, StepRecord};
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::Serialize;
use thiserror::Error;

/// A reference that could not be written as JSON: a defect of mmulab, for every line is plain data.
#[derive(Debug, Error)]
#[error(
    "internal error: reference {index} could not be written as JSON: {source}. Please report it with the trace and \
     the machine file."
)]
pub struct NarrateError {
    index: u64,
    source: serde_json::Error,
}

/// Hands each reference to `line`, as one line of JSON.
pub struct Narrator<F> {
    line: F,
    arrays: Vec<(String, u8)>,
    walk_caches: Vec<String>,
    /// Those of the host below guests.
    host_caches: Vec<String>,
    caches: Vec<String>,
    filled: Vec<Filled>,
    walk: Vec<Read>,
    walks: Vec<WalkEnd>,
    fault: Vec<Note>,
    events: Vec<Narrated>,
    failed: Option<NarrateError>,
}

/// One reference of the trace and all that happened until it was over; or, with `i` null, what happened after the last
/// reference.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "A line of mmulab explain")]
struct Line<'a> {
    /// The number of the reference, from 0.
    i: Option<u64>,
    /// The process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// The access.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Access>,
    /// The virtual address.
    va: Option<VirtAddr>,
    /// The physical address; null if there is none (see `failed`).
    pa: Option<PhysAddr>,
    /// Why the reference got no physical address.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<Failure>,
    /// Bytes that the entry used or filled covers.
    size: u64,
    /// The answer of the first-level TLBs.
    l1: Answer,
    /// The answer of the second-level TLBs.
    l2: Answer,
    /// Every entry that page walks took from memory or from a cache, in order. A read with `first` begins a walk.
    walk: &'a [Read],
    /// How each walk ended, in order: one for each read with `first`.
    walks: &'a [WalkEnd],
    /// The reference waits for a walk in flight, on shader cores.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    joined: bool,
    /// Page faults that the kernel served.
    fault: &'a [Note],
    /// Entries written into TLB arrays. Entries of several pages are listed page by page.
    filled: &'a [Filled],
    /// Everything else that happened, in order.
    events: &'a [Narrated],
    /// Cycles that the core stalled.
    cycles: u64,
}

/// A page-table entry that a walk took from memory or from a cache.
#[derive(Serialize, JsonSchema)]
struct Read {
    /// In two-dimensional walks: whose table (`g` guest, `h` host) and its level, as `gL4` or `hL1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<String>,
    /// It is the first of its walk.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    first: bool,
    /// The level of the table, 1 for the last.
    level: u8,
    /// Where the entry lies. After a hit in a walk cache: where the walk goes on.
    pa: PhysAddr,
    /// The walk cache (its entry saved the walk this read) or cache that had it; `memory`; or `NTLB`, the nested TLB.
    cached: String,
    /// Cycles the read took.
    cycles: u32,
    /// Of lines of hashed tables: `together` with the one before it, or `behind`, if the walk does not wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pace: Option<&'static str>,
}

fn pace(of: Pace) -> Option<&'static str> {
    match of {
        Pace::Next => None,
        Pace::Together => Some("together"),
        Pace::Behind => Some("behind"),
    }
}

/// An entry that was written into a TLB array.
#[derive(Serialize, JsonSchema)]
struct Filled {
    /// The array.
    array: String,
    /// Its level.
    level: u8,
    /// The first address that the entry translates.
    va: VirtAddr,
    /// Bytes it translates.
    bytes: u64,
    /// Stores may use it: its rights allow them, and it is dirty.
    writable: bool,
}

/// Anything else that happened.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Narrated {
    /// The kernel did something.
    Kernel(Note),
    /// Translations were invalidated.
    Flush(Invalidate),
    /// The host's kernel did something.
    HostKernel {
        /// Its action.
        host: Note,
    },
    /// Translations of the host's table were invalidated.
    HostFlush {
        /// Which.
        host: Invalidate,
    },
    /// The guest was left for the host (a VM exit).
    HostTrapped {
        /// Why.
        host: Trapped,
    },
    /// An entry left a TLB array.
    Tlb {
        /// How it left.
        tlb: Left,
        /// The array.
        array: String,
        /// The first address that the entry translated.
        va: VirtAddr,
        /// Bytes it translated.
        bytes: u64,
        /// The set it left, of arrays that hold copies of one entry in several sets (`mix`), if it was evicted.
        #[serde(skip_serializing_if = "Option::is_none")]
        set: Option<u32>,
    },
}

/// How an entry left a TLB array.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Left {
    /// Another entry took its place.
    Evicted,
    /// It must not be used any more.
    Invalidated,
}

/// Why a guest was left, beside walks and EPT violations.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Trapped {
    /// The guest's kernel wrote entries of tables that shadow tables are made of.
    TableWrites {
        /// How many.
        entries: u64,
    },
}

/// The JSON schema of a line.
pub fn schema() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<Line<'static>>()
}

impl<F: FnMut(&str)> Narrator<F> {
    /// A narrator of `machine`.
    pub fn new(machine: &Machine, line: F) -> Self {
        let hardware = &machine.state().hardware;
        let cpu = &hardware.cpus[0];
        let arrays = cpu.tlbs.names();
        let levels: Vec<u8> = (0..arrays.len()).map(|a| cpu.tlbs.level(a)).collect();
        Self {
            line,
            arrays: arrays.into_iter().zip(levels).collect(),
            walk_caches: cpu.walker.names(),
            host_caches: machine.host().map(|h| h.walkers()[0].names()).unwrap_or_default(),
            caches: hardware.caches.names(),
            filled: Vec::new(),
            walk: Vec::new(),
            walks: Vec::new(),
            fault: Vec::new(),
            events: Vec::new(),
            failed: None,
        }
    }

    /// Writes the events after the last reference, if any.
    ///
    /// # Errors
    /// A reference could not be written as JSON; no later reference was written.
    pub fn finish(mut self) -> Result<(), NarrateError> {
        if !self.events.is_empty() || !self.fault.is_empty() || !self.filled.is_empty() {
            self.tell(None);
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn tell(&mut self, seen: Option<&Observation>) {
        let line = Line {
            i: seen.map(|s| s.index),
            pid: seen.map(|s| s.pid.0),
            kind: seen.map(|s| s.access),
            va: seen.map(|s| s.va),
            pa: seen.and_then(|s| s.seen.pa),
            failed: seen.and_then(|s| s.seen.failed),
            size: seen.map_or(0, |s| s.seen.size),
            l1: seen.map_or(Answer::NotAsked, |s| s.seen.l1),
            l2: seen.map_or(Answer::NotAsked, |s| s.seen.l2),
            walk: &self.walk,
            walks: &self.walks,
            joined: seen.is_some_and(|s| s.seen.joined),
            fault: &self.fault,
            filled: &self.filled,
            events: &self.events,
            cycles: seen.map_or(0, |s| s.cost.stall_cycles),
        };
        let index = seen.map_or(0, |s| s.index);
        say(&mut self.line, &mut self.failed, index, &line);
        self.walk.clear();
        self.walks.clear();
        self.fault.clear();
        self.filled.clear();
        self.events.clear();
    }

    /// What whoever had an entry is called.
    fn server(&self, server: Server, walk_caches: &[String]) -> String {
        match server {
            Server::WalkCache(i) => walk_caches[usize::from(i)].clone(),
            Server::Cache(i) => self.caches[usize::from(i)].clone(),
            Server::NestedTlb => "NTLB".to_owned(),
        }
    }

    fn tlb(&mut self, tlb: Left, array: usize, set: Option<u32>, entry: &Entry) {
        let array = self.arrays[array].0.clone();
        self.events.push(Narrated::Tlb { tlb, array, va: entry.vpn.addr(), bytes: entry.order.bytes(), set });
    }
}

/// Passes a line on, unless an earlier one could not be written as JSON.
fn say(line: &mut impl FnMut(&str), failed: &mut Option<NarrateError>, index: u64, told: &impl Serialize) {
    if failed.is_some() {
        return;
    }
    match serde_json::to_string(told) {
        Ok(text) => line(&text),
        Err(source) => *failed = Some(NarrateError { index, source }),
    }
}

impl<F: FnMut(&str)> Watch for Narrator<F> {
    fn filled(&mut self, array: usize, entry: &Entry) {
        let (name, level) = &self.arrays[array];
        self.filled.push(Filled {
            array: name.clone(),
            level: *level,
            va: entry.vpn.addr(),
            bytes: entry.order.bytes(),
            writable: entry.prot.has(mmulab_addr::Prot::W) && entry.dirty,
        });
    }

    fn evicted(&mut self, array: usize, entry: &Entry) {
        self.tlb(Left::Evicted, array, None, entry);
    }

    fn evicted_from(&mut self, array: usize, set: u32, entry: &Entry) {
        self.tlb(Left::Evicted, array, Some(set), entry);
    }

    fn invalidated(&mut self, array: usize, entry: &Entry) {
        self.tlb(Left::Invalidated, array, None, entry);
    }

    fn reference(&mut self, seen: &Observation) {
        self.tell(Some(seen));
    }

    fn is_over(&self) -> bool {
        self.failed.is_some()
    }

    fn happened(&mut self, told: &[Note], invalidations: &[Invalidate]) {
        for t in told {
            match t {
                Note::Fault { .. } => self.fault.push(t.clone()),
                other => self.events.push(Narrated::Kernel(other.clone())),
            }
        }
        self.events.extend(invalidations.iter().map(|i| Narrated::Flush(*i)));
    }

    fn invalidated_by_program(&mut self, what: &Invalidate) {
        self.events.push(Narrated::Flush(*what));
    }

    fn walked(&mut self, steps: &[StepRecord]) {
        for (at, s) in steps.iter().enumerate() {
            let cached = self.server(s.server, &self.walk_caches);
            self.walk.push(Read {
                entry: None,
                first: at == 0,
                level: s.level,
                pa: s.pa,
                cached,
                cycles: s.cycles,
                pace: pace(s.pace),
            });
        }
    }

    fn walked_nested(&mut self, steps: &[NestedStep]) {
        for (at, step) in steps.iter().enumerate() {
            let (letter, walk_caches) = match step.dimension {
                Dimension::Guest => ('g', &self.walk_caches),
                Dimension::Host => ('h', &self.host_caches),
            };
            let s = step.record;
            let (entry, first) = (Some(format!("{letter}L{}", s.level)), at == 0);
            let cached = self.server(s.server, walk_caches);
            self.walk.push(Read {
                entry,
                first,
                level: s.level,
                pa: s.pa,
                cached,
                cycles: s.cycles,
                pace: pace(s.pace),
            });
        }
    }

    fn walk_ended(&mut self, ended: &WalkEnd) {
        self.walks.push(*ended);
    }

    fn trapped_table_writes(&mut self, count: u64) {
        self.events.push(Narrated::HostTrapped { host: Trapped::TableWrites { entries: count } });
    }

    fn happened_in_host(&mut self, told: &[Note], invalidations: &[Invalidate]) {
        self.events.extend(told.iter().map(|t| Narrated::HostKernel { host: t.clone() }));
        self.events.extend(invalidations.iter().map(|&i| Narrated::HostFlush { host: i }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_cannot_be_told_is_an_error_and_ends_the_telling() {
        let (mut said, mut failed) = (Vec::new(), None);
        let mut line = |text: &str| said.push(text.to_owned());
        say(&mut line, &mut failed, 6, &1);
        // JSON's keys are strings: this has none.
        say(&mut line, &mut failed, 7, &BTreeMap::from([((1, 2), 3)]));
        say(&mut line, &mut failed, 8, &2);
        assert_eq!(said, ["1"]);
        let error = failed.expect("the second one fails").to_string();
        assert!(
            error.starts_with("internal error: reference 7 could not be written as JSON: key must be a string"),
            "{error}"
        );
    }
}
