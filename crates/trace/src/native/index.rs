//! The index after the chunks, and the trailer that a reader finds it by.

use super::layout::{CHUNK_HEADER, ChunkHeader, MAX_DESCRIPTION, get32, get64, put32, put64};
use crate::EndInfo;
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
const MAX_INDEX: u64 = 128 << 20;
/// Most bytes of what a trace says at its end: as many as at its start.
const MAX_END: usize = MAX_DESCRIPTION;

/// The index's entry for one chunk.
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

impl IndexEntry {
    /// Whether this is what the header of the chunk at `at` says.
    pub(super) fn check(&self, at: u64, header: &ChunkHeader) -> Result<(), String> {
        let own = Self::new(at, header);
        if *self == own {
            return Ok(());
        }
        let Self { offset, instructions, references, .. } = *self;
        if (offset, instructions, references) == (own.offset, own.instructions, own.references) {
            return Err("the index has another checksum, space or flags of this chunk than its header".into());
        }
        Err(format!(
            "the index says that this chunk is at byte {offset}, with {instructions} instructions and {references} \
             references; it is at byte {at}, and its header says {} and {}",
            own.instructions, own.references
        ))
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
    let json = end_json(end)?;
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
    if raw.len() as u64 > MAX_INDEX {
        return Err(io::Error::other(format!(
            "its index of {} chunks takes {} bytes; readers allow {MAX_INDEX}",
            entries.len(),
            raw.len()
        )));
    }
    let stored = zstd::bulk::compress(&raw, 3)?;
    out.write_all(&sealed_index(offset, &stored, raw.len() as u32))
}

/// The index at `offset` that is stored in these bytes, whatever they are, and its trailer, under checksums that hold.
#[doc(hidden)]
pub fn sealed_index(offset: u64, stored: &[u8], length: u32) -> Vec<u8> {
    let mut head = [0; INDEX_HEADER];
    head[..4].copy_from_slice(&INDEX_MAGIC);
    put32(&mut head, 4, stored.len() as u32);
    put32(&mut head, 8, length);
    let sum = index_checksum(&head, stored);
    put64(&mut head, 16, sum);
    let mut tail = [0; TRAILER];
    put64(&mut tail, 0, offset);
    put64(&mut tail, 8, trailer_checksum(offset, sum));
    tail[16..].copy_from_slice(&TRAILER_MAGIC);
    [&head[..], stored, &tail].concat()
}

/// Metadata at the end of a trace, in as many bytes as readers take.
fn end_json(end: &EndInfo) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(end)?;
    if json.len() <= MAX_END {
        return Ok(json);
    }
    // The first losses matter most; a text of several megabytes matters to nobody.
    let (mut bytes, mut lost) = (0, Vec::new());
    for what in &end.lost {
        bytes += serde_json::to_vec(what)?.len() + 1;
        if bytes > MAX_END / 2 {
            break;
        }
        lost.push(what.clone());
    }
    lost.push(format!("{} more losses, which an index has no room for", end.lost.len() - lost.len()));
    let ended_early = end.ended_early.as_ref().map(|why| why.chars().take(MAX_END / 64).collect());
    Ok(serde_json::to_vec(&EndInfo { ended_early, lost, ..end.clone() })?)
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

/// Why an index is not read.
#[derive(Debug)]
pub(super) enum Unread {
    /// Its checksum does not hold.
    Damaged,
    /// Its checksum holds, and it says this, which cannot be.
    Nonsense(String),
}

/// Whether these bytes are a trailer, by their magic number.
pub(super) fn is_trailer(tail: &[u8; TRAILER]) -> bool {
    tail[16..] == TRAILER_MAGIC
}

/// Where the index begins, as the trailer says.
pub(super) fn index_of(tail: &[u8; TRAILER]) -> u64 {
    get64(tail, 0)
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

/// Reads the index whose header is `head`, of chunks in the bytes from `first` up to `last`.
pub(super) fn parse(head: &[u8; INDEX_HEADER], stored: &[u8], first: u64, last: u64) -> Result<Index, Unread> {
    if index_checksum(head, stored) != get64(head, 16) {
        return Err(Unread::Damaged);
    }
    parse_whole(head, stored, first, last).map_err(Unread::Nonsense)
}

/// As [`parse`], of an index whose checksum holds.
fn parse_whole(head: &[u8; INDEX_HEADER], stored: &[u8], first: u64, last: u64) -> Result<Index, String> {
    // A small file can compress much: the index may take as much as an index of all bytes of chunks needs.
    let chunks = last.saturating_sub(first) / CHUNK_HEADER as u64;
    let most = (4 + MAX_END as u64 + ENTRY as u64 * chunks).min(MAX_INDEX);
    let length = u64::from(get32(head, 8));
    if length > most {
        return Err(format!(
            "it says it has {length} bytes; before it is room for {chunks} chunks, so {most} are the most"
        ));
    }
    let raw = zstd::bulk::decompress(stored, length as usize).map_err(|e| e.to_string())?;
    let (count, rest) = raw.split_at_checked(4).ok_or("it is empty")?;
    let described = get32(count, 0) as usize;
    if described > MAX_END {
        return Err(format!("its description says it has {described} bytes; {MAX_END} are the most"));
    }
    let (json, rest) = rest.split_at_checked(described).ok_or("it is shorter than its description")?;
    let end = serde_json::from_slice(json).map_err(|e| format!("its description: {e}"))?;
    let entries: Vec<IndexEntry> = rest
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
    let mut free = first;
    for (i, entry) in entries.iter().enumerate() {
        // They follow each other without gaps, so that none can be named twice.
        if if i == 0 { entry.offset != first } else { entry.offset < free } {
            return Err(format!("it says that chunk {i} begins at byte {}, which cannot be", entry.offset));
        }
        free = entry.offset.saturating_add(CHUNK_HEADER as u64);
    }
    if free > last {
        return Err(format!("it says that its last chunk ends after byte {last}, where the chunks end"));
    }
    Ok(Index { entries, end })
}
