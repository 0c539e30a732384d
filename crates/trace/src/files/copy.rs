//! Copies of a trace, or of a span of its instructions, into any format that can be written. A span alone would lack
//! its address space. So the copy first repeats the earlier events that shape the address space, and refers to the
//! pages used until then (not for warps).
//!
//! ```text
//! source    words before the span                                words of the span    rest
//! copy      events, references to used pages, Event::Resume      words of the span    -
//! ```

use crate::{
    Batch, ChampSimWriter, Code, Description, EndInfo, Event, Format, Item, NativeWriter, Ref, Residency, Source,
    TextWriter, TraceError, TraceInfo,
};
use mmulab_addr::{Pid, Tid};
use serde::Serialize;
use std::{
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

/// Interval of progress reports.
const BEAT: Duration = Duration::from_millis(200);

/// How far reading a trace is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Progress {
    /// Instructions so far.
    pub instructions: u64,
    /// References so far.
    pub references: u64,
    /// Share of the trace read (0.0..=1.0), when that can be known.
    pub fraction: Option<f64>,
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// References per second.
    pub refs_per_s: f64,
}

/// Reports progress at intervals.
pub(crate) struct Beat {
    start: Instant,
    last: Instant,
}

impl Beat {
    pub fn new() -> Self {
        let start = Instant::now();
        Self { start, last: start }
    }

    /// Calls `on_progress` if it is time to; false if that wants an end.
    pub fn report(
        &mut self,
        fraction: Option<f64>,
        instructions: u64,
        references: u64,
        on_progress: &mut dyn FnMut(&Progress) -> bool,
    ) -> bool {
        if self.last.elapsed() < BEAT {
            return true;
        }
        self.last = Instant::now();
        let elapsed_s = self.start.elapsed().as_secs_f64();
        let refs_per_s = references as f64 / elapsed_s.max(1e-9);
        on_progress(&Progress { instructions, references, fraction, elapsed_s, refs_per_s })
    }
}

/// Which instructions are copied. The bounds are rounded outwards to whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Span {
    /// Instructions left out at the beginning; the address space is as they left it.
    pub start: u64,
    /// Instructions from the beginning of the source up to the end of the copy; `None` for all.
    pub end: Option<u64>,
}

/// Something a trace is written to.
pub enum Sink<W: Write> {
    /// As the native format.
    Native(Box<NativeWriter<W>>),
    /// As text.
    Text(TextWriter<W>),
    /// As ChampSim's records, which have no state before them: what stands for what was left out is not written.
    ChampSim {
        /// Its writer.
        writer: ChampSimWriter<W>,
        /// Whether the state is not over yet.
        waits: bool,
    },
}

impl<W: Write> Sink<W> {
    /// Begins a trace of `format`.
    ///
    /// # Errors
    /// The writer's, or `Unsupported` for a format that is only read.
    pub fn new(format: Format, out: W, description: &Description) -> io::Result<Self> {
        Ok(match format {
            Format::Native => Self::Native(Box::new(NativeWriter::new(out, description)?)),
            Format::Text => Self::Text(TextWriter::new(out, description)?),
            Format::ChampSim => {
                Self::ChampSim { writer: ChampSimWriter::new(out), waits: description.skipped.is_some() }
            }
            Format::Drmemtrace | Format::Lackey | Format::AccelSim => return Err(io::ErrorKind::Unsupported.into()),
        })
    }

    fn push(&mut self, batch: &Batch) -> io::Result<()> {
        match self {
            Self::Native(writer) => writer.push_batch(batch),
            Self::Text(writer) => writer.push_batch(batch),
            Self::ChampSim { writer, waits } => {
                let resumes = |word: &Ref| matches!(word.item(), Item::Event(i) if batch.events[i] == Event::Resume);
                let from = if *waits { batch.refs.iter().position(resumes) } else { Some(0) };
                let Some(from) = from else { return Ok(()) };
                *waits = false;
                writer.push_from(batch, from)
            }
        }
    }

    /// Ends the trace; the writer, and what the format could not hold.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(self, end: EndInfo) -> io::Result<(W, Vec<String>)> {
        match self {
            Self::Native(writer) => Ok((writer.finish(end)?, Vec::new())),
            Self::Text(mut writer) => {
                let mut last = Batch::default();
                let told = end.ended_early.into_iter().map(|why| format!("the rest: {why}"));
                told.chain(end.lost).for_each(|what| last.push_event(Event::Lost { what: what.into() }));
                writer.push_batch(&last)?;
                Ok((writer.finish()?, Vec::new()))
            }
            Self::ChampSim { writer, .. } => writer.finish(),
        }
    }
}

/// Why a copy ended before its source did, or before the end asked for.
#[derive(Debug)]
pub enum Stopped {
    /// The progress callback asked to stop.
    Interrupted,
    /// The source could not be read further.
    Source(TraceError),
}

/// Result of a copy.
#[derive(Debug)]
pub struct Copied {
    /// Instructions written.
    pub instructions: u64,
    /// References written.
    pub references: u64,
    /// Why it is not all that was asked for.
    pub stopped: Option<Stopped>,
}

/// Copies `span` of `source` to `sink`. Events before the span that shape address spaces are copied, and references
/// stand for the pages used there, so that the copy runs alone. `hear` gets the progress at intervals, and returns
/// whether to go on.
///
/// # Errors
/// The sink's. Errors of the source are in [`Copied::stopped`]: what came before them was copied.
pub fn copy<W: Write>(
    source: &mut dyn Source,
    sink: &mut Sink<W>,
    span: Span,
    mut on_progress: impl FnMut(&Progress) -> bool,
) -> io::Result<Copied> {
    let mut cut = Cut::new(span, source.info());
    let (mut batch, mut kept) = (Batch::default(), Batch::default());
    // Without its code a copy could not be timed.
    source.tell_code();
    let mut stopped = None;
    let mut beat = Beat::new();
    while stopped.is_none() {
        let read = source.next_batch(&mut batch);
        kept.clear();
        let over = cut.take(&mut batch, &mut kept);
        sink.push(&kept)?;
        match read {
            _ if over => break,
            Ok(false) => break,
            Ok(true) if beat.report(source.progress(), cut.at, cut.references, &mut on_progress) => {}
            Ok(true) => stopped = Some(Stopped::Interrupted),
            Err(error) => stopped = Some(Stopped::Source(error)),
        }
    }
    Ok(Copied { instructions: cut.instructions, references: cut.references, stopped })
}

/// Takes a span out of a stream of words. Before it come the events that shape what the span finds, and references that
/// stand for those left out.
pub(super) struct Cut {
    pub span: Span,
    /// Instructions of the source so far.
    pub at: u64,
    /// Whether a word of the span has been met.
    begun: bool,
    /// The part left out, as far as the span depends on it; `None` for warps, whose references have no meaning one by
    /// one.
    left_out: Option<Box<Residency>>,
    /// The process and thread that act, in the source and as far as is written.
    acting: (Pid, Tid),
    written: (Pid, Tid),
    /// The code that the next word executes.
    code: Option<Arc<Code>>,
    /// Instructions and references kept.
    instructions: u64,
    references: u64,
}

impl Cut {
    /// Nothing taken yet of a source of which this is known.
    pub fn new(span: Span, info: &TraceInfo) -> Self {
        let first = (Pid(1), Tid(1));
        Self {
            span,
            at: 0,
            begun: span.start == 0,
            left_out: Self::tells_pages(span, info).then(Box::default),
            acting: first,
            written: first,
            code: None,
            instructions: 0,
            references: 0,
        }
    }

    /// Whether a copy of the span also contains the pages that were used before it.
    pub fn tells_pages(span: Span, info: &TraceInfo) -> bool {
        span.start > 0 && info.warps.is_none()
    }

    /// Moves what belongs to the span from `batch` to `kept`; true when the span is over.
    pub fn take(&mut self, batch: &mut Batch, kept: &mut Batch) -> bool {
        let end = self.span.end.unwrap_or(u64::MAX);
        for &word in &batch.refs {
            let (retired, is_reference) = match word.item() {
                Item::Event(i) => {
                    // Each event has one word: it may be moved.
                    let event = std::mem::replace(&mut batch.events[i], Event::Tick);
                    self.event(event, kept);
                    continue;
                }
                Item::Access(_, _, n) => (u64::from(n), true),
                Item::Retire(n) => (n, false),
                Item::Code(i) => {
                    self.code = Some(Arc::clone(&batch.code[i]));
                    continue;
                }
            };
            let code = self.code.take();
            if self.at >= end && (retired > 0 || word.is_fetch()) {
                return true;
            }
            let before = self.at;
            self.at = self.at.saturating_add(retired);
            if !self.begun && self.at <= self.span.start {
                self.leave_out(word, kept);
                continue;
            }
            if !self.begun {
                self.begin(kept);
            }
            let (word, retired) = match word.item() {
                Item::Retire(_) => {
                    let inside = self.at.min(end).saturating_sub(before.max(self.span.start.min(self.at)));
                    (Ref::retire(inside), inside)
                }
                _ => (word, retired),
            };
            code.iter().for_each(|code| kept.push_code(code));
            kept.refs.push(word);
            self.instructions += retired;
            self.references += u64::from(is_reference);
        }
        false
    }

    fn leave_out(&mut self, word: Ref, kept: &mut Batch) {
        let (Some(left_out), Item::Access(access, va, _)) = (&mut self.left_out, word.item()) else { return };
        left_out.touch(va, access);
        if left_out.is_full() {
            self.tell_left_out(kept);
        }
    }

    /// Writes what stands for what is left out so far.
    fn tell_left_out(&mut self, kept: &mut Batch) {
        let Some(mut left_out) = self.left_out.take() else { return };
        left_out.tell_all(|actor, va, access| {
            self.write_actor(actor, kept);
            kept.push_use(va, access);
        });
        self.left_out = Some(left_out);
    }

    /// The span begins.
    fn begin(&mut self, kept: &mut Batch) {
        self.begun = true;
        self.tell_left_out(kept);
        self.write_actor(self.acting, kept);
        if self.left_out.take().is_some() {
            kept.push_event(Event::Resume);
        }
    }

    /// Writes that `actor` acts, if that is not so.
    fn write_actor(&mut self, actor: (Pid, Tid), kept: &mut Batch) {
        if std::mem::replace(&mut self.written, actor) != actor {
            kept.push_event(Event::Switch { pid: actor.0, tid: actor.1 });
        }
    }

    /// Keeps `event` if it is in the span or shapes what the span finds.
    fn event(&mut self, event: Event, kept: &mut Batch) {
        if self.begun {
            kept.push_event(event);
            return;
        }
        let mut uses = Vec::new();
        if let Some(left_out) = &mut self.left_out {
            left_out.event(&event, |va, access| uses.push((va, access)));
        }
        match event {
            Event::Switch { pid, tid } => self.acting = (pid, tid),
            // A cut before this one ended here: what it left out is left out again.
            Event::Tick | Event::Invlpg { .. } | Event::Resume | Event::Pause | Event::Continue { .. } => {}
            _ => {
                self.write_actor(self.acting, kept);
                uses.into_iter().for_each(|(va, access)| kept.push_use(va, access));
                kept.push_event(event);
            }
        }
    }
}
