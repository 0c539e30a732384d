//! Decoder of native traces: the streams of a chunk become references and events again. The decoder updates the same
//! predictions as the encoder. A chunk contains variant numbers and address differences only where predictions failed.
//!
//! ```text
//! dictionary -----> variants: code blocks and their accesses
//! codes, ids -----> next variant --------> fetches
//! forms, deltas --> address per access --> loads and stores
//! events ---------> events and instruction counts
//! ```

use super::{
    dictionary::{MAX_TOTAL_OPS, MAX_VARIANTS, Variant, WITH_CODE},
    execute::{Accesses, Known, Name, Names, SLACK},
    layout::{ChunkHeader, FLAG_FRESH, MAX_INSTRUCTIONS, MAX_STREAM, stream},
    predict::{SLOTS, Thread, code, slot},
    varint,
};
use crate::{Batch, Body, Code, Event, Ref};
use mmulab_addr::{Pid, Tid};
use rustc_hash::FxHashMap;
use std::{collections::BTreeMap, sync::Arc};

/// Most access predictions a reader holds over all spaces: 2 GiB of memory. Those whose last chunk was read hold none.
pub const MAX_STATES: usize = 1 << 27;

/// A dictionary and predictions: one process's, or those of all where the writer knew only words.
#[derive(Default)]
struct Space {
    known: Vec<Known>,
    /// Words of fetches after the first of each variant.
    more: Vec<Ref>,
    /// Of each access: log2 of its bytes, times two, plus one for a store: [`KIND_BITS`] bits.
    kinds: Vec<u8>,
    /// The code of each variant with a block, if it is to be told, and its place in the last batch that has it.
    code: Vec<Option<(Arc<Code>, u32)>>,
    /// The code defined last at each start.
    latest: FxHashMap<u64, (u32, u32, Box<[u8]>)>,
    used: u32,
    threads: Vec<Option<Box<Thread>>>,
}

/// Turns chunks back into references.
pub(super) struct Decoder {
    /// Of the file.
    version: u32,
    /// Whether batches say which code runs.
    tells_code: bool,
    spaces: BTreeMap<u32, Space>,
    states: usize,
    /// The process and thread that act after the batches so far.
    acting: Option<(u32, u32)>,
    chunk: Option<Open>,
    inflate: Inflate,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            version: WITH_CODE,
            tells_code: false,
            spaces: BTreeMap::new(),
            states: 0,
            acting: None,
            chunk: None,
            inflate: Inflate::default(),
        }
    }
}

/// A chunk being read.
struct Open {
    header: ChunkHeader,
    codes: usize,
    ids: usize,
    forms: usize,
    deltas: usize,
    events: usize,
    /// Instructions and references decoded so far.
    instructions: u64,
    references: u64,
    /// Whether it is the last one of its space.
    last: bool,
}

impl Open {
    fn new(header: ChunkHeader, last: bool) -> Self {
        Self { header, codes: 0, ids: 0, forms: 0, deltas: 0, events: 0, instructions: 0, references: 0, last }
    }

    /// Whether it holds as much as its header says; at its end, exactly as much.
    fn check_counts(&self, is_over: bool) -> Result<(), String> {
        let ChunkHeader { instructions, references, .. } = self.header;
        let more = self.instructions > instructions || self.references > references;
        if !more && (!is_over || (self.instructions, self.references) == (instructions, references)) {
            return Ok(());
        }
        let found = if is_over { "holds" } else { "holds at least" };
        Err(format!(
            "its header says {instructions} instructions and {references} references; it {found} {} and {}",
            self.instructions, self.references
        ))
    }
}

/// Zstandard and the memory it fills.
struct Inflate {
    context: zstd::zstd_safe::DCtx<'static>,
    streams: [Vec<u8>; stream::COUNT],
}

impl Default for Inflate {
    fn default() -> Self {
        Self { context: zstd::zstd_safe::DCtx::create(), streams: Default::default() }
    }
}

impl Inflate {
    /// Decompresses `stored` into stream `which`.
    fn fill(&mut self, which: usize, stored: &[u8], raw: usize) -> Result<(), String> {
        let out = &mut self.streams[which];
        out.clear();
        debug_assert!(raw <= MAX_STREAM);
        if raw > 0 {
            out.reserve(raw + SLACK);
            let got = self
                .context
                .decompress(out, stored)
                .map_err(|e| format!("stream {which}: {}", zstd::zstd_safe::get_error_name(e)))?;
            if got != raw {
                return Err(format!("stream {which} holds {got} bytes; its chunk says {raw}"));
            }
        }
        if which == stream::DELTAS {
            // Differences are read eight bytes at a time, also those of no bytes: a loop over one address has no
            // others.
            out.resize(raw + SLACK, 0);
        }
        Ok(())
    }
}

impl Decoder {
    /// A decoder for the same file, which has read nothing.
    pub fn anew(&self) -> Self {
        Self { version: self.version, tells_code: self.tells_code, ..Self::default() }
    }

    /// The version of the file.
    pub fn set_version(&mut self, version: u32) {
        self.version = version;
    }

    /// Has batches say which code runs.
    pub fn tell_code(&mut self) {
        self.tells_code = true;
    }

    /// Whether a chunk is being read.
    pub fn is_open(&self) -> bool {
        self.chunk.is_some()
    }

    /// Takes over a chunk whose checksum holds: decompresses it and learns its definitions. The `last` one of its space
    /// takes that with it.
    pub fn open(&mut self, header: ChunkHeader, payload: &[u8], last: bool) -> Result<(), String> {
        self.open_streams(header, payload, stream::COUNT, last)
    }

    /// As [`Decoder::open`], decompressing only the first `wanted` streams.
    fn open_streams(&mut self, header: ChunkHeader, payload: &[u8], wanted: usize, last: bool) -> Result<(), String> {
        self.chunk = None;
        let mut at = 0;
        for (which, &(stored, raw)) in header.lengths.iter().enumerate().take(wanted) {
            let end = at + stored as usize;
            let stored = payload.get(at..end).ok_or("its streams are longer than the chunk")?;
            self.inflate.fill(which, stored, raw as usize)?;
            at = end;
        }
        if self.inflate.streams[stream::CODES].len() != header.codes as usize {
            return Err("it says another number of executions than it holds".into());
        }
        if header.flags & FLAG_FRESH != 0 {
            self.forget(header.space);
            self.spaces.insert(header.space, Space::new());
        }
        let space = self.spaces.get_mut(&header.space).ok_or("its dictionary is not there")?;
        if header.is_key() {
            space.threads.iter_mut().flatten().for_each(|t| t.reset());
        }
        space.learn(&self.inflate.streams[stream::DICTIONARY], self.version, self.tells_code)?;
        self.states += space.enter(header.tid);
        self.check_states()?;
        self.chunk = Some(Open::new(header, last));
        Ok(())
    }

    fn check_states(&self) -> Result<(), String> {
        if self.states > MAX_STATES {
            return Err(format!("its processes need more than {MAX_STATES} predictions, the most this reader holds"));
        }
        Ok(())
    }

    /// Forgets a space.
    fn forget(&mut self, space: u32) {
        if let Some(space) = self.spaces.remove(&space) {
            self.states -= space.threads.iter().flatten().map(|t| t.ops.len()).sum::<usize>();
        }
    }

    /// Says who acts at the start of the open chunk, if the batches have not.
    fn say_who(&mut self, batch: &mut Batch) {
        let Some(Open { header, .. }) = &self.chunk else { return };
        // A trace starts as process 1, thread 1.
        let now = (header.pid, header.tid);
        if self.acting.unwrap_or((1, 1)) != now {
            batch.push_event(Event::Switch { pid: Pid(now.0), tid: Tid(now.1) });
        }
        self.acting = Some(now);
    }

    /// Appends to `batch` until it or the chunk ends.
    pub fn decode(&mut self, batch: &mut Batch) -> Result<(), String> {
        if self.chunk.as_ref().is_some_and(|c| c.codes == 0) {
            self.say_who(batch);
        }
        loop {
            match self.run(batch)? {
                Stop::Full => return Ok(()),
                Stop::Event => self.event(batch)?,
                Stop::End => break,
            }
        }
        let Some(chunk) = self.chunk.take() else { return Ok(()) };
        if chunk.last {
            self.forget(chunk.header.space);
        }
        chunk.check_counts(true)
    }

    /// Decodes executions of the acting thread.
    fn run(&mut self, batch: &mut Batch) -> Result<Stop, String> {
        if self.tells_code { self.run_telling::<true>(batch) } else { self.run_telling::<false>(batch) }
    }

    fn run_telling<const CODE: bool>(&mut self, batch: &mut Batch) -> Result<Stop, String> {
        let (Some(open), Some((_, tid))) = (&mut self.chunk, self.acting) else { return Ok(Stop::End) };
        let space = self.spaces.get_mut(&open.header.space).ok_or("its dictionary is not there")?;
        let Some(thread) = space.threads.get_mut(slot(tid)).and_then(Option::as_deref_mut) else {
            return Err("its thread is not there".into());
        };
        let streams = &self.inflate.streams;
        let mut names = Names {
            codes: &streams[stream::CODES][open.codes..],
            ids: streams[stream::IDS].get(open.ids..).unwrap_or_default(),
            used: &mut space.used,
        };
        let mut accesses = Accesses {
            forms: streams[stream::FORMS].get(open.forms..).unwrap_or_default(),
            deltas: streams[stream::DELTAS].get(open.deltas..).unwrap_or_default(),
            near: thread.near,
            step: thread.step,
            earlier: thread.earlier,
        };
        let (words, mut instructions, mut controls) = (batch.refs.len(), 0, 0);
        let stop = loop {
            if batch.is_full() {
                break Ok(Stop::Full);
            }
            let known = match names.next(&mut thread.next, &mut thread.last) {
                // Variants count from 1; 0 is no variant.
                Ok(Name::Variant(id)) => match space.known.get((id as usize).wrapping_sub(1)) {
                    Some(known) => {
                        if CODE && let Some((code, place)) = &mut space.code[id as usize - 1] {
                            batch.push_code_again(code, place);
                            controls += 1;
                        }
                        known
                    }
                    None => break Err("a variant is not in the dictionary".to_owned()),
                },
                Ok(Name::Event) => break Ok(Stop::Event),
                Ok(Name::End) => break Ok(Stop::End),
                Err(wrong) => break Err(wrong.to_owned()),
            };
            known.push_fetches(&space.more, &mut batch.refs);
            if let Err(wrong) = accesses.execute(known, &space.kinds, &mut thread.ops, &mut batch.refs) {
                break Err(wrong.to_owned());
            }
            instructions += known.instructions();
            controls += known.controls();
        };
        open.instructions += instructions;
        open.references += (batch.refs.len() - words) as u64 - controls;
        open.codes = streams[stream::CODES].len() - names.codes.len();
        open.ids = streams[stream::IDS].len() - names.ids.len();
        open.forms = streams[stream::FORMS].len() - accesses.forms.len();
        open.deltas = streams[stream::DELTAS].len() - accesses.deltas.len();
        (thread.near, thread.step, thread.earlier) = (accesses.near, accesses.step, accesses.earlier);
        let stop = stop?;
        open.check_counts(false)?;
        Ok(stop)
    }

    /// Decodes one item of the events stream.
    fn event(&mut self, batch: &mut Batch) -> Result<(), String> {
        let Some(open) = &mut self.chunk else { return Ok(()) };
        let mut rest = self.inflate.streams[stream::EVENTS].get(open.events..).unwrap_or_default();
        let before = rest.len();
        let item = take_event(&mut rest)?;
        open.events += before - rest.len();
        let event = match item {
            EventItem::Retire(count) => {
                batch.refs.push(Ref::retire(count));
                open.instructions += count;
                return open.check_counts(false);
            }
            EventItem::Event(event) => event,
        };
        if let Event::Switch { pid, tid } = &event {
            self.acting = Some((pid.0, tid.0));
            let space = self.spaces.get_mut(&open.header.space).ok_or("its dictionary is not there")?;
            self.states += space.enter(tid.0);
            self.check_states()?;
        }
        batch.push_event(event);
        Ok(())
    }

    /// Learns a chunk's definitions and events without decoding its accesses.
    pub fn skim(&mut self, header: ChunkHeader, payload: &[u8], events: &mut Vec<Event>) -> Result<(), String> {
        // Definitions, events and codes come before ids, forms and deltas. A later chunk of the space begins its
        // predictions.
        self.open_streams(header, payload, stream::CODES + 1, false)?;
        let mut batch = Batch::default();
        self.say_who(&mut batch);
        let Some(chunk) = self.chunk.take() else { return Ok(()) };
        batch.events.drain(..).for_each(|event| remember(event, events));
        let mut rest = self.inflate.streams[stream::EVENTS].as_slice();
        while !rest.is_empty() {
            if let EventItem::Event(event) = take_event(&mut rest)? {
                if let Event::Switch { pid, tid } = event {
                    self.acting = Some((pid.0, tid.0));
                }
                remember(event, events);
            }
        }
        // What was executed here for the first time is told by number from here on.
        if let Some(space) = self.spaces.get_mut(&chunk.header.space) {
            let new = self.inflate.streams[stream::CODES].iter().filter(|&&c| c == code::NEW).count();
            space.used = space.used.saturating_add(new as u32);
        }
        Ok(())
    }
}

/// Keeps an event that was passed, if anything after it depends on it. A few bytes can stand for millions of ticks.
pub(super) fn remember(event: Event, events: &mut Vec<Event>) {
    match (&event, events.last_mut()) {
        (Event::Tick | Event::Invlpg { .. }, _) => {}
        (Event::Switch { .. }, Some(last @ Event::Switch { .. })) => *last = event,
        _ => events.push(event),
    }
}

/// Why [`Decoder::run`] stopped.
enum Stop {
    Full,
    Event,
    End,
}

/// An item of the events stream.
enum EventItem {
    Retire(u64),
    Event(Event),
}

fn take_event(bytes: &mut &[u8]) -> Result<EventItem, String> {
    let length = varint::take(bytes).ok_or("its events end too early")?;
    if length == 0 {
        let count = varint::take(bytes).ok_or("its events end too early")?;
        if count > MAX_INSTRUCTIONS {
            return Err(format!("{count} instructions retire at once; a trace has at most {MAX_INSTRUCTIONS}"));
        }
        return Ok(EventItem::Retire(count));
    }
    let (json, rest) =
        usize::try_from(length).ok().and_then(|n| bytes.split_at_checked(n)).ok_or("its events end too early")?;
    *bytes = rest;
    serde_json::from_slice(json).map(EventItem::Event).map_err(|e| format!("an event is not understood: {e}"))
}

impl Space {
    fn new() -> Self {
        Self { threads: (0..SLOTS).map(|_| None).collect(), ..Self::default() }
    }

    /// Adds the definitions of a dictionary stream.
    fn learn(&mut self, mut bytes: &[u8], version: u32, tells_code: bool) -> Result<(), String> {
        let mut last = 0;
        while !bytes.is_empty() {
            let variant = Variant::take(&mut bytes, &mut last, version).ok_or("a definition is not understood")?;
            let words = variant.fetch_words();
            if self.known.len() >= MAX_VARIANTS || self.kinds.len() + variant.ops.len() > MAX_TOTAL_OPS {
                return Err("its dictionary is larger than any".into());
            }
            let ops = self.kinds.len();
            self.kinds.extend(variant.ops.iter().map(|op| op.size_shift << 1 | u8::from(op.store)));
            self.known.push(Known::new(&words, &self.kinds[ops..], ops, self.more.len()));
            self.more.extend(words.iter().skip(1));
            if tells_code {
                let code = self.code_of(variant);
                self.code.push(code.map(|code| (code, 0)));
            }
        }
        Ok(())
    }

    /// The code of a variant: its own, or that of the block defined before at its start if that is as long.
    fn code_of(&mut self, variant: Variant) -> Option<Arc<Code>> {
        let Variant { start, bytes, instructions, ops, code } = variant;
        let start = start?.raw();
        let body = if !code.is_empty() {
            self.latest.insert(start, (bytes, instructions, code.as_slice().into()));
            Body::Bytes(code.into())
        } else {
            match self.latest.get(&start) {
                Some((length, count, code)) if (*length, *count) == (bytes, instructions) => Body::Bytes(code.clone()),
                _ => Body::Unknown,
            }
        };
        Some(Arc::new(Code::new(body, bytes, instructions, ops)))
    }

    /// Makes the predictions of thread `tid` cover the dictionary; how many were added.
    fn enter(&mut self, tid: u32) -> usize {
        let thread = self.threads[slot(tid)].get_or_insert_default();
        let before = thread.ops.len();
        thread.grow(self.known.len(), self.kinds.len());
        self.kinds.len() - before
    }
}
