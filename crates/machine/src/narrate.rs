//! `explain`: one JSON object per reference, from the same engine that counts.

use crate::{
    Machine,
    story::{Answer, Story, Watch},
};
use mmulab_addr::{Access, PhysAddr, VirtAddr};
use mmulab_kernel::Told;
use mmulab_pagetable::Invalidate;
use mmulab_tlb::{Entry, Observer};
use mmulab_walker::{Server, StepRecord};
use serde::Serialize;

/// Hands each reference to `line`, as one line of JSON.
pub struct Narrator<F> {
    line: F,
    arrays: Vec<(String, u8)>,
    walk_caches: Vec<String>,
    caches: Vec<String>,
    filled: Vec<Filled>,
    walk: Vec<Read>,
    fault: Vec<Told>,
    events: Vec<Happening>,
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
    fault: &'a [Told],
    filled: &'a [Filled],
    events: &'a [Happening],
    cycles: u64,
}

/// An entry that was read.
#[derive(Serialize)]
struct Read {
    level: u8,
    pa: PhysAddr,
    cached: String,
    cycles: u32,
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
    Tlb { tlb: &'static str, array: String, va: VirtAddr, bytes: u64 },
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
            caches: machine.caches.names(),
            filled: Vec::new(),
            walk: Vec::new(),
            fault: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Tells what happened after the last reference, if anything did.
    pub fn finish(mut self) {
        if !self.events.is_empty() || !self.fault.is_empty() {
            self.tell(None);
        }
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
            fault: &self.fault,
            filled: &self.filled,
            events: &self.events,
            cycles: story.map_or(0, |s| s.cost.stall_cycles),
        };
        // Plain data with string keys: serialisation has no way to fail.
        if let Ok(text) = serde_json::to_string(&line) {
            (self.line)(&text);
        }
        self.walk.clear();
        self.fault.clear();
        self.filled.clear();
        self.events.clear();
    }

    fn tlb(&mut self, tlb: &'static str, array: usize, entry: &Entry) {
        let array = self.arrays[array].0.clone();
        self.events.push(Happening::Tlb { tlb, array, va: entry.vpn.addr(), bytes: entry.order.bytes() });
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
        for s in steps {
            let cached = match s.server {
                Server::WalkCache(i) => self.walk_caches[usize::from(i)].clone(),
                Server::Cache(i) => self.caches[usize::from(i)].clone(),
            };
            self.walk.push(Read { level: s.level, pa: s.pa, cached, cycles: s.cycles });
        }
    }
}
