//! Fixed layouts of the native trace format: the file header with its JSON description, and the header of each
//! chunk. Writers and readers share these offsets. Numbers are little-endian.
//!
//! ```text
//! file   0 magic  8 version  12 length  16 checksum  24 description (JSON)
//! chunk  0 magic  4 flags  8 space  12 pid  16 tid  20 codes  24 instructions  32 references  44 events
//!        48 stored and raw length of each of 6 streams  96 checksum  104 the streams
//! ```

use crate::Description;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The first bytes of a native trace. Like PNG's, they do not survive a transfer as text.
pub const MAGIC: [u8; 8] = *b"\x89MMT\r\n\x1a\n";
/// The version written.
pub(super) const VERSION: u32 = 2;
/// The oldest version read: definitions have no code in it.
pub(super) const OLDEST: u32 = 1;
/// Magic, version, length of the description, checksum.
pub(super) const FILE_HEADER: usize = 24;
/// The first bytes of a chunk of references.
pub(super) const CHUNK_MAGIC: [u8; 4] = *b"MMTC";
/// Bytes of a chunk's header.
pub(super) const CHUNK_HEADER: usize = 104;
/// Bytes a description may take: a long command line fits.
pub(super) const MAX_DESCRIPTION: usize = 4 << 20;
/// Bytes a stream may take once decompressed. Chunks are closed far below it; it bounds what a hostile file allocates.
pub(super) const MAX_STREAM: usize = 8 << 20;

/// Most instructions of a trace, in whatever it counts them: four days of a core that retires 3,000 million in a
/// second. Sums of as many traces as a mix can have then fit 64 bits.
pub(crate) const MAX_INSTRUCTIONS: u64 = 1 << 50;

/// The streams of a chunk, in the order they are stored.
pub(super) mod stream {
    /// Definitions of the variants first executed in this chunk.
    pub const DICTIONARY: usize = 0;
    /// Events and loose instruction counts.
    pub const EVENTS: usize = 1;
    /// One byte per execution or event.
    pub const CODES: usize = 2;
    /// Variants that no prediction named, 3 bytes each.
    pub const IDS: usize = 3;
    /// One byte per access: the form of its address.
    pub const FORMS: usize = 4;
    /// Address differences.
    pub const DELTAS: usize = 5;
    /// How many there are.
    pub const COUNT: usize = 6;
}

impl Description {
    /// The file header: magic, version, length, checksum and the description itself.
    pub fn to_bytes(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).expect("strings and flags always serialise");
        let mut out = Vec::with_capacity(FILE_HEADER + json.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(json.len() as u32).to_le_bytes());
        let seed = xxh3_64(&out);
        out.extend_from_slice(&xxh3_64_with_seed(&json, seed).to_le_bytes());
        out.extend_from_slice(&json);
        out
    }
}

/// A chunk's header. Offsets and lengths are in bytes, numbers little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChunkHeader {
    /// Bit 0: predictions start anew. Bit 1: the dictionary, too.
    pub flags: u8,
    /// Whose dictionary and predictions it uses.
    pub space: u32,
    /// The process that acts at its start.
    pub pid: u32,
    /// The thread that acts at its start.
    pub tid: u32,
    /// Executions and events in it.
    pub codes: u32,
    /// Instructions retired in it.
    pub instructions: u64,
    /// References in it.
    pub references: u64,
    /// Events in it.
    pub events: u32,
    /// Stored and decompressed length of each stream.
    pub(super) lengths: [(u32, u32); stream::COUNT],
    /// Checksum of the payload and the other fields.
    pub checksum: u64,
}

/// Predictions start anew at this chunk: reading may begin here.
pub(super) const FLAG_KEY: u8 = 1;
/// The dictionary starts anew at this chunk.
pub(super) const FLAG_FRESH: u8 = 2;

impl ChunkHeader {
    /// Bytes of a header in the file.
    pub const BYTES: usize = CHUNK_HEADER;

    /// Bytes stored after the header.
    pub fn payload(&self) -> u64 {
        self.lengths.iter().map(|&(stored, _)| u64::from(stored)).sum()
    }

    /// Writes it, with the checksum of `payload`.
    pub(super) fn seal(&mut self, payload: &[u8]) -> [u8; CHUNK_HEADER] {
        let mut out = [0; CHUNK_HEADER];
        out[..4].copy_from_slice(&CHUNK_MAGIC);
        out[4] = self.flags;
        put32(&mut out, 8, self.space);
        put32(&mut out, 12, self.pid);
        put32(&mut out, 16, self.tid);
        put32(&mut out, 20, self.codes);
        put64(&mut out, 24, self.instructions);
        put64(&mut out, 32, self.references);
        put32(&mut out, 44, self.events);
        for (i, &(stored, raw)) in self.lengths.iter().enumerate() {
            put32(&mut out, 48 + 8 * i, stored);
            put32(&mut out, 52 + 8 * i, raw);
        }
        self.checksum = checksum(&out, payload);
        put64(&mut out, 96, self.checksum);
        out
    }

    /// Reads one.
    ///
    /// # Errors
    /// The fault, if it cannot be a chunk's header.
    pub fn parse(bytes: &[u8; CHUNK_HEADER]) -> Result<Self, String> {
        if bytes[..4] != CHUNK_MAGIC {
            return Err(format!("a chunk begins with {:02x?}, not with 'MMTC'", &bytes[..4]));
        }
        let mut lengths = [(0, 0); stream::COUNT];
        for (i, length) in lengths.iter_mut().enumerate() {
            *length = (get32(bytes, 48 + 8 * i), get32(bytes, 52 + 8 * i));
            if length.0 as usize > 2 * MAX_STREAM || length.1 as usize > MAX_STREAM {
                return Err(format!("stream {i} of a chunk says it has {} bytes; {MAX_STREAM} are the most", length.1));
            }
        }
        Ok(Self {
            flags: bytes[4],
            space: get32(bytes, 8),
            pid: get32(bytes, 12),
            tid: get32(bytes, 16),
            codes: get32(bytes, 20),
            instructions: get64(bytes, 24),
            references: get64(bytes, 32),
            events: get32(bytes, 44),
            lengths,
            checksum: get64(bytes, 96),
        })
    }

    /// The checksum that a header of these bytes has before `payload`: for tests of readers.
    #[doc(hidden)]
    pub fn resealed(header: &[u8; CHUNK_HEADER], payload: &[u8]) -> u64 {
        checksum(header, payload)
    }

    /// Whether reading may begin here.
    pub fn is_key(&self) -> bool {
        self.flags & FLAG_KEY != 0
    }
}

/// The checksum of a chunk: XXH3-64 of its payload, seeded with that of its header before the checksum.
pub(super) fn checksum(header: &[u8; CHUNK_HEADER], payload: &[u8]) -> u64 {
    xxh3_64_with_seed(payload, xxh3_64(&header[..96]))
}

pub(super) fn put32(out: &mut [u8], at: usize, value: u32) {
    out[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(super) fn put64(out: &mut [u8], at: usize, value: u64) {
    out[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The number at `at`, which the caller knows to be inside.
pub(super) fn get32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// The number at `at`, which the caller knows to be inside.
pub(super) fn get64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
