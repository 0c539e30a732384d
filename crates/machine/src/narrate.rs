//! `explain`: one JSON object per reference, from the same engine that counts.

use crate::{
    Machine,
    story::{Answer, Story, Watch},
};
use mmulab_addr::{Access, PhysAddr, VirtAddr};
use mmulab_kernel::Told;
use mmulab_pagetable::Invalidate;
use mmulab_tlb::{Entry, Observer};
use mmulab_walker::{Dimension, NestedStep, Pace, Server, StepRecord};
use serde::Serialize;
use thiserror::Error;

/// A reference that could not be told: a defect of mmulab, for all there is to tell is plain data.
#[derive(Debug, Error)]
#[error("reference {index} could not be told: {source}; please report this with the trace and the description")]
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
    /// The table walks begin with is found by hashing: levels do not tell where one begins.
    is_searched: bool,
    filled: Vec<Filled>,
    walk: Vec<Read>,
    fault: Vec<Told>,
    events: Vec<Happening>,
    failed: Option<NarrateError>,
}

#[derive(Serialize)]
struct Line<'a> {
    i: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Access>,
    va: Option<VirtAddr>,
    pa: Option<PhysAddr>,
    size: u64,
    l1: Answer,
    l2: Answer,
    walk: &'a [Read],
    /// It waits for a walk that was under way.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    joined: bool,
    fault: &'a [Told],
    filled: &'a [Filled],
    events: &'a [Happening],
    cycles: u64,
}

/// An entry that was read.
#[derive(Serialize)]
struct Read {
    /// In a walk of two dimensions, whose it is and its level: `gL4`, `hL1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<String>,
    /// The first of its walk, where that is not told by the levels.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    first: bool,
    level: u8,
    pa: PhysAddr,
    cached: String,
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

/// An entry that was written into a TLB.
#[derive(Serialize)]
struct Filled {
    array: String,
    level: u8,
    va: VirtAddr,
    bytes: u64,
    writable: bool,
}

/// Anything else.
#[derive(Serialize)]
#[serde(untagged)]
enum Happening {
    Kernel(Told),
    Flush(Invalidate),
    HostKernel { host: Told },
    HostFlush { host: Invalidate },
    HostTrapped { host: Trapped },
    Tlb { tlb: &'static str, array: String, va: VirtAddr, bytes: u64 },
}

/// Why a guest was left, beside walks and violations.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Trapped {
    /// Its kernel wrote entries of tables that shadow tables are made of.
    TableWrites { entries: u64 },
}

impl<F: FnMut(&str)> Narrator<F> {
    /// A narrator of `machine`.
    pub fn new(machine: &Machine, line: F) -> Self {
        let core = &machine.cores[0];
        let arrays = core.tlbs.names();
        let levels: Vec<u8> = (0..arrays.len()).map(|a| core.tlbs.level(a)).collect();
        Self {
            line,
            arrays: arrays.into_iter().zip(levels).collect(),
            walk_caches: core.walker.names(),
            host_caches: machine.host.as_ref().map(|h| h.walkers()[0].names()).unwrap_or_default(),
            caches: machine.caches.names(),
            is_searched: machine.desc.machine.walked_table().format().is_searched(),
            filled: Vec::new(),
            walk: Vec::new(),
            fault: Vec::new(),
            events: Vec::new(),
            failed: None,
        }
    }

    /// Tells what happened after the last reference, if anything did.
    ///
    /// # Errors
    /// A reference that could not be told; none after it was.
    pub fn finish(mut self) -> Result<(), NarrateError> {
        if !self.events.is_empty() || !self.fault.is_empty() || !self.filled.is_empty() {
            self.tell(None);
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn tell(&mut self, story: Option<&Story>) {
        let line = Line {
            i: story.map(|s| s.index),
            pid: story.map(|s| s.pid.0),
            kind: story.map(|s| s.access),
            va: story.map(|s| s.va),
            pa: story.and_then(|s| s.seen.pa),
            size: story.map_or(0, |s| s.seen.size),
            l1: story.map_or(Answer::NotAsked, |s| s.seen.l1),
            l2: story.map_or(Answer::NotAsked, |s| s.seen.l2),
            walk: &self.walk,
            joined: story.is_some_and(|s| s.seen.joined),
            fault: &self.fault,
            filled: &self.filled,
            events: &self.events,
            cycles: story.map_or(0, |s| s.cost.stall_cycles),
        };
        let index = story.map_or(0, |s| s.index);
        say(&mut self.line, &mut self.failed, index, &line);
        self.walk.clear();
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

    fn tlb(&mut self, tlb: &'static str, array: usize, entry: &Entry) {
        let array = self.arrays[array].0.clone();
        self.events.push(Happening::Tlb { tlb, array, va: entry.vpn.addr(), bytes: entry.order.bytes() });
    }
}

/// Hands a line over, unless one before it could not be told.
fn say(line: &mut impl FnMut(&str), failed: &mut Option<NarrateError>, index: u64, told: &impl Serialize) {
    if failed.is_some() {
        return;
    }
    match serde_json::to_string(told) {
        Ok(text) => line(&text),
        Err(source) => *failed = Some(NarrateError { index, source }),
    }
}

impl<F: FnMut(&str)> Observer for Narrator<F> {
    const ACTIVE: bool = true;

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
        self.tlb("evicted", array, entry);
    }

    fn invalidated(&mut self, array: usize, entry: &Entry) {
        self.tlb("invalidated", array, entry);
    }
}

impl<F: FnMut(&str)> Watch for Narrator<F> {
    fn reference(&mut self, story: &Story) {
        self.tell(Some(story));
    }

    fn is_over(&self) -> bool {
        self.failed.is_some()
    }

    fn happened(&mut self, told: &[Told], invalidations: &[Invalidate]) {
        for t in told {
            match t {
                Told::Fault { .. } => self.fault.push(t.clone()),
                other => self.events.push(Happening::Kernel(other.clone())),
            }
        }
        self.events.extend(invalidations.iter().map(|i| Happening::Flush(*i)));
    }

    fn invalidated_by_program(&mut self, what: &Invalidate) {
        self.events.push(Happening::Flush(*what));
    }

    fn walked(&mut self, steps: &[StepRecord]) {
        for (at, s) in steps.iter().enumerate() {
            let cached = self.server(s.server, &self.walk_caches);
            self.walk.push(Read {
                entry: None,
                first: self.is_searched && at == 0,
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

    fn trapped_table_writes(&mut self, count: u64) {
        self.events.push(Happening::HostTrapped { host: Trapped::TableWrites { entries: count } });
    }

    fn happened_in_host(&mut self, told: &[Told], invalidations: &[Invalidate]) {
        self.events.extend(told.iter().map(|t| Happening::HostKernel { host: t.clone() }));
        self.events.extend(invalidations.iter().map(|&i| Happening::HostFlush { host: i }));
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
        assert!(error.starts_with("reference 7 could not be told: key must be a string"), "{error}");
    }
}
