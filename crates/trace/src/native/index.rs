use super::layout::{ChunkHeader, get32, get64, put32, put64};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// The first bytes of the index.
pub(super) const INDEX_MAGIC: [u8; 4] = *b"MMTI";
/// Magic, stored length, raw length, checksum of the stored bytes and these lengths.
pub(super) const INDEX_HEADER: usize = 24;
/// The last bytes of a whole trace.
pub(super) const TRAILER_MAGIC: [u8; 8] = *b"MMTE\r\n\x1a\n";
/// Offset of the index, checksum of it, magic.
pub(super) const TRAILER: usize = 24;
const ENTRY: usize = 40;
/// Most bytes of an index: three million chunks, or four million million instructions.
const MAX_INDEX: usize = 128 << 20;

/// What a trace says of itself at its end: JSON in the file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EndInfo {
    /// Processes in it.
    pub processes: u32,
    /// Threads in it.
    pub threads: u32,
    /// How the program ended, when that was not by itself: `signal 11`, `interrupted`.
    pub ended_early: Option<String>,
    /// What was lost, each with its reason.
    pub lost: Vec<String>,
}

/// What the index says of one chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexEntry {
    /// Where its header is in the file.
    pub offset: u64,
    /// Instructions in it.
    pub instructions: u64,
    /// References in it.
    pub references: u64,
    /// Its checksum.
    pub checksum: u64,
    /// Its space.
    pub space: u32,
    /// Its flags.
    pub flags: u32,
}

impl IndexEntry {
    /// The entry of a chunk at `offset`.
    pub fn new(offset: u64, header: &ChunkHeader) -> Self {
        Self {
            offset,
            instructions: header.instructions,
            references: header.references,
            checksum: header.checksum,
            space: header.space,
            flags: u32::from(header.flags),
        }
    }
}

/// The content's name: XXH3-128 over the chunks' checksums, in hexadecimal. Descriptions do not enter.
pub(super) fn content_hash(entries: &[IndexEntry]) -> String {
    let bytes: Vec<u8> = entries.iter().flat_map(|e| e.checksum.to_le_bytes()).collect();
    format!("{:032x}", xxh3_128(&bytes))
}

/// Appends the index and the trailer to a trace that is `offset` bytes long so far.
///
/// # Errors
/// The writer's.
pub fn write_index(out: &mut impl Write, offset: u64, entries: &[IndexEntry], end: &EndInfo) -> io::Result<()> {
    let json = serde_json::to_vec(end)?;
    let mut raw = vec![0; 4];
    put32(&mut raw, 0, json.len() as u32);
    raw.extend_from_slice(&json);
    for e in entries {
        let mut entry = [0; ENTRY];
        put64(&mut entry, 0, e.offset);
        put64(&mut entry, 8, e.instructions);
        put64(&mut entry, 16, e.references);
        put64(&mut entry, 24, e.checksum);
        put32(&mut entry, 32, e.space);
        put32(&mut entry, 36, e.flags);
        raw.extend_from_slice(&entry);
    }
    let stored = zstd::bulk::compress(&raw, 3)?;
    let mut head = [0; INDEX_HEADER];
    head[..4].copy_from_slice(&INDEX_MAGIC);
    put32(&mut head, 4, stored.len() as u32);
    put32(&mut head, 8, raw.len() as u32);
    let sum = index_checksum(&head, &stored);
    put64(&mut head, 16, sum);
    let mut tail = [0; TRAILER];
    put64(&mut tail, 0, offset);
    put64(&mut tail, 8, trailer_checksum(offset, sum));
    tail[16..].copy_from_slice(&TRAILER_MAGIC);
    out.write_all(&head)?;
    out.write_all(&stored)?;
    out.write_all(&tail)
}

fn index_checksum(head: &[u8; INDEX_HEADER], stored: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(stored, xxh3_64(&head[..16]))
}

fn trailer_checksum(offset: u64, index: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(&offset.to_le_bytes(), index)
}

/// An index read back.
#[derive(Debug)]
pub(super) struct Index {
    pub entries: Vec<IndexEntry>,
    pub end: EndInfo,
}

/// Whether the trailer belongs to the index at `offset` whose header is `head`.
pub(super) fn trailer_holds(tail: &[u8; TRAILER], offset: u64, head: &[u8; INDEX_HEADER]) -> bool {
    tail[16..] == TRAILER_MAGIC
        && get64(tail, 0) == offset
        && get64(tail, 8) == trailer_checksum(offset, get64(head, 16))
}

/// Length of the stored index after its header.
pub(super) fn stored_length(head: &[u8; INDEX_HEADER]) -> usize {
    get32(head, 4) as usize
}

/// Reads the index whose header is `head`.
pub(super) fn parse(head: &[u8; INDEX_HEADER], stored: &[u8]) -> Result<Index, String> {
    if index_checksum(head, stored) != get64(head, 16) {
        return Err("the index's checksum does not hold".into());
    }
    let length = get32(head, 8) as usize;
    if length > MAX_INDEX {
        return Err(format!("the index says it has {length} bytes; {MAX_INDEX} are the most"));
    }
    let raw = zstd::bulk::decompress(stored, length).map_err(|e| format!("the index: {e}"))?;
    let (count, rest) = raw.split_at_checked(4).ok_or("the index is empty")?;
    let (json, rest) =
        rest.split_at_checked(get32(count, 0) as usize).ok_or("the index is shorter than its description")?;
    let end = serde_json::from_slice(json).map_err(|e| format!("the index's description: {e}"))?;
    let entries = rest
        .chunks_exact(ENTRY)
        .map(|e| IndexEntry {
            offset: get64(e, 0),
            instructions: get64(e, 8),
            references: get64(e, 16),
            checksum: get64(e, 24),
            space: get32(e, 32),
            flags: get32(e, 36),
        })
        .collect();
    Ok(Index { entries, end })
}
