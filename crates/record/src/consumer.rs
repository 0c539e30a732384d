//! Takes what recorded processes hand over, in order, and writes the trace.

use crate::{
    arena::{Arena, Handover, MOST_SLOTS, What},
    image::{Limits, Recorded, Taken},
    jit::Said,
    message::{Image, Message},
    names::Names,
    options::Intervals,
    output::Output,
    process::is_alive,
};
use mmulab_trace::{Backing, Description, Encoder, Event};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How long to wait for something before looking whether processes still live.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long a half-given descriptor is waited for after a process died.
const STUCK: Duration = Duration::from_secs(1);

/// Predictions that a reader of the trace holds at once, at most. It may hold more for a moment: those of a process
/// that starts anew, until its next chunk.
const MOST_STATES: usize = mmulab_trace::MAX_STATES / 2;

/// State that the launcher and its consumer share.
#[derive(Default)]
pub(crate) struct Shared {
    /// The program itself was waited for: its exit status is known.
    pub reaped: AtomicBool,
    /// Instructions retired so far, those left out included.
    pub retired: AtomicU64,
    /// System processes being recorded.
    pub live: Mutex<Vec<u32>>,
    /// An image began to run.
    pub began: AtomicBool,
    /// Messages of processes about code that they make.
    pub said: Mutex<Said>,
}

/// How the consumer came to its end.
#[derive(Debug)]
pub(crate) enum Why {
    /// All processes ended.
    Ended,
    /// Enough was recorded.
    Limit,
    /// The trace could not be written.
    Full(io::Error),
}

/// Results of the consumer.
pub(crate) struct Found {
    pub why: Why,
    pub output: Output,
    pub lost: Vec<String>,
    pub processes: u32,
    pub threads: u32,
    /// The program's exit status, as the recorded system reported it.
    pub status: Option<i32>,
}

pub(crate) struct Consumer {
    arena: Arc<Arena>,
    shared: Arc<Shared>,
    description: Description,
    output: Output,
    images: BTreeMap<u32, Recorded>,
    /// Images to come by exec, with the program's path and the image before.
    coming: BTreeMap<u32, (String, u32)>,
    limits: Limits,
    intervals: Option<Intervals>,
    /// Instructions left out when recording paused; none before it began.
    paused: Option<u64>,
    lost: Vec<String>,
    processes: BTreeSet<u32>,
    threads: BTreeSet<u32>,
    /// Instructions in chunks written.
    written: u64,
    buffer: Vec<u8>,
    enough: bool,
    status: Option<i32>,
    names: Names,
}

/// The callback that takes chunks that became full.
fn taken<'a>(
    output: &'a mut Output,
    buffer: &'a mut Vec<u8>,
    written: &'a mut u64,
) -> impl FnMut(&mut Encoder) -> io::Result<()> + 'a {
    |encoder| {
        *written += encoder.pending().0;
        write(encoder, output, buffer)
    }
}

/// Writes the chunk of `encoder`.
fn write(encoder: &mut Encoder, output: &mut Output, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    let header = encoder.take_chunk(buffer)?;
    output.chunk(buffer, &header)
}

impl Consumer {
    pub fn new(
        arena: Arc<Arena>,
        shared: Arc<Shared>,
        description: Description,
        output: Output,
        limits: Limits,
        intervals: Option<Intervals>,
    ) -> Self {
        Self {
            arena,
            shared,
            description,
            output,
            images: BTreeMap::new(),
            coming: BTreeMap::new(),
            limits: Limits { interval: intervals.map_or(u64::MAX, |of| of.length), ..limits },
            intervals,
            paused: None,
            lost: Vec::new(),
            processes: BTreeSet::new(),
            threads: BTreeSet::new(),
            written: 0,
            buffer: Vec::new(),
            enough: false,
            status: None,
            names: Names::default(),
        }
    }

    /// Runs to the end.
    pub fn run(mut self) -> Found {
        let why = match self.consume() {
            Ok(()) if self.enough && self.status.is_none() => Why::Limit,
            Ok(()) => Why::Ended,
            Err(error) => Why::Full(error),
        };
        let Self { output, lost, processes, threads, status, .. } = self;
        Found { why, output, lost, processes: processes.len() as u32, threads: threads.len() as u32, status }
    }

    fn consume(&mut self) -> io::Result<()> {
        let mut stuck: Option<Instant> = None;
        while !self.enough {
            let Some(handover) = self.arena.take(PATIENCE) else {
                let died = self.bury()?;
                if self.arena.is_stuck() {
                    // Half given: its giver is either about to finish or dead.
                    if died || stuck.is_some() {
                        let since = *stuck.get_or_insert_with(Instant::now);
                        if since.elapsed() > STUCK {
                            self.lost.push("the words of one thread at the moment a signal ended its process".into());
                            self.arena.skip();
                            stuck = None;
                        }
                    }
                } else if self.arena.is_empty() || self.images.is_empty() && self.shared.reaped.load(Ordering::Acquire)
                {
                    break;
                }
                continue;
            };
            self.accept(handover)?;
            self.arena.done(handover);
        }
        if self.enough {
            // Stopped while they started.
            self.coming.clear();
        }
        for (number, mut image) in std::mem::take(&mut self.images) {
            self.unseen_end(number, &mut image)?;
            self.end(&mut image)?;
        }
        let (processes, messages) = self.arena.gaps();
        if processes > 0 {
            self.lost.push(format!("{processes} processes: there were more threads than a recording can have"));
        }
        if messages > 0 {
            self.lost.push(format!("{messages} messages of the recorder's plugin: there was no buffer for them"));
        }
        Ok(())
    }

    fn accept(&mut self, handover: Handover) -> io::Result<()> {
        let arena = Arc::clone(&self.arena);
        if handover.slot >= MOST_SLOTS {
            self.lost.push(format!("something of thread slot {}, which does not exist", handover.slot));
            return Ok(());
        }
        let slot = arena.slot(handover.slot);
        let (image, tid) = (slot.image.load(Ordering::Relaxed), slot.tid.load(Ordering::Relaxed));
        match handover.what {
            What::Blocks => {
                if let Some(image) = self.images.get_mut(&image) {
                    image.define(arena.range(handover.from, handover.count));
                }
                Ok(())
            }
            What::Words => self.words(image, tid, arena.range(handover.from, handover.count)),
            What::Message => match arena.message(handover.from, handover.count).map(serde_json::from_slice) {
                Some(Ok(message)) => self.message(image, tid, message),
                None => {
                    self.lost.push(format!("a message of {} bytes, longer than its buffer", handover.count));
                    Ok(())
                }
                Some(Err(error)) => {
                    self.lost.push(format!("something the recorder said and did not understand itself: {error}"));
                    Ok(())
                }
            },
        }
    }

    fn words(&mut self, image: u32, tid: u32, words: &[u64]) -> io::Result<()> {
        // An image that ended may go on for a moment: its other threads learn of it late.
        let Some(mut recorded) = self.images.remove(&image) else { return Ok(()) };
        let mut rest = words;
        loop {
            if self.limits.skip > 0 {
                rest = recorded.leave_out(
                    tid,
                    rest,
                    &mut self.limits,
                    &mut taken(&mut self.output, &mut self.buffer, &mut self.written),
                )?;
                if self.limits.skip > 0 {
                    break;
                }
                self.resume(&mut recorded, tid)?;
            }
            let took = recorded.words(
                tid,
                rest,
                &mut self.limits,
                &mut taken(&mut self.output, &mut self.buffer, &mut self.written),
            )?;
            match took {
                Taken::All => break,
                Taken::Enough => {
                    self.enough = true;
                    break;
                }
                Taken::Until(left) => rest = left,
            }
            self.pause(&mut recorded, tid)?;
        }
        self.images.insert(image, recorded);
        self.bound_states()?;
        let pending: u64 = self.images.values().map(Recorded::pending).sum();
        let retired = self.limits.left_out + self.written + pending;
        self.shared.retired.store(retired, Ordering::Relaxed);
        Ok(())
    }

    /// Enough was left out: every image writes the references that stand for it; the one that goes on comes last.
    fn resume(&mut self, acting: &mut Recorded, tid: u32) -> io::Result<()> {
        let mut others = std::mem::take(&mut self.images);
        for image in others.values_mut() {
            image.tell_left_out(&mut taken(&mut self.output, &mut self.buffer, &mut self.written))?;
            self.close(image)?;
        }
        self.images = others;
        acting.tell_left_out(&mut taken(&mut self.output, &mut self.buffer, &mut self.written))?;
        let event = match self.paused {
            None => Event::Resume,
            Some(before) => Event::Continue { left_out: self.limits.left_out - before },
        };
        acting.resume(tid, &event);
        // Its chunk could be filled much later than those of the other processes, and the mark would follow them.
        self.close(acting)
    }

    /// The interval is over: every image leaves references out from here on.
    fn pause(&mut self, acting: &mut Recorded, tid: u32) -> io::Result<()> {
        let Some(Intervals { length, every }) = self.intervals else { return Ok(()) };
        let mut others = std::mem::take(&mut self.images);
        for image in others.values_mut() {
            self.close(image)?;
            image.pause();
        }
        self.images = others;
        acting.resume(tid, &Event::Pause);
        self.close(acting)?;
        acting.pause();
        self.paused = Some(self.limits.left_out);
        (self.limits.interval, self.limits.skip) = (length, every - length);
        Ok(())
    }

    /// The thread of an image did something.
    fn event(&mut self, image: &mut Recorded, tid: u32, event: &Event) -> io::Result<()> {
        image.event(tid, event, &mut taken(&mut self.output, &mut self.buffer, &mut self.written))
    }

    fn message(&mut self, number: u32, tid: u32, message: Message) -> io::Result<()> {
        if let Message::Began { image, host_pid, blocks, isa } = message {
            return self.begin(image, host_pid, blocks, isa);
        }
        let Some(mut image) = self.images.remove(&number) else { return Ok(()) };
        match message {
            Message::Began { .. } => {}
            Message::Events(events) => {
                // QEMU loads the plugin before it finds out whether it can run the program, so this tells that it does.
                if !self.shared.began.swap(true, Ordering::AcqRel) {
                    self.output.begin(&self.description)?;
                }
                image.starting = None;
                for event in &events {
                    if let Event::Mmap { backing: Backing::File { path, .. }, .. } = event {
                        self.said().mapped(image.image.pid, path);
                    }
                }
                // A trace names what it lacks, and so does the report.
                let lost = events.iter().filter_map(|event| match event {
                    Event::Lost { what } => Some(what.to_string()),
                    _ => None,
                });
                self.lost.extend(lost);
                image.events(tid, &events, &mut taken(&mut self.output, &mut self.buffer, &mut self.written))?;
            }
            Message::Named { addr, len, frames } => {
                let name = self.names.of(&frames);
                let named = Event::Name { addr: mmulab_addr::VirtAddr::new(addr), len, name };
                self.event(&mut image, tid, &named)?;
            }
            Message::Fork { child, shares_memory } => {
                let fork = Event::Fork { child: mmulab_addr::Pid(child.pid), shares_memory };
                self.event(&mut image, tid, &fork)?;
                let copy = image.copy(child.clone())?;
                self.close(&mut image)?;
                self.images.insert(child.number, copy);
            }
            Message::Forked { child, host_pid } => {
                if let Some(copy) = self.images.get_mut(&child.number).filter(|copy| copy.host_pid == 0) {
                    copy.host_pid = host_pid;
                    self.live().push(host_pid);
                    self.said().hosts.insert(child.pid, host_pid);
                }
            }
            Message::ForkFailed { child } => {
                if let Some(mut copy) = self.images.remove(&child.number) {
                    self.event(&mut copy, child.tid, &Event::Exit { status: 0 })?;
                    self.end(&mut copy)?;
                }
            }
            Message::Exec { next, path } => {
                self.close(&mut image)?;
                image.escaped = None;
                self.coming.insert(next.number, (path, number));
            }
            Message::ExecFailed { next } => drop(self.coming.remove(&next.number)),
            Message::Escaped { what } => {
                // What it did so far stands in the trace before what others do from here on.
                self.close(&mut image)?;
                image.escaped = Some(what);
            }
            Message::Stayed => image.escaped = None,
            Message::Runs { pid, tid: thread } => {
                self.processes.insert(pid);
                image.runs(tid, pid, thread);
            }
            Message::Over { status } => {
                self.status = Some(status);
                self.enough = true;
            }
            Message::ExitThread => self.event(&mut image, tid, &Event::ExitThread)?,
            Message::Exit { status } => return self.exit(image, tid, status),
        }
        self.images.insert(number, image);
        Ok(())
    }

    fn begin(&mut self, image: Image, host_pid: u32, blocks: u32, isa: mmulab_trace::Isa) -> io::Result<()> {
        let forked = self.images.remove(&image.number);
        let is_fork = forked.is_some();
        let mut recorded = match forked {
            Some(forked) => forked,
            None => Recorded::new(image.clone(), self.limits.skip > 0)?,
        };
        let known = std::mem::replace(&mut recorded.host_pid, host_pid) == host_pid;
        recorded.blocks_slot = Some(blocks);
        if !known {
            self.live().push(host_pid);
            self.said().hosts.insert(image.pid, host_pid);
        }
        if let Some((path, before)) = self.coming.remove(&image.number) {
            if let Some(mut before) = self.images.remove(&before) {
                self.end(&mut before)?;
            }
            self.event(&mut recorded, image.tid, &Event::Exec { path: path.as_str().into() })?;
            recorded.starting = Some(path);
        }
        if isa != self.description.isa && !is_fork {
            self.lost.push(format!("process {}: it is {isa}, the trace {}", image.pid, self.description.isa));
        }
        self.images.insert(image.number, recorded);
        Ok(())
    }

    fn said(&self) -> std::sync::MutexGuard<'_, Said> {
        self.shared.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.shared.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exit(&mut self, mut image: Recorded, tid: u32, status: i32) -> io::Result<()> {
        self.event(&mut image, tid, &Event::Exit { status })?;
        self.end(&mut image)
    }

    fn close(&mut self, image: &mut Recorded) -> io::Result<()> {
        self.buffer.clear();
        self.written += image.pending();
        match image.close(&mut self.buffer)? {
            Some(header) => self.output.chunk(&self.buffer, &header),
            None => Ok(()),
        }
    }

    /// Keeps what readers must hold at once below what they allow: a process with many threads and much code starts its
    /// dictionary anew.
    fn bound_states(&mut self) -> io::Result<()> {
        if self.images.values().map(Recorded::states).sum::<usize>() <= MOST_STATES {
            return Ok(());
        }
        let largest = self.images.iter().max_by_key(|(_, image)| image.states()).map(|(&number, _)| number);
        if let Some((number, mut image)) = largest.and_then(|number| self.images.remove_entry(&number)) {
            self.close(&mut image)?;
            image.start_fresh();
            self.images.insert(number, image);
        }
        Ok(())
    }

    /// The image is over.
    fn end(&mut self, image: &mut Recorded) -> io::Result<()> {
        self.close(image)?;
        if !image.is_system() {
            self.processes.insert(image.image.pid);
        }
        self.threads.extend(image.threads());
        let mut live = self.live();
        if let Some(at) = live.iter().position(|&pid| pid == image.host_pid) {
            live.remove(at);
        }
        Ok(())
    }

    /// Reports a program that the image was last seen to begin and that was not recorded, if any. It ran outside the
    /// emulator, or never came to run.
    fn unseen_end(&mut self, number: u32, image: &mut Recorded) -> io::Result<bool> {
        let pid = image.image.pid;
        let coming = self.coming.values().filter(|(_, before)| *before == number).map(|(path, _)| path.clone());
        let failed = coming.chain(image.starting.take()).map(|path| {
            format!(
                "{path} (process {pid}) did not run: QEMU and the recorder's plugin could not start in this process"
            )
        });
        let lost: Vec<String> = image.escaped.take().into_iter().chain(failed).collect();
        self.coming.retain(|_, (_, before)| *before != number);
        for what in &lost {
            let tid = image.image.tid;
            self.event(image, tid, &Event::Lost { what: what.as_str().into() })?;
        }
        let any = !lost.is_empty();
        self.lost.extend(lost);
        Ok(any)
    }

    /// Takes what processes left that ended without saying so. Whether there were any.
    fn bury(&mut self) -> io::Result<bool> {
        let dead: Vec<u32> =
            self.images.values().filter(|i| i.host_pid != 0 && !is_alive(i.host_pid)).map(|i| i.image.number).collect();
        // What they gave before they died comes first.
        if self.arena.is_stuck() {
            return Ok(!dead.is_empty());
        }
        for &number in &dead {
            let blocks = self.images.get(&number).and_then(|image| image.blocks_slot);
            if let (Some(slot), Some(image)) = (blocks, self.images.get_mut(&number)) {
                let left = self.arena.drain(slot);
                image.define(self.arena.range(left.from, left.count));
            }
            for slot in 0..self.arena.slots() {
                let s = self.arena.slot(slot);
                let tid = s.tid.load(Ordering::Relaxed);
                if s.image.load(Ordering::Relaxed) == number && tid != 0 && self.arena.is_open(slot) {
                    let left = self.arena.drain(slot);
                    self.words(number, tid, Arc::clone(&self.arena).range(left.from, left.count))?;
                }
            }
            if let Some(mut image) = self.images.remove(&number) {
                let tid = image.image.tid;
                // How a program ended that was not seen is not known.
                let status = if self.unseen_end(number, &mut image)? { 0 } else { KILLED };
                self.exit(image, tid, status)?;
            }
        }
        Ok(!dead.is_empty())
    }
}

/// The exit status written for a process that a signal ended: 128 and SIGKILL's number, because the signal is not
/// known.
const KILLED: i32 = 137;
