//! Encoder of native traces: one-byte predictions stand for variant numbers and addresses where they hold, and zstd
//! compresses the streams of each chunk. Predictions restart every 32 chunks, so that reading can begin at these
//! chunks.

use super::{
    decode::Decoder,
    dictionary::{MAX_OPS, MAX_TOTAL_OPS, MAX_VARIANTS, Variant},
    layout::{ChunkHeader, FLAG_FRESH, FLAG_KEY, MAX_STREAM, stream},
    predict::{OpState, SLOTS, Thread, code, form, slot},
    varint,
};
use crate::{Batch, Event};
use mmulab_addr::{BASE_BYTES, Pid, Tid};
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

/// A chunk is closed when it holds this many executions: about 1.3 million instructions, 100 KB compressed.
const CHUNK_CODES: usize = 256 * 1024;
/// ... or this many bytes in any stream.
const CHUNK_BYTES: usize = 2 << 20;
/// Predictions start anew every this many chunks, so that reading may begin there. On a compiler run starting anew at
/// every chunk costs a third more bytes, every 32 chunks one percent.
const KEY_EVERY: u32 = 32;

/// A variant's number in an [`Encoder`]'s dictionary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VariantId(u32);

/// Data of a variant for the hot path.
#[derive(Clone, Copy)]
struct Known {
    /// Position of its first access in the list of all.
    ops: u32,
    instructions: u32,
    count: u16,
    fetches: u16,
}

/// Turns the executions of one process into chunks.
///
/// Variants are defined first, then executed; [`Encoder::is_full`] says when to take the chunk.
pub struct Encoder {
    space: u32,
    pid: u32,
    tid: u32,
    known: Vec<Known>,
    /// Log2 of the bytes of each access.
    sizes: Vec<u8>,
    /// The code that a definition at this start would be taken to have: its hash.
    code: FxHashMap<u64, u64>,
    /// Variants executed at least once.
    used: u32,
    threads: Vec<Option<Box<Thread>>>,
    chunk: Chunk,
    chunks: u32,
    compressor: zstd::bulk::Compressor<'static>,
}

/// The chunk being filled.
#[derive(Default)]
struct Chunk {
    header: ChunkHeader,
    dictionary: Vec<u8>,
    last_start: u64,
    events: Vec<u8>,
    codes: Vec<u8>,
    ids: Vec<u8>,
    forms: Vec<u8>,
    deltas: Vec<u8>,
}

impl Encoder {
    /// An encoder for process `pid`, whose thread `tid` acts first. `space` distinguishes its dictionary from all
    /// others in the file; `level` is zstd's (1 while recording, up to 19).
    ///
    /// # Errors
    /// Zstandard refuses the level.
    pub fn new(space: u32, pid: Pid, tid: Tid, level: i32) -> std::io::Result<Self> {
        let mut this = Self {
            space,
            pid: pid.0,
            tid: tid.0,
            known: vec![Known { ops: 0, count: 0, instructions: 0, fetches: 0 }],
            sizes: Vec::new(),
            code: FxHashMap::default(),
            used: 0,
            threads: (0..SLOTS).map(|_| None).collect(),
            chunk: Chunk::default(),
            chunks: 0,
            compressor: zstd::bulk::Compressor::new(level)?,
        };
        this.begin(FLAG_KEY | FLAG_FRESH);
        Ok(this)
    }

    fn begin(&mut self, flags: u8) {
        self.chunk.header =
            ChunkHeader { flags, space: self.space, pid: self.pid, tid: self.tid, ..ChunkHeader::default() };
        self.chunk.last_start = 0;
        self.threads[slot(self.tid)].get_or_insert_default().grow(self.known.len() - 1, self.sizes.len());
    }

    /// Adds a variant (at most [`MAX_OPS`] accesses) to the dictionary. Its first execution must come before that of
    /// any defined later: define, then execute. `None` when the dictionary is full: take the chunk, call
    /// [`Encoder::start_fresh`], and define again what is needed.
    pub fn define(&mut self, variant: &Variant) -> Option<VariantId> {
        let ops = self.sizes.len() + variant.ops.len();
        if self.known.len() >= MAX_VARIANTS || ops > MAX_TOTAL_OPS {
            return None;
        }
        debug_assert!(variant.ops.len() <= MAX_OPS);
        let start = variant.start.map_or(0, |start| start.raw());
        // Several variants of a block share its code, which stands with the first of them.
        let hash = xxh3_64(&variant.code);
        let with_code = !variant.code.is_empty() && self.code.insert(start, hash) != Some(hash);
        variant.put(&mut self.chunk.dictionary, &mut self.chunk.last_start, with_code);
        self.known.push(Known {
            ops: self.sizes.len() as u32,
            count: variant.ops.len() as u16,
            instructions: variant.instructions,
            fetches: variant.fetches() as u16,
        });
        self.sizes.extend(variant.ops.iter().map(|op| op.size_shift));
        self.threads[slot(self.tid)].get_or_insert_default().grow(self.known.len() - 1, self.sizes.len());
        Some(VariantId(self.known.len() as u32 - 1))
    }

    /// Empties the dictionary. Only right after [`Encoder::take_chunk`].
    pub fn start_fresh(&mut self) {
        debug_assert!(self.chunk.codes.is_empty());
        self.known.truncate(1);
        self.sizes.clear();
        self.code.clear();
        self.chunk.dictionary.clear();
        self.used = 0;
        self.threads.iter_mut().for_each(|t| *t = None);
        self.begin(FLAG_KEY | FLAG_FRESH);
    }

    /// The acting thread executes `variant`, its accesses being at `addresses` (one for each of its ops).
    #[inline]
    pub fn execute(&mut self, variant: VariantId, addresses: impl ExactSizeIterator<Item = u64>) {
        let id = variant.0;
        let known = self.known[id as usize];
        let (first, count) = (known.ops as usize, usize::from(known.count));
        let chunk = &mut self.chunk;
        chunk.header.instructions += u64::from(known.instructions);
        let mut references = u64::from(known.fetches) + u64::from(known.count);
        let Some(thread) = &mut self.threads[slot(self.tid)] else { return };
        let next = thread.next[thread.last as usize];
        chunk.codes.push(if next[0] == id {
            code::LAST
        } else if next[1] == id {
            code::EARLIER
        } else if id == self.used + 1 {
            self.used = id;
            code::NEW
        } else {
            chunk.ids.extend_from_slice(&id.to_le_bytes()[..3]);
            code::NAMED
        });
        thread.follow(id);

        debug_assert_eq!(addresses.len(), count);
        // Eight bytes are written for each difference and as many kept as it needs.
        let (forms, deltas) = (chunk.forms.len(), chunk.deltas.len());
        chunk.forms.resize(forms + count, 0);
        chunk.deltas.resize(deltas + 8 * count, 0);
        let mut at = deltas;
        let states = &mut thread.ops[first..first + count];
        let sizes = &self.sizes[first..first + count];
        let out = &mut chunk.forms[forms..];
        for (((address, state), out), &size) in addresses.zip(states).zip(out).zip(sizes) {
            let step = address.wrapping_sub(state.own);
            *out = if step == 0 {
                form::SAME
            } else if step == thread.step {
                form::LIKE_LAST
            } else if step == thread.earlier {
                form::LIKE_EARLIER
            } else if step == state.step {
                form::STRIDE
            } else {
                let own = varint::zigzag(step as i64);
                let near = varint::zigzag(address.wrapping_sub(thread.near) as i64);
                let (own_bytes, near_bytes) = (bytes_of(own), bytes_of(near));
                // Its own past is the steadier guess: the neighbour must save two bytes to be worth a different form.
                let (base, value, bytes) = if near_bytes + 2 <= own_bytes {
                    (form::NEAR, near, near_bytes)
                } else {
                    (form::OWN, own, own_bytes)
                };
                chunk.deltas[at..at + 8].copy_from_slice(&value.to_le_bytes());
                at += bytes;
                base + bytes as u8
            };
            thread.earlier = thread.step;
            thread.step = step;
            thread.near = address;
            *state = OpState { own: address, step };
            references += u64::from((address & (BASE_BYTES - 1)) + (1 << size) > BASE_BYTES);
        }
        chunk.deltas.truncate(at);
        chunk.header.references += references;
    }

    /// Something happens. A [`Event::Switch`] also changes the acting thread.
    pub fn event(&mut self, event: &Event) {
        let json = serde_json::to_vec(event).expect("an event's keys are strings");
        self.chunk.codes.push(code::EVENT);
        varint::put(&mut self.chunk.events, json.len() as u64);
        self.chunk.events.extend_from_slice(&json);
        self.chunk.header.events += 1;
        if let Event::Switch { pid, tid } = event {
            (self.pid, self.tid) = (pid.0, tid.0);
            self.threads[slot(tid.0)].get_or_insert_default().grow(self.known.len() - 1, self.sizes.len());
        }
    }

    /// `count` instructions retire that no variant counts.
    pub fn retire(&mut self, count: u64) {
        self.chunk.codes.push(code::EVENT);
        varint::put(&mut self.chunk.events, 0);
        varint::put(&mut self.chunk.events, count);
        self.chunk.header.instructions += count;
    }

    /// The process and thread that act.
    pub fn acting(&self) -> (Pid, Tid) {
        (Pid(self.pid), Tid(self.tid))
    }

    /// Whether the chunk should be taken.
    #[inline]
    pub fn is_full(&self) -> bool {
        let c = &self.chunk;
        c.codes.len() >= CHUNK_CODES
            || c.forms.len() >= CHUNK_BYTES
            || c.deltas.len() >= CHUNK_BYTES
            || c.events.len() >= CHUNK_BYTES
            || c.dictionary.len() >= CHUNK_BYTES
    }

    /// Whether the chunk holds nothing.
    pub fn is_empty(&self) -> bool {
        self.chunk.codes.is_empty()
    }

    /// Predictions that a reader holds for this process: one for each access of each variant, for each thread.
    pub fn states(&self) -> usize {
        self.threads.iter().flatten().map(|thread| thread.ops.len()).sum()
    }

    /// Instructions and references in the chunk so far.
    pub fn pending(&self) -> (u64, u64) {
        (self.chunk.header.instructions, self.chunk.header.references)
    }

    /// Appends the chunk to `out` and starts the next.
    ///
    /// # Errors
    /// Zstandard cannot compress, or a stream is longer than readers allow: [`Encoder::is_full`] was not heeded, or one
    /// event alone is as long.
    pub fn take_chunk(&mut self, out: &mut Vec<u8>) -> std::io::Result<ChunkHeader> {
        let c = &mut self.chunk;
        let lengths = [&c.dictionary, &c.events, &c.codes, &c.ids, &c.forms, &c.deltas].map(Vec::len);
        if let Some((which, length)) = lengths.iter().enumerate().find(|(_, length)| **length > MAX_STREAM) {
            return Err(std::io::Error::other(format!(
                "stream {which} of a chunk has {length} bytes; readers allow {MAX_STREAM}"
            )));
        }
        c.header.codes = c.codes.len() as u32;
        let start = out.len() + ChunkHeader::BYTES;
        out.resize(start, 0);
        let mut streams: [&mut Vec<u8>; stream::COUNT] =
            [&mut c.dictionary, &mut c.events, &mut c.codes, &mut c.ids, &mut c.forms, &mut c.deltas];
        for (bytes, length) in streams.iter_mut().zip(&mut c.header.lengths) {
            if bytes.is_empty() {
                continue;
            }
            let from = out.len();
            out.resize(from + zstd::zstd_safe::compress_bound(bytes.len()), 0);
            let stored = self.compressor.compress_to_buffer(bytes, &mut out[from..])?;
            out.truncate(from + stored);
            *length = (stored as u32, bytes.len() as u32);
            bytes.clear();
        }
        let head = c.header.seal(&out[start..]);
        out[start - ChunkHeader::BYTES..start].copy_from_slice(&head);
        let header = c.header;
        self.chunks += 1;
        let key = self.chunks.is_multiple_of(KEY_EVERY);
        if key {
            self.threads.iter_mut().flatten().for_each(|t| t.reset());
        }
        self.begin(if key { FLAG_KEY } else { 0 });
        Ok(header)
    }
}

/// A chunk of process 1 that holds these streams, whatever they are, under a checksum that holds: for tests of readers.
/// `codes` is what it says of the number of its codes. It says as many instructions and references as can be read of
/// it.
#[doc(hidden)]
pub fn sealed_chunk(codes: u32, streams: [&[u8]; stream::COUNT]) -> Vec<u8> {
    let mut header = ChunkHeader { flags: FLAG_KEY | FLAG_FRESH, pid: 1, tid: 1, codes, ..ChunkHeader::default() };
    let mut payload = Vec::new();
    for (bytes, length) in streams.iter().zip(&mut header.lengths) {
        let stored = if bytes.is_empty() { Vec::new() } else { zstd::bulk::compress(bytes, 1).unwrap_or_default() };
        *length = (stored.len() as u32, bytes.len() as u32);
        payload.extend(stored);
    }
    (header.instructions, header.references) = counted(header, &payload);
    let mut out = header.seal(&payload).to_vec();
    out.extend(payload);
    out
}

/// Counts from the streams of a chunk. For damaged streams they are higher than possible, so that the damage itself is
/// reported first.
fn counted(header: ChunkHeader, payload: &[u8]) -> (u64, u64) {
    let most = ChunkHeader { instructions: u64::MAX, references: u64::MAX, ..header };
    let (mut decoder, mut batch, mut sum) = (Decoder::default(), Batch::default(), (0u64, 0u64));
    let mut whole = decoder.open(most, payload, true).is_ok();
    while whole && decoder.is_open() {
        batch.clear();
        // Its end is an error, too, for it says more than it holds.
        whole = decoder.decode(&mut batch).is_ok();
        let (instructions, references) = batch.counts();
        sum = (sum.0.saturating_add(instructions), sum.1 + references);
    }
    if decoder.is_open() { (u64::MAX, u64::MAX) } else { sum }
}

/// Bytes that hold `value`: 1 to 8.
#[inline(always)]
const fn bytes_of(value: u64) -> usize {
    (71 - (value | 1).leading_zeros() as usize) / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CHANGELOG number 4: a writer makes nothing that readers refuse.
    #[test]
    fn a_stream_longer_than_readers_allow_is_not_written() {
        let event = |bytes: usize| Event::Lost { what: "x".repeat(bytes).into() };
        let mut encoder = Encoder::new(0, Pid(1), Tid(1), 1).unwrap();
        encoder.event(&event(MAX_STREAM - 100));
        assert!(encoder.is_full());
        let header = encoder.take_chunk(&mut Vec::new()).unwrap();
        assert!(header.lengths.iter().all(|&(_, raw)| raw as usize <= MAX_STREAM));
        encoder.event(&event(MAX_STREAM));
        let refused = encoder.take_chunk(&mut Vec::new()).unwrap_err().to_string();
        assert!(refused.contains("stream 1 of a chunk") && refused.contains("readers allow 8388608"), "{refused}");
    }
}
