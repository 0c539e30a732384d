//! A trace of the references that a machine's TLBs did not serve. BadgerTrap makes one of a live system (Gandhi and
//! others, ACM SIGARCH Computer Architecture News 42(2), 2014; paper 5, section 5).
//!
//! The counts of walkers depend on the walks alone. So the misses of one run, walked again without TLBs, give the walk
//! counts of the full run. Under other tables they give the counts of a full run with these tables behind the same
//! TLBs.

use crate::{
    ended::Ended,
    machine::Machine,
    observe::{Observation, Watch},
    run::{Feed, Limits},
};
use mmulab_kernel::Stop;
use mmulab_trace::{Batch, Item, Ref, Source, TraceError, TraceInfo};

/// The references of a trace that a machine walks for, with everything else that happens. Reading it runs the machine.
pub struct Misses<'a> {
    source: Box<dyn Source>,
    machine: &'a mut Machine,
    feed: Feed,
    info: TraceInfo,
    whole: Batch,
    walked: Walked,
    ended: Ended,
}

/// Which references walked, by number.
#[derive(Default)]
struct Walked(Vec<u64>);

impl Watch for Walked {
    fn reference(&mut self, seen: &Observation) {
        if seen.cost.walks > 0 {
            self.0.push(seen.index);
        }
    }
}

impl<'a> Misses<'a> {
    /// Those of `source` on `machine`.
    pub fn new(source: Box<dyn Source>, machine: &'a mut Machine, limits: Limits) -> Self {
        let desc = machine.desc();
        let of = format!("{} / {}", desc.machine.name, desc.policy.name);
        let info = TraceInfo { misses_of: Some(of), references: None, hash: None, ..source.info().clone() };
        let (whole, walked) = (Batch::default(), Walked::default());
        Self { source, machine, feed: Feed::new(limits), info, whole, walked, ended: Ended::End }
    }

    /// Its machine ends within an event that takes long once this is asked for.
    pub fn stop_with(&mut self, stop: &Stop) {
        self.machine.stop_with(stop);
    }

    /// What was read, and why it ended.
    pub fn finish(self) -> (Box<dyn Source>, Ended) {
        (self.source, self.ended)
    }

    /// Copies what walked, and what is no reference.
    fn pick(&mut self, first: u64, batch: &mut Batch) {
        let (mut walked, mut index, mut retired) = (self.walked.0.iter().peekable(), first, 0u64);
        for &word in &self.whole.refs {
            match word.item() {
                Item::Access(_, _, instructions) => {
                    if walked.next_if_eq(&&index).is_some() {
                        flush(&mut retired, batch);
                        batch.refs.push(word);
                    } else {
                        retired += u64::from(instructions);
                    }
                    index += 1;
                }
                Item::Retire(count) => retired += count,
                // A trace of misses executes no code.
                Item::Code(_) => {}
                Item::Event(at) => {
                    flush(&mut retired, batch);
                    batch.push_event(self.whole.events[at].clone());
                }
            }
        }
        flush(&mut retired, batch);
    }
}

fn flush(retired: &mut u64, batch: &mut Batch) {
    if *retired != 0 {
        batch.refs.push(Ref::retire(std::mem::take(retired)));
    }
}

impl Source for Misses<'_> {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        if self.ended != Ended::End {
            return Ok(false);
        }
        let read = self.source.next_batch(&mut self.whole);
        let reached = self.feed.admit(&mut self.whole);
        let first = self.machine.references();
        self.walked.0.clear();
        self.machine.run_watched(&self.whole, &mut self.walked);
        self.pick(first, batch);
        if reached {
            self.ended = Ended::Limit;
        }
        if let Some(ended) = self.machine.ended() {
            self.ended = ended.clone();
        }
        match read {
            Ok(more) => Ok(more || !batch.refs.is_empty()),
            Err(error) => {
                self.ended = Ended::of_trace(&error);
                Err(error)
            }
        }
    }

    fn progress(&self) -> Option<f64> {
        self.source.progress()
    }
}
