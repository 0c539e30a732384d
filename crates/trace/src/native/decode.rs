use super::{
    dictionary::{MAX_TOTAL_OPS, MAX_VARIANTS, Variant},
    layout::{ChunkHeader, FLAG_FRESH, MAX_STREAM, stream},
    predict::{OpState, SLOTS, Thread, code, form, slot},
    varint,
};
use crate::{Batch, Event, Ref};
use mmulab_addr::{BASE_BYTES, Pid, Tid, VirtAddr};
use std::collections::BTreeMap;

/// Most access predictions a reader holds over all processes: 2 GiB of memory. Processes that ended hold none.
const MAX_STATES: usize = 1 << 27;

/// What the hot path needs of a variant: half a cache line.
#[derive(Clone, Copy)]
struct Known {
    /// The word of its first fetch; unused when it has none.
    fetch: Ref,
    /// The kinds of its first [`GROUP`] accesses, the first in the low bits.
    kinds: u64,
    /// Position of its first access in the list of all.
    ops: u32,
    count: u16,
    /// Words of its fetches. Those after the first are at `more`.
    fetches: u16,
    more: u32,
}

/// One process's dictionary and predictions.
#[derive(Default)]
struct Space {
    pid: u32,
    known: Vec<Known>,
    /// Words of fetches after the first of each variant.
    more: Vec<Ref>,
    /// Of each access: log2 of its bytes, times two, plus one for a store: [`KIND_BITS`] bits.
    kinds: Vec<u8>,
    used: u32,
    threads: Vec<Option<Box<Thread>>>,
}

/// Turns chunks back into references.
#[derive(Default)]
pub(super) struct Decoder {
    spaces: BTreeMap<u32, Space>,
    states: usize,
    /// Who acts, as the batches so far have said.
    acting: Option<(u32, u32)>,
    chunk: Option<Open>,
    inflate: Inflate,
}

/// A chunk being read.
struct Open {
    header: ChunkHeader,
    codes: usize,
    ids: usize,
    forms: usize,
    deltas: usize,
    events: usize,
    /// Processes that ended in it.
    gone: Vec<(u32, Option<u32>)>,
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
            // Differences are read eight bytes at a time, also those of no bytes: a loop over one address has no others.
            out.resize(raw + SLACK, 0);
        }
        Ok(())
    }
}

/// Bytes readable after the last difference.
const SLACK: usize = 8;

/// Bits of the kind of an access.
const KIND_BITS: u32 = 4;
/// Accesses whose kinds fit a word.
const GROUP: usize = (u64::BITS / KIND_BITS) as usize;

fn packed(kinds: &[u8]) -> u64 {
    kinds.iter().take(GROUP).rev().fold(0, |word, &kind| word << KIND_BITS | u64::from(kind))
}

/// What a form says, as masks: which form comes next is hard to foresee, so its meaning must not be a branch.
#[derive(Clone, Copy)]
struct Told {
    /// Which bits of the difference count.
    raw: u64,
    /// All ones where the step is that of the access before, ...
    like_last: u64,
    /// ... of the one before that, ...
    like_earlier: u64,
    /// ... or the one this access made before.
    stride: u64,
    /// All ones where the step is from the access before.
    near: u64,
    /// Bytes of difference.
    bytes: usize,
}

/// By form. Those that do not exist say nothing, and are found by their number.
const TOLD: [Told; 32] = {
    let none = Told { raw: 0, like_last: 0, like_earlier: 0, stride: 0, near: 0, bytes: 0 };
    let mut all = [none; 32];
    all[form::LIKE_LAST as usize].like_last = u64::MAX;
    all[form::LIKE_EARLIER as usize].like_earlier = u64::MAX;
    all[form::STRIDE as usize].stride = u64::MAX;
    let mut bytes = 1;
    while bytes <= 8 {
        let told = Told { raw: u64::MAX >> (64 - 8 * bytes), bytes, ..none };
        all[form::OWN as usize + bytes] = told;
        all[form::NEAR as usize + bytes] = Told { near: u64::MAX, ..told };
        bytes += 1;
    }
    all
};

impl Decoder {
    /// Whether a chunk is being read.
    pub fn is_open(&self) -> bool {
        self.chunk.is_some()
    }

    /// Takes over a chunk whose checksum holds: decompresses it and learns its definitions.
    pub fn open(&mut self, header: ChunkHeader, payload: &[u8]) -> Result<(), String> {
        self.open_streams(header, payload, stream::COUNT)
    }

    /// As [`Decoder::open`], decompressing only the first `wanted` streams.
    fn open_streams(&mut self, header: ChunkHeader, payload: &[u8], wanted: usize) -> Result<(), String> {
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
        space.pid = header.pid;
        if header.is_key() {
            space.threads.iter_mut().flatten().for_each(|t| t.reset());
        }
        space.learn(&self.inflate.streams[stream::DICTIONARY])?;
        self.states += space.enter(header.tid);
        self.check_states()?;
        self.chunk = Some(Open { header, codes: 0, ids: 0, forms: 0, deltas: 0, events: 0, gone: Vec::new() });
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
        for (pid, but) in chunk.gone {
            let spaces: Vec<u32> =
                self.spaces.iter().filter(|&(&id, s)| s.pid == pid && Some(id) != but).map(|(&id, _)| id).collect();
            spaces.into_iter().for_each(|id| self.forget(id));
        }
        Ok(())
    }

    /// Decodes executions of the acting thread.
    fn run(&mut self, batch: &mut Batch) -> Result<Stop, String> {
        let (Some(open), Some((_, tid))) = (&mut self.chunk, self.acting) else { return Ok(Stop::End) };
        let space = self.spaces.get_mut(&open.header.space).ok_or("its dictionary is not there")?;
        let Some(thread) = space.threads.get_mut(slot(tid)).and_then(Option::as_deref_mut) else {
            return Err("its thread is not there".into());
        };
        let streams = &self.inflate.streams;
        let (codes, ids) = (&streams[stream::CODES], &streams[stream::IDS]);
        let (forms, deltas) = (&streams[stream::FORMS], &streams[stream::DELTAS]);
        let (mut at_form, mut at_delta) = (open.forms, open.deltas);
        let (mut near, mut last_step, mut earlier) = (thread.near, thread.step, thread.earlier);
        let mut stop = Stop::End;
        let mut wrong = None;
        for &told in &codes[open.codes..] {
            if batch.is_full() {
                stop = Stop::Full;
                break;
            }
            open.codes += 1;
            let id = match told {
                code::LAST | code::EARLIER => thread.next[thread.last as usize][usize::from(told)],
                code::NEW => {
                    space.used += 1;
                    space.used
                }
                code::NAMED => {
                    let Some(&[a, b, c]) = ids.get(open.ids..open.ids + 3) else {
                        wrong = Some("its ids end too early");
                        break;
                    };
                    open.ids += 3;
                    u32::from_le_bytes([a, b, c, 0])
                }
                code::EVENT => {
                    stop = Stop::Event;
                    break;
                }
                _ => {
                    wrong = Some("a code has no meaning");
                    break;
                }
            };
            // Variants count from 1; 0 is no variant.
            let Some(known) = space.known.get((id as usize).wrapping_sub(1)) else {
                wrong = Some("a variant is not in the dictionary");
                break;
            };
            thread.follow(id);
            if known.fetches > 0 {
                batch.refs.push(known.fetch);
                if known.fetches > 1 {
                    let more = known.more as usize;
                    batch.refs.extend_from_slice(&space.more[more..more + usize::from(known.fetches) - 1]);
                }
            }
            let (first, count) = (known.ops as usize, usize::from(known.count));
            let Some(mut told) = forms.get(at_form..at_form + count) else {
                wrong = Some("its forms end too early");
                break;
            };
            at_form += count;
            let mut states = &mut thread.ops[first..first + count];
            let mut kinds = known.kinds;
            let mut done = 0;
            while !told.is_empty() {
                let now = told.len().min(GROUP);
                let (forms_now, rest) = told.split_at(now);
                let (states_now, states_rest) = std::mem::take(&mut states).split_at_mut(now);
                (told, states) = (rest, states_rest);
                let before = batch.refs.len();
                let (mut crosses, mut unknown, mut short, mut kinds_left) = (false, false, false, kinds);
                batch.refs.extend(forms_now.iter().zip(states_now).map(|(&form, state)| {
                    let told = &TOLD[usize::from(form) % TOLD.len()];
                    unknown |= form >= form::COUNT;
                    let mut word = [0; 8];
                    match deltas.get(at_delta..at_delta + 8) {
                        Some(bytes) => word.copy_from_slice(bytes),
                        None => short = true,
                    }
                    at_delta += told.bytes;
                    let raw = varint::unzigzag(u64::from_le_bytes(word) & told.raw) as u64;
                    let step =
                        raw | last_step & told.like_last | earlier & told.like_earlier | state.step & told.stride;
                    let base = state.own ^ (state.own ^ near) & told.near;
                    let address = base.wrapping_add(step);
                    let step = address.wrapping_sub(state.own);
                    *state = OpState { own: address, step };
                    (earlier, last_step, near) = (last_step, step, address);
                    crosses |= (address & (BASE_BYTES - 1)) + (1 << (kinds_left >> 1 & 7)) > BASE_BYTES;
                    let word = Ref::data(VirtAddr::new(address), kinds_left & 1 != 0);
                    kinds_left >>= KIND_BITS;
                    word
                }));
                if unknown || short {
                    batch.refs.truncate(before);
                    wrong = Some(if short { "its differences end too early" } else { "a form has no meaning" });
                    break;
                }
                if crosses {
                    add_crossings(&mut batch.refs, before, kinds);
                }
                done += now;
                kinds = if told.is_empty() { 0 } else { packed(&space.kinds[first + done..first + count]) };
            }
            if wrong.is_some() {
                break;
            }
        }
        (open.forms, open.deltas) = (at_form, at_delta);
        (thread.near, thread.step, thread.earlier) = (near, last_step, earlier);
        match wrong {
            Some(wrong) => Err(wrong.into()),
            None => Ok(stop),
        }
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
                return Ok(());
            }
            EventItem::Event(event) => event,
        };
        match &event {
            Event::Switch { pid, tid } => {
                self.acting = Some((pid.0, tid.0));
                let space = self.spaces.get_mut(&open.header.space).ok_or("its dictionary is not there")?;
                self.states += space.enter(tid.0);
                self.check_states()?;
            }
            Event::Exit { .. } => open.gone.extend(self.acting.map(|(pid, _)| (pid, None))),
            Event::Exec { .. } => open.gone.extend(self.acting.map(|(pid, _)| (pid, Some(open.header.space)))),
            _ => {}
        }
        batch.push_event(event);
        Ok(())
    }

    /// Learns a chunk's definitions and events without decoding its accesses.
    pub fn skim(&mut self, header: ChunkHeader, payload: &[u8], events: &mut Vec<Event>) -> Result<(), String> {
        // Definitions, events and codes come before ids, forms and deltas.
        self.open_streams(header, payload, stream::CODES + 1)?;
        let mut batch = Batch::default();
        self.say_who(&mut batch);
        let Some(chunk) = self.chunk.take() else { return Ok(()) };
        events.append(&mut batch.events);
        let mut rest = self.inflate.streams[stream::EVENTS].as_slice();
        while !rest.is_empty() {
            if let EventItem::Event(event) = take_event(&mut rest)? {
                if let Event::Switch { pid, tid } = event {
                    self.acting = Some((pid.0, tid.0));
                }
                events.push(event);
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

/// Adds the second reference of each access in `refs[from..]` that crosses a page boundary.
#[cold]
fn add_crossings(refs: &mut Vec<Ref>, from: usize, mut kinds: u64) {
    for word in refs.split_off(from) {
        refs.push(word);
        let inside = word.va().raw() & (BASE_BYTES - 1);
        if inside + (1 << (kinds >> 1 & 7)) > BASE_BYTES {
            refs.push(Ref::data(word.va().add(BASE_BYTES - inside), word.is_write()));
        }
        kinds >>= KIND_BITS;
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
        return Ok(EventItem::Retire(varint::take(bytes).ok_or("its events end too early")?));
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
    fn learn(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        let mut last = 0;
        while !bytes.is_empty() {
            let variant = Variant::take(&mut bytes, &mut last).ok_or("a definition is not understood")?;
            let words = variant.fetch_words();
            if self.known.len() >= MAX_VARIANTS || self.kinds.len() + variant.ops.len() > MAX_TOTAL_OPS {
                return Err("its dictionary is larger than any".into());
            }
            let ops = self.kinds.len();
            self.kinds.extend(variant.ops.iter().map(|op| op.size_shift << 1 | u8::from(op.store)));
            self.known.push(Known {
                kinds: packed(&self.kinds[ops..]),
                fetch: words.first().copied().unwrap_or(Ref::retire(0)),
                ops: ops as u32,
                count: variant.ops.len() as u16,
                fetches: words.len() as u16,
                more: self.more.len() as u32,
            });
            self.more.extend(words.iter().skip(1));
        }
        Ok(())
    }

    /// Makes the predictions of thread `tid` cover the dictionary; how many were added.
    fn enter(&mut self, tid: u32) -> usize {
        let thread = self.threads[slot(tid)].get_or_insert_default();
        let before = thread.ops.len();
        thread.grow(self.known.len(), self.kinds.len());
        self.kinds.len() - before
    }
}
