//! One decoding pass, any number of machines.

use crate::{
    ended::Ended,
    group::{Group, deal},
    machine::Machine,
    observe::Watch,
    touched::Touched,
    windows::CodeWindows,
};
use mmulab_trace::{Batch, Item, Source};
use std::{
    collections::VecDeque,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

/// How far a run is.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Progress {
    /// Instructions decoded so far.
    pub instructions: u64,
    /// References decoded so far.
    pub references: u64,
    /// Share of the trace consumed (0.0..=1.0), when that can be known.
    pub fraction: Option<f64>,
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// References per second, all machines together.
    pub refs_per_s: f64,
}

/// What a progress callback wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Go on.
    Continue,
    /// End here and report what there is.
    Stop,
}

/// Limits of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// End after this many instructions.
    pub instructions: Option<u64>,
    /// Threads that run machines; 0 means as many as the host has, or as there are machines if those are fewer.
    pub threads: usize,
    /// Machines with the same first-level TLBs under the same kernel have these searched once. Results do not depend on
    /// it. But some machines may have to be run again ([`Ran::again`]).
    pub shares: bool,
}

/// What a run leaves besides its machines.
pub struct Ran {
    /// The machines, in the order they were given.
    pub machines: Vec<Machine>,
    /// Numbers of those that shared work and parted from the others: they have no result until they are run again,
    /// without [`Limits::shares`].
    pub again: Vec<usize>,
    /// Which pages the trace touched.
    pub touched: Option<Touched>,
    /// Which pages of code it ran, and when.
    pub windows: Option<CodeWindows>,
    /// Why the trace itself ended.
    pub ended: Ended,
    /// The final figures.
    pub progress: Progress,
}

/// What is kept of the trace itself, whatever the machines.
#[derive(Default)]
pub struct Followed {
    /// Which pages it touches.
    pub touched: Option<Touched>,
    /// Which pages of code it runs, and when.
    pub windows: Option<CodeWindows>,
}

/// How often the callback is called.
const BEAT: Duration = Duration::from_millis(200);
/// Batches in flight to each worker: enough to keep it busy while the decoder is briefly late.
const DEPTH: usize = 4;

/// Runs `source` through `machines`; results do not depend on `threads`.
pub fn run(
    source: &mut dyn Source,
    machines: Vec<Machine>,
    Followed { mut touched, mut windows }: Followed,
    limits: Limits,
    mut progress: impl FnMut(&Progress) -> Control,
) -> Ran {
    let start = Instant::now();
    let count = machines.len().max(1);
    let host = thread::available_parallelism().map_or(1, usize::from);
    let workers = if limits.threads == 0 { host.min(count) } else { limits.threads.min(count) };
    let shares = deal(machines, workers, limits.shares);

    let mut feed = Feed::new(limits);
    let mut ended = Ended::End;
    let mut beat = start;
    let report = |feed: &Feed, source: &dyn Source| {
        let elapsed_s = start.elapsed().as_secs_f64();
        Progress {
            instructions: feed.instructions,
            references: feed.references,
            fraction: source.progress(),
            elapsed_s,
            refs_per_s: (feed.references * count as u64) as f64 / elapsed_s.max(1e-9),
        }
    };

    let done: Vec<Group> = thread::scope(|scope| {
        let (senders, handles): (Vec<_>, Vec<_>) = shares
            .into_iter()
            .map(|mut share| {
                let (sender, receiver) = mpsc::sync_channel::<Arc<Batch>>(DEPTH);
                let handle = scope.spawn(move || {
                    for batch in receiver {
                        for group in &mut share {
                            group.run(&batch);
                        }
                    }
                    share
                });
                (sender, handle)
            })
            .unzip();

        let mut pool: VecDeque<Arc<Batch>> = VecDeque::new();
        loop {
            let mut batch = match pool.front_mut().and_then(Arc::get_mut) {
                Some(_) => pool.pop_front().expect("seen at the front"),
                None => Arc::default(),
            };
            let content = Arc::get_mut(&mut batch).expect("no worker holds it any more");
            let more = match source.next_batch(content) {
                Ok(more) => more,
                Err(error) => {
                    // What was read before the damage is whole and still counts.
                    ended = Ended::of_trace(&error);
                    false
                }
            };
            let reached = feed.admit(content);
            let room = touched.as_mut().map_or(Ok(()), |touched| touched.take(content));
            if let Some(windows) = &mut windows {
                windows.take(content);
            }
            for sender in &senders {
                sender.send(Arc::clone(&batch)).expect("workers outlive the feed");
            }
            pool.push_back(batch);
            if reached {
                ended = Ended::Limit;
            }
            if let Err(what) = &room {
                ended = Ended::TooMuch(what.clone());
            }
            if reached || !more || room.is_err() {
                break;
            }
            if beat.elapsed() >= BEAT {
                beat = Instant::now();
                if progress(&report(&feed, source)) == Control::Stop {
                    ended = Ended::Interrupted;
                    break;
                }
            }
        }
        drop(senders);
        handles.into_iter().flat_map(|h| h.join().unwrap_or_else(|p| std::panic::resume_unwind(p))).collect()
    });
    let mut all = Vec::new();
    let mut again = Vec::new();
    for (machines, parted) in done.into_iter().map(Group::end) {
        all.extend(machines);
        again.extend(parted);
    }
    all.sort_unstable_by_key(|&(index, _)| index);
    again.sort_unstable();
    let last = report(&feed, source);
    // Once more, so that the last progress shown is what was run. It is too late to stop.
    let _ = progress(&last);
    Ran { machines: all.into_iter().map(|(_, m)| m).collect(), again, touched, windows, ended, progress: last }
}

/// Counts what is fed and cuts it at the limit.
pub(crate) struct Feed {
    limit: Option<u64>,
    instructions: u64,
    references: u64,
}

impl Feed {
    pub fn new(limits: Limits) -> Self {
        Self { limit: limits.instructions, instructions: 0, references: 0 }
    }

    /// Takes in a batch; true when the limit was reached in it, and the batch cut there.
    pub fn admit(&mut self, batch: &mut Batch) -> bool {
        let limit = self.limit.unwrap_or(u64::MAX);
        for at in 0..batch.refs.len() {
            let word = batch.refs[at];
            if self.instructions >= limit && (word.is_control() || word.is_fetch()) {
                batch.refs.truncate(at);
                return true;
            }
            if word.is_control() {
                if let Item::Retire(count) = word.item() {
                    self.instructions += count;
                }
            } else {
                self.references += 1;
                self.instructions += u64::from(word.instructions());
            }
        }
        false
    }
}

/// Runs `source` through one machine with an observer, or with none; `beat` is asked now and then whether to go on.
pub fn run_watched(
    source: &mut dyn Source,
    machine: &mut Machine,
    mut watch: Option<&mut dyn Watch>,
    limits: Limits,
    mut beat: impl FnMut() -> Control,
) -> Ended {
    let mut feed = Feed::new(limits);
    let mut batch = Batch::default();
    loop {
        let read = source.next_batch(&mut batch);
        let reached = feed.admit(&mut batch);
        machine.run_observed(&batch, watch.as_mut().map(|watch| &mut **watch as &mut dyn Watch));
        match read {
            Err(error) => return Ended::of_trace(&error),
            Ok(_) if reached => return Ended::Limit,
            Ok(false) => return Ended::End,
            Ok(true) if watch.as_ref().is_some_and(|watch| watch.is_over()) || beat() == Control::Stop => {
                return Ended::Interrupted;
            }
            Ok(true) => {}
        }
    }
}
