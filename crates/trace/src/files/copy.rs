use crate::{
    Batch, ChampSimWriter, Code, Description, EndInfo, Event, Format, Item, NativeWriter, Ref, Source, TextWriter,
    TraceError, TraceErrorKind,
};
use serde::Serialize;
use std::{
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

/// How often a long work is told of.
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

/// Tells of progress now and then.
pub(crate) struct Beat {
    start: Instant,
    last: Instant,
}

impl Beat {
    pub fn new() -> Self {
        let start = Instant::now();
        Self { start, last: start }
    }

    /// Tells `hear` if it is time to; false if it wants an end.
    pub fn tell(
        &mut self,
        fraction: Option<f64>,
        instructions: u64,
        references: u64,
        hear: &mut dyn FnMut(&Progress) -> bool,
    ) -> bool {
        if self.last.elapsed() < BEAT {
            return true;
        }
        self.last = Instant::now();
        let elapsed_s = self.start.elapsed().as_secs_f64();
        let refs_per_s = references as f64 / elapsed_s.max(1e-9);
        hear(&Progress { instructions, references, fraction, elapsed_s, refs_per_s })
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
    /// As ChampSim's records.
    ChampSim(ChampSimWriter<W>),
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
            Format::ChampSim => Self::ChampSim(ChampSimWriter::new(out)),
            Format::Drmemtrace | Format::Lackey | Format::AccelSim => return Err(io::ErrorKind::Unsupported.into()),
        })
    }

    fn push(&mut self, batch: &Batch) -> io::Result<()> {
        match self {
            Self::Native(writer) => writer.push_batch(batch),
            Self::Text(writer) => writer.push_batch(batch),
            Self::ChampSim(writer) => writer.push_batch(batch),
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
            Self::ChampSim(writer) => writer.finish(),
        }
    }
}

/// Why a copy ended before its source did, or before the end asked for.
#[derive(Debug)]
pub enum Stopped {
    /// Whoever was told of the progress wanted it.
    Interrupted,
    /// The source could not be read further.
    Source(TraceError),
}

/// What a copy came to.
#[derive(Debug)]
pub struct Copied {
    /// Instructions written.
    pub instructions: u64,
    /// References written.
    pub references: u64,
    /// Why it is not all that was asked for.
    pub stopped: Option<Stopped>,
}

/// Copies `span` of `source` to `sink`. Events before the span that shape address spaces are copied, so that the copy
/// runs alone. `hear` is told of the progress now and then, and says whether to go on.
///
/// # Errors
/// The sink's. Errors of the source are in [`Copied::stopped`]: what came before them was copied.
pub fn copy<W: Write>(
    source: &mut dyn Source,
    sink: &mut Sink<W>,
    span: Span,
    mut hear: impl FnMut(&Progress) -> bool,
) -> io::Result<Copied> {
    let mut cut = Cut::new(span);
    let (mut batch, mut kept) = (Batch::default(), Batch::default());
    // Without its code a copy could not be timed.
    source.tell_code();
    let mut stopped = None;
    let mut beat = Beat::new();
    if span.start > 0 {
        match source.skip_to(span.start, &mut |fraction| beat.tell(Some(fraction), 0, 0, &mut hear)) {
            Ok(Some(sought)) => {
                cut.at = sought.instructions;
                sought.events.into_iter().for_each(|event| cut.event(event, &mut kept));
                sink.push(&kept)?;
            }
            Ok(None) => {}
            Err(TraceError { kind: TraceErrorKind::Interrupted, .. }) => stopped = Some(Stopped::Interrupted),
            Err(error) => stopped = Some(Stopped::Source(error)),
        }
    }
    while stopped.is_none() {
        let read = source.next_batch(&mut batch);
        kept.clear();
        let over = cut.take(&mut batch, &mut kept);
        sink.push(&kept)?;
        match read {
            _ if over => break,
            Ok(false) => break,
            Ok(true) if beat.tell(source.progress(), cut.at, cut.references, &mut hear) => {}
            Ok(true) => stopped = Some(Stopped::Interrupted),
            Err(error) => stopped = Some(Stopped::Source(error)),
        }
    }
    Ok(Copied { instructions: cut.instructions, references: cut.references, stopped })
}

/// Takes a span out of a stream of words.
pub(super) struct Cut {
    pub span: Span,
    /// Instructions of the source so far.
    pub at: u64,
    /// Whether a word of the span has been met.
    begun: bool,
    /// Who acts at the beginning of the span, when that has not been written.
    switch: Option<Event>,
    /// The code that the next word executes.
    code: Option<Arc<Code>>,
    /// Instructions and references kept.
    instructions: u64,
    references: u64,
}

impl Cut {
    /// Nothing taken yet.
    pub fn new(span: Span) -> Self {
        Self { span, at: 0, begun: span.start == 0, switch: None, code: None, instructions: 0, references: 0 }
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
                continue;
            }
            if !self.begun {
                self.begun = true;
                self.switch.take().into_iter().for_each(|event| kept.push_event(event));
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

    /// Keeps `event` if it is in the span or shapes what the span finds.
    pub fn event(&mut self, event: Event, kept: &mut Batch) {
        if self.begun {
            kept.push_event(event);
            return;
        }
        match event {
            Event::Switch { .. } => self.switch = Some(event),
            Event::Tick | Event::Invlpg { .. } => {}
            _ => {
                self.switch.take().into_iter().for_each(|event| kept.push_event(event));
                kept.push_event(event);
            }
        }
    }
}
