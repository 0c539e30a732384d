//! One ELF file before and after: each segment's recorded place, and the place that the modelled linker gives it.

use mmulab_addr::{BASE_BYTES, Prot};
use mmulab_elf::{Linker, Part, PlacedSegment, Segment, layout};
use mmulab_trace::{Event, ImageSegment};
use serde::Serialize;
use std::{fmt, sync::Arc};

/// More than any file's segments reach: half of what 48-bit addresses leave to programs.
const REACH_MAX: u64 = 1 << 46;
/// More loadable segments than linkers make.
const SEGMENTS_MAX: usize = 64;

/// The start of the page that holds `address`.
pub fn down(address: u64) -> u64 {
    address & !(BASE_BYTES - 1)
}

/// The end of the last page that holds bytes before `address`.
pub fn up(address: u64) -> u64 {
    address.next_multiple_of(BASE_BYTES)
}

/// A segment where it was and where it would be. Addresses are those of the file: before it is moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// As the recorded file has it.
    pub old: ImageSegment,
    /// As the linker would have placed it, the first segment at address 0.
    pub new: Segment,
    /// Bytes behind it in its last page that move with it: programs use what is left of the page in which their data
    /// ends.
    pub tail: u64,
}

impl Piece {
    /// The pages it had, from the first one's address to the last one's end.
    pub fn old_pages(&self) -> (u64, u64) {
        (down(self.old.address), up(self.old.address + self.old.bytes))
    }

    /// The pages it would have.
    pub fn new_pages(&self) -> (u64, u64) {
        (down(self.new.address), up(self.new.address + self.new.bytes + self.tail))
    }
}

/// An ELF file linked anew.
#[derive(Debug)]
pub struct Relinked {
    /// Its path, as mappings name it.
    pub path: Arc<str>,
    /// Its segments, lowest address first.
    pub pieces: Vec<Piece>,
    /// From its first byte to the end of its last page, linked anew.
    pub reach: u64,
    /// The same as it was.
    pub old_reach: u64,
    /// Whether it is linked as it was.
    pub same: bool,
}

/// Why a file cannot be linked anew; it stays as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unfit {
    /// The recording does not hold its program headers.
    NoHeaders,
    /// No segment of it holds code.
    NoCode,
    /// Its first segment is not its beginning.
    Beginning,
    /// Two of its segments share a page, or their addresses are misaligned with the file.
    Overlapping,
    /// Its code was mapped otherwise than its headers say.
    Apart,
    /// Its headers contradict themselves.
    Damaged,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoHeaders => "its program headers are not in the recording",
            Self::NoCode => "it holds no code",
            Self::Beginning => "its first segment is not its beginning",
            Self::Overlapping => "its segments share pages or are misaligned with the file",
            Self::Apart => "its code was mapped otherwise than its program headers say",
            Self::Damaged => "its program headers contradict themselves",
        })
    }
}

impl Relinked {
    /// The file at `path`, whose program headers are `segments`, as `linker` would have linked it.
    pub fn new(path: &Arc<str>, segments: &[ImageSegment], linker: Linker, max_page_size: u64) -> Result<Self, Unfit> {
        let mut old: Vec<ImageSegment> = segments.iter().copied().filter(|s| s.bytes > 0).collect();
        old.sort_by_key(|s| s.address);
        check(&old)?;
        let parts: Vec<Part> = old.iter().map(|s| Part::from(&Segment::from(s))).collect();
        let placed = layout(&parts, linker, max_page_size).map_err(|_| Unfit::Damaged)?;
        let first = down(old[0].address);
        let same = old.iter().zip(&placed).all(|(old, PlacedSegment { segment: new, .. })| {
            old.address - first == new.address && old.offset == new.offset
        });
        let last = old.len() - 1;
        let pieces: Vec<Piece> = old
            .iter()
            .zip(&placed)
            .enumerate()
            .map(|(index, (&old, placed))| {
                let end = old.address + old.bytes;
                let tail = if index == last { up(end) - end } else { 0 };
                Piece { old, new: placed.segment, tail }
            })
            .collect();
        let reach = pieces[last].new_pages().1;
        let old_reach = pieces[last].old_pages().1 - first;
        if reach > REACH_MAX {
            return Err(Unfit::Damaged);
        }
        Ok(Self { path: Arc::clone(path), pieces, reach, old_reach, same })
    }

    /// What a trace tells of it before it is mapped.
    pub fn told(&self) -> Event {
        let segment = |p: &Piece| ImageSegment {
            address: p.new.address,
            offset: p.new.offset,
            align: if self.same { p.old.align } else { p.new.align },
            ..p.old
        };
        Event::Image { path: Arc::clone(&self.path), segments: self.pieces.iter().map(segment).collect() }
    }

    /// The segment that a mapping shows which begins at `address` (before the file is moved) with the file's `offset`.
    pub fn shown(&self, address: u64, offset: u64) -> Option<usize> {
        let shows = |p: &Piece| {
            let (start, end) = p.old_pages();
            (start..end).contains(&address) && address.wrapping_sub(p.old.address) == offset.wrapping_sub(p.old.offset)
        };
        self.pieces.iter().position(shows)
    }
}

fn check(segments: &[ImageSegment]) -> Result<(), Unfit> {
    if segments.len() > SEGMENTS_MAX {
        return Err(Unfit::Damaged);
    }
    let whole = |s: &ImageSegment| {
        s.file_bytes <= s.bytes
            && s.address.checked_add(s.bytes).is_some_and(|end| end <= REACH_MAX)
            && s.offset.checked_add(s.file_bytes).is_some_and(|end| end <= REACH_MAX)
    };
    if !segments.iter().all(whole) {
        return Err(Unfit::Damaged);
    }
    if !segments.iter().any(|s| s.prot.has(Prot::X)) {
        return Err(Unfit::NoCode);
    }
    if segments[0].offset != 0 || !segments[0].address.is_multiple_of(BASE_BYTES) {
        return Err(Unfit::Beginning);
    }
    let in_step = |s: &ImageSegment| s.file_bytes == 0 || s.address % BASE_BYTES == s.offset % BASE_BYTES;
    let apart = |pair: &[ImageSegment]| up(pair[0].address + pair[0].bytes) <= down(pair[1].address);
    if segments.iter().all(in_step) && segments.windows(2).all(apart) { Ok(()) } else { Err(Unfit::Overlapping) }
}
