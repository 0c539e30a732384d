use super::{
    dictionary::{Op, Variant},
    encode::{Encoder, VariantId},
    index::{EndInfo, IndexEntry, write_index},
    layout::Description,
};
use crate::{Batch, Event, Item, Ref};
use mmulab_addr::{Access, Pid, Tid};
use rustc_hash::FxHashMap;
use std::{
    collections::BTreeSet,
    io::{self, Write},
};

/// Accesses told together after a fetch. A fetch is followed by few; more are told without it.
const AFTER_FETCH: usize = 48;
/// Accesses told together without a fetch: all patterns of loads and stores of this length fit a small dictionary.
const ALONE: usize = 4;
/// zstd's level when converting: half again as slow as level 1, 15% smaller.
const LEVEL: i32 = 3;

/// Writes a native trace from references of any origin: generators, other tools' traces, slices.
///
/// Reading it back yields the same words in the same order. Nothing is known of blocks here, so a fetch and the
/// accesses up to the next one are taken as one.
pub struct NativeWriter<W: Write> {
    out: W,
    written: u64,
    entries: Vec<IndexEntry>,
    encoder: Encoder,
    known: FxHashMap<Variant, VariantId>,
    group: Variant,
    addresses: Vec<u64>,
    buffer: Vec<u8>,
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
            buffer: Vec::new(),
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
                _ => self.push(*word)?,
            }
        }
        Ok(())
    }

    /// Appends one reference or count of instructions (events: [`NativeWriter::push_event`]).
    ///
    /// # Errors
    /// The writer's.
    pub fn push(&mut self, word: Ref) -> io::Result<()> {
        match word.item() {
            Item::Access(Access::Fetch, va, instructions) => {
                self.flush()?;
                self.group.start = Some(va);
                self.group.instructions = instructions;
            }
            Item::Access(access, va, _) => {
                let most = if self.group.start.is_some() { AFTER_FETCH } else { ALONE };
                if self.group.ops.len() == most {
                    self.flush()?;
                }
                self.group.ops.push(Op { instruction: 0, store: access == Access::Write, size_shift: 0 });
                self.addresses.push(va.raw());
            }
            Item::Retire(count) => {
                let long = u64::from(self.group.instructions) + count;
                // A block longer than a word can say is told by its fetch and this count.
                if self.group.instructions == Ref::MAX_BLOCK
                    && self.group.ops.is_empty()
                    && count > 0
                    && long < u64::from(u16::MAX)
                {
                    self.group.instructions = long as u32;
                } else {
                    self.flush()?;
                    self.encoder.retire(count);
                    self.close_if_full()?;
                }
            }
            Item::Event(_) => {}
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

    /// Encodes the accesses gathered so far.
    fn flush(&mut self) -> io::Result<()> {
        if self.group.start.is_none() && self.group.ops.is_empty() {
            return Ok(());
        }
        let id = match self.known.get(&self.group) {
            Some(&id) => id,
            None => {
                let id = match self.encoder.define(&self.group) {
                    Some(id) => Some(id),
                    None => {
                        self.close()?;
                        self.encoder.start_fresh();
                        self.known.clear();
                        self.encoder.define(&self.group)
                    }
                };
                let id = id.ok_or_else(|| io::Error::other("a dictionary cannot hold one block"))?;
                self.known.insert(self.group.clone(), id);
                id
            }
        };
        self.encoder.execute(id, self.addresses.iter().copied());
        self.group.start = None;
        self.group.instructions = 0;
        self.group.ops.clear();
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

    /// Who acts.
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
