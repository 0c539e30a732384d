//! Native trace writer for generators and conversions: references and events are grouped into variants and encoded in
//! chunks, and the index follows. The encoder alone does not suffice, because these sources do not define variants.

use super::{
    dictionary::Variant,
    encode::{Encoder, VariantId},
    index::{IndexEntry, write_index},
    layout::MAX_INSTRUCTIONS,
};
use crate::{Batch, Body, Code, Description, EndInfo, Event, Item, Op, Ref};
use mmulab_addr::{Access, BASE_BYTES, Pid, Tid, VirtAddr};
use rustc_hash::FxHashMap;
use std::{
    collections::BTreeSet,
    io::{self, Write},
    sync::Arc,
};

/// Accesses written together after a fetch. A fetch is followed by few; more are written without it.
const AFTER_FETCH: usize = 48;
/// Accesses written together without a fetch: all patterns of loads and stores of this length fit a small dictionary.
const ALONE: usize = 4;
/// zstd's level when converting: half again as slow as level 1, 15% smaller.
const LEVEL: i32 = 3;

/// Writes a native trace from references of any origin: generators, other tools' traces, slices.
///
/// Reading it back yields the same words in the same order. If the source has code, executions are those of its blocks.
/// Otherwise blocks are unknown, so a fetch and the accesses up to the next one are taken as one.
pub struct NativeWriter<W: Write> {
    out: W,
    written: u64,
    entries: Vec<IndexEntry>,
    encoder: Encoder,
    known: FxHashMap<Variant, VariantId>,
    group: Variant,
    addresses: Vec<u64>,
    /// Code met so far, by its identity and where it began.
    coded: FxHashMap<(u64, u64), Coded>,
    /// The code that the words gathered execute, and these.
    code: Option<Arc<Code>>,
    words: Vec<Ref>,
    buffer: Vec<u8>,
    /// Instructions retired by words that say nothing else.
    retired: u64,
    pids: BTreeSet<u32>,
    tids: BTreeSet<u32>,
    pid: Pid,
}

impl<W: Write> NativeWriter<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(mut out: W, description: &Description) -> io::Result<Self> {
        let head = description.to_bytes();
        out.write_all(&head)?;
        let (pid, tid) = (Pid(1), Tid(1));
        Ok(Self {
            out,
            written: head.len() as u64,
            entries: Vec::new(),
            encoder: Encoder::new(0, pid, tid, LEVEL)?,
            known: FxHashMap::default(),
            group: Variant::default(),
            addresses: Vec::new(),
            coded: FxHashMap::default(),
            code: None,
            words: Vec::new(),
            buffer: Vec::new(),
            retired: 0,
            pids: BTreeSet::from([pid.0]),
            tids: BTreeSet::from([tid.0]),
            pid,
        })
    }

    /// Appends all of a batch.
    ///
    /// # Errors
    /// The writer's.
    pub fn push_batch(&mut self, batch: &Batch) -> io::Result<()> {
        for word in &batch.refs {
            match word.item() {
                Item::Event(i) => {
                    if let Some(event) = batch.events.get(i) {
                        self.push_event(event)?;
                    }
                }
                Item::Code(i) => {
                    self.flush()?;
                    self.code = batch.code.get(i).cloned();
                }
                _ if self.code.is_some() => self.words.push(*word),
                _ => self.push_plain(*word)?,
            }
        }
        Ok(())
    }

    /// Appends one reference or count of instructions (events: [`NativeWriter::push_event`]).
    ///
    /// # Errors
    /// The writer's.
    pub fn push(&mut self, word: Ref) -> io::Result<()> {
        self.flush_code()?;
        self.push_plain(word)
    }

    fn push_plain(&mut self, word: Ref) -> io::Result<()> {
        match word.item() {
            Item::Access(Access::Fetch, va, instructions) => {
                self.flush_plain()?;
                self.group.start = Some(va);
                self.group.instructions = instructions;
            }
            Item::Access(access, va, _) => {
                let most = if self.group.start.is_some() { AFTER_FETCH } else { ALONE };
                if self.group.ops.len() == most {
                    self.flush_plain()?;
                }
                self.group.ops.push(Op { instruction: 0, store: access == Access::Write, size_shift: 0 });
                self.addresses.push(va.raw());
            }
            Item::Retire(count) => {
                self.retired = self.retired.saturating_add(count);
                if self.retired > MAX_INSTRUCTIONS {
                    let what = format!("{} instructions retire; a trace has at most {MAX_INSTRUCTIONS}", self.retired);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
                let long = u64::from(self.group.instructions) + count;
                // A block longer than a word can say is told by its fetch and this count.
                if self.group.instructions == Ref::MAX_BLOCK
                    && self.group.ops.is_empty()
                    && count > 0
                    && long < u64::from(u16::MAX)
                {
                    self.group.instructions = long as u32;
                } else {
                    self.flush_plain()?;
                    self.encoder.retire(count);
                    self.close_if_full()?;
                }
            }
            Item::Event(_) | Item::Code(_) => {}
        }
        Ok(())
    }

    /// Appends an event.
    ///
    /// # Errors
    /// The writer's.
    pub fn push_event(&mut self, event: &Event) -> io::Result<()> {
        self.flush()?;
        match *event {
            Event::Switch { pid, tid } => {
                self.pid = pid;
                self.pids.insert(pid.0);
                self.tids.insert(tid.0);
            }
            Event::Fork { child, .. } => drop(self.pids.insert(child.0)),
            Event::Clone { child } => drop(self.tids.insert(child.0)),
            _ => {}
        }
        self.encoder.event(event);
        self.close_if_full()
    }

    /// Encodes what was gathered so far.
    fn flush(&mut self) -> io::Result<()> {
        self.flush_code()?;
        self.flush_plain()
    }

    /// Encodes the execution of code whose words were gathered.
    fn flush_code(&mut self) -> io::Result<()> {
        let Some(code) = self.code.take() else { return Ok(()) };
        self.flush_plain()?;
        let words = std::mem::take(&mut self.words);
        let rest = self.execute(&code, &words)?;
        words[rest..].iter().try_for_each(|&word| self.push_plain(word))?;
        self.words = words;
        self.words.clear();
        Ok(())
    }

    /// Encodes the first of `words` as an execution of `code`: how many they are; none if they are not one.
    fn execute(&mut self, code: &Code, words: &[Ref]) -> io::Result<usize> {
        let Some(start) = words.first().filter(|word| word.is_fetch()).map(|word| word.va()) else { return Ok(0) };
        let key = (code.id(), start.raw());
        let mut coded = match self.coded.remove(&key) {
            Some(coded) => coded,
            None => Coded { id: None, fetches: variant_of(code, start).fetch_words() },
        };
        let found = addresses_of(code, &coded.fetches, words, &mut self.addresses);
        if found.is_some() {
            let id = match coded.id {
                Some(id) => id,
                None => self.id_of(&variant_of(code, start))?,
            };
            coded.id = Some(id);
            self.encoder.execute(id, self.addresses.iter().copied());
        }
        self.addresses.clear();
        if self.coded.len() >= CODED_MOST {
            self.coded.clear();
        }
        self.coded.insert(key, coded);
        self.close_if_full()?;
        Ok(found.unwrap_or(0))
    }

    /// The number of a variant, which is about to be executed.
    fn id_of(&mut self, variant: &Variant) -> io::Result<VariantId> {
        if let Some(&id) = self.known.get(variant) {
            return Ok(id);
        }
        let id = match self.encoder.define(variant) {
            Some(id) => Some(id),
            None => {
                self.close()?;
                self.encoder.start_fresh();
                self.known.clear();
                self.coded.clear();
                self.encoder.define(variant)
            }
        };
        let id = id.ok_or_else(|| io::Error::other("a dictionary cannot hold one block"))?;
        self.known.insert(variant.clone(), id);
        Ok(id)
    }

    /// Encodes the accesses gathered so far of which no code is known.
    fn flush_plain(&mut self) -> io::Result<()> {
        if self.group.start.is_none() && self.group.ops.is_empty() {
            return Ok(());
        }
        let mut group = std::mem::take(&mut self.group);
        let id = self.id_of(&group)?;
        self.encoder.execute(id, self.addresses.iter().copied());
        group.ops.clear();
        self.group = Variant { ops: group.ops, ..Variant::default() };
        self.addresses.clear();
        self.close_if_full()
    }

    fn close_if_full(&mut self) -> io::Result<()> {
        if self.encoder.is_full() { self.close() } else { Ok(()) }
    }

    fn close(&mut self) -> io::Result<()> {
        if self.encoder.is_empty() {
            return Ok(());
        }
        self.buffer.clear();
        let header = self.encoder.take_chunk(&mut self.buffer)?;
        self.out.write_all(&self.buffer)?;
        self.entries.push(IndexEntry::new(self.written, &header));
        self.written += self.buffer.len() as u64;
        Ok(())
    }

    /// The acting process.
    pub fn acting(&self) -> Pid {
        self.pid
    }

    /// Ends the trace: writes what is left, the index and the trailer. `end`'s counts of processes and threads are
    /// filled in.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(mut self, mut end: EndInfo) -> io::Result<W> {
        self.flush()?;
        self.close()?;
        end.processes = self.pids.len() as u32;
        end.threads = self.tids.len() as u32;
        write_index(&mut self.out, self.written, &self.entries, &end)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Code that was met at a start.
struct Coded {
    /// Its number in the dictionary, once it was executed.
    id: Option<VariantId>,
    /// The words of its fetches.
    fetches: Vec<Ref>,
}

/// Most of these that are remembered: more than a program has, fewer than lines of a text trace that each define code.
const CODED_MOST: usize = 1 << 20;

/// `code` at `start` as a dictionary has it.
fn variant_of(code: &Code, start: VirtAddr) -> Variant {
    let bytes = match &code.body {
        Body::Bytes(bytes) => bytes.to_vec(),
        Body::Flow(_) | Body::Unknown => Vec::new(),
    };
    Variant {
        start: Some(start),
        bytes: code.bytes,
        instructions: code.instructions,
        ops: code.ops.to_vec(),
        code: bytes,
    }
}

/// Appends the addresses of an execution of `code`, if the first of `words` are one: how many words it takes.
fn addresses_of(code: &Code, fetches: &[Ref], words: &[Ref], addresses: &mut Vec<u64>) -> Option<usize> {
    let mut at = fetches.len();
    if words.get(..at)? != fetches {
        return None;
    }
    for op in &code.ops {
        let word = words.get(at).filter(|w| !w.is_control() && !w.is_fetch() && w.is_write() == op.store)?;
        at += 1;
        addresses.push(word.va().raw());
        let left = BASE_BYTES - (word.va().raw() & (BASE_BYTES - 1));
        if 1 << op.size_shift > left {
            words.get(at).filter(|w| **w == Ref::data(word.va().add(left), op.store))?;
            at += 1;
        }
    }
    Some(at)
}
