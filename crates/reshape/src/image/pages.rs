//! The pages of a mapped segment, as recorded and as laid out anew. A loader's mmap, mprotect and munmap calls are
//! followed page by page, for a new layout has other pages.

use super::{
    file::{Piece, down, up},
    spans::{Kind, Span},
};
use mmulab_addr::{BASE_BYTES, Prot, VirtAddr};
use mmulab_trace::{Advice, Backing, Event, MapFlags};
use std::{ops::Range, sync::Arc};

/// A page that is mapped has this bit, and its rights in the low ones.
const MAPPED: u8 = 8;
/// A page of zeroes that was mapped together with the file's part, before the recorded program did so.
const EARLY: u8 = 16;

/// A segment of a mapped file: the state of its pages as they were recorded, and as they are told.
#[derive(Clone, Debug)]
pub struct SegmentPages {
    piece: Piece,
    path: Arc<str>,
    /// The recorded address of its first page.
    old_start: u64,
    old: Vec<u8>,
    /// The address its first page is told at.
    new_start: u64,
    new: Vec<u8>,
    /// What is added to recorded addresses.
    delta: u64,
}

/// What is told of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Keep,
    Map(Prot, bool),
    Protect(Prot),
    Unmap,
}

/// What a recorded mapping of some of its pages shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shows {
    /// The file.
    File,
    /// Zeroes.
    Zeroes,
}

fn pages(bytes: u64) -> usize {
    (bytes / BASE_BYTES) as usize
}

impl SegmentPages {
    /// A segment of the file at `path`, recorded `bias` bytes from where the file has it, told `base` bytes from there.
    pub fn new(piece: Piece, path: &Arc<str>, bias: u64, base: u64) -> Self {
        let ((old_start, old_end), (new_start, new_end)) = (piece.old_pages(), piece.new_pages());
        let delta = base.wrapping_add(piece.new.address).wrapping_sub(bias.wrapping_add(piece.old.address));
        Self {
            piece,
            path: Arc::clone(path),
            old_start: bias.wrapping_add(old_start),
            old: vec![0; pages(old_end - old_start)],
            new_start: base.wrapping_add(new_start),
            new: vec![0; pages(new_end - new_start)],
            delta,
        }
    }

    /// Its recorded pages that `start..end` holds.
    pub fn covered(&self, start: u64, end: u64) -> Range<usize> {
        let own_end = self.old_start + self.old.len() as u64 * BASE_BYTES;
        let (start, end) = (down(start).max(self.old_start), up(end).min(own_end));
        if start < end { pages(start - self.old_start)..pages(end - self.old_start) } else { 0..0 }
    }

    /// Its recorded pages that hold nothing of the file.
    pub fn zero_pages(&self) -> Range<usize> {
        let p = self.piece.old;
        let first = if p.file_bytes == 0 { 0 } else { pages(up(p.address + p.file_bytes) - down(p.address)) };
        first..self.old.len()
    }

    /// How many pages from the first hold something of the file, as it is told.
    fn file_pages(&self) -> usize {
        let p = self.piece.new;
        if p.file_bytes == 0 { 0 } else { pages(up(p.address + p.file_bytes) - down(p.address)) }
    }

    /// Whether `start..end` lies in its recorded pages.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        self.old_start <= start && end <= self.old_start + self.old.len() as u64 * BASE_BYTES
    }

    /// Whether any of it is mapped.
    pub fn is_mapped(&self) -> bool {
        self.any_mapped(0..self.old.len())
    }

    /// Whether any of recorded `range` is mapped.
    pub fn any_mapped(&self, range: Range<usize>) -> bool {
        self.old[range].iter().any(|&state| state & MAPPED != 0)
    }

    /// The recorded pages whose bytes the page `page` holds as it is told.
    fn holds(&self, page: usize) -> Range<usize> {
        // In bytes from the first recorded page on.
        let shift = self.new_start.wrapping_sub(self.delta).wrapping_sub(self.old_start) as i64;
        let at = shift + page as i64 * BASE_BYTES as i64;
        let first = (self.piece.old.address % BASE_BYTES) as i64;
        let end = first + (self.piece.old.bytes + self.piece.tail) as i64;
        let (from, to) = (at.max(first), (at + BASE_BYTES as i64).min(end));
        (from / BASE_BYTES as i64) as usize..((to - 1) / BASE_BYTES as i64) as usize + 1
    }

    /// The pages, as they are told, that hold bytes of recorded `pages`.
    fn touched_by(&self, pages: &Range<usize>) -> Range<usize> {
        let touches = |page: &usize| {
            let holds = self.holds(*page);
            holds.start < pages.end && pages.start < holds.end
        };
        // Pages move by less than two within a segment: only neighbours need a look.
        let from = pages.start.saturating_sub(2).min(self.new.len());
        let to = (pages.end + 2).min(self.new.len());
        let first = (from..to).find(touches).unwrap_or(to);
        let last = (from..to).rev().find(touches).map_or(first, |page| page + 1);
        first..last
    }

    /// The rights page `page` must have: those of all that it holds.
    fn wanted(&self, page: usize) -> Option<Prot> {
        let mapped = self.old[self.holds(page)].iter().filter(|&&state| state & MAPPED != 0);
        mapped.map(|&state| Prot::from_bits(state)).reduce(Prot::with)
    }

    /// Recorded `range` is mapped.
    pub fn map(&mut self, range: Range<usize>, shows: Shows, prot: Prot, flags: &MapFlags, out: &mut Vec<Event>) {
        self.old[range.clone()].fill(MAPPED | prot.bits());
        let file_pages = self.file_pages();
        let affected = self.touched_by(&range);
        let mut acts: Vec<Act> = affected.clone().map(|page| self.map_one(page, &range, shows, file_pages)).collect();
        let file_end = self.zero_pages().start;
        if shows == Shows::File && range.end >= file_end {
            // Zeroes behind the file's part become one mapping, as a loader makes them.
            let rest = affected.end.max(file_pages)..self.new.len();
            let unmapped = rest.clone().all(|page| self.new[page] == 0);
            if unmapped && rest.start == affected.end {
                self.new[rest.clone()].fill(MAPPED | EARLY | prot.bits());
                acts.extend(rest.map(|_| Act::Map(prot, false)));
            }
        }
        self.tell(affected.start, &acts, flags, out);
    }

    fn map_one(&mut self, page: usize, range: &Range<usize>, shows: Shows, file_pages: usize) -> Act {
        let Some(prot) = self.wanted(page) else { return Act::Keep };
        let state = self.new[page];
        let others = self.holds(page).any(|old| !range.contains(&old) && self.old[old] & MAPPED != 0);
        self.new[page] = MAPPED | prot.bits();
        if state & EARLY == 0 && (state & MAPPED == 0 || !others) {
            return Act::Map(prot, shows == Shows::File && page < file_pages);
        }
        if Prot::from_bits(state) == prot { Act::Keep } else { Act::Protect(prot) }
    }

    /// The rights of recorded `range` change.
    pub fn protect(&mut self, range: Range<usize>, prot: Prot, out: &mut Vec<Event>) {
        for state in &mut self.old[range.clone()] {
            if *state & MAPPED != 0 {
                *state = MAPPED | prot.bits();
            }
        }
        self.apply_wanted(&range, out);
    }

    /// Recorded `range` is unmapped, or becomes another mapping's.
    pub fn unmap(&mut self, range: Range<usize>, out: &mut Vec<Event>) {
        self.old[range.clone()].fill(0);
        self.apply_wanted(&range, out);
    }

    /// Recorded `range` is moved elsewhere, and remains here, empty, if `stays`. Where it is told, if it has pages of
    /// its own.
    pub fn move_out(&mut self, range: Range<usize>, stays: bool) -> Option<VirtAddr> {
        let first = self.touched_by(&range);
        if !self.delta.is_multiple_of(BASE_BYTES) || first.len() != range.len() {
            return None;
        }
        if !stays {
            self.old[range].fill(0);
            self.new[first.clone()].fill(0);
        }
        Some(self.told(first.start))
    }

    /// Changes the written pages to what the recorded ones need, where `range` changed without being mapped.
    fn apply_wanted(&mut self, range: &Range<usize>, out: &mut Vec<Event>) {
        let affected = self.touched_by(range);
        let mut acts = Vec::with_capacity(affected.len());
        for page in affected.clone() {
            let (state, wanted) = (self.new[page], self.wanted(page));
            acts.push(match wanted {
                None if state & MAPPED != 0 => Act::Unmap,
                Some(prot) if state & MAPPED != 0 && Prot::from_bits(state) != prot => Act::Protect(prot),
                _ => Act::Keep,
            });
            if state & MAPPED != 0 {
                self.new[page] = wanted.map_or(0, |prot| state & !7 | prot.bits());
            }
        }
        self.tell(affected.start, &acts, &MapFlags::default(), out);
    }

    /// Advice on recorded `range`.
    pub fn advise(&self, range: Range<usize>, advice: Advice, out: &mut Vec<Event>) {
        // What drops contents must not drop a neighbour's.
        let whole = matches!(advice, Advice::Dontneed | Advice::Free);
        let of = |page: &usize| {
            let holds = self.holds(*page);
            self.new[*page] & MAPPED != 0 && (!whole || range.start <= holds.start && holds.end <= range.end)
        };
        let mut affected = self.touched_by(&range).filter(of);
        if let Some(first) = affected.next() {
            let end = affected.next_back().unwrap_or(first) + 1;
            let (addr, len) = (self.told(first), (end - first) as u64 * BASE_BYTES);
            out.push(Event::Madvise { addr, len, advice });
        }
    }

    fn told(&self, page: usize) -> VirtAddr {
        VirtAddr::new(self.new_start.wrapping_add(page as u64 * BASE_BYTES))
    }

    /// Tells runs of equal acts, the first of which is on page `first`.
    fn tell(&self, first: usize, acts: &[Act], flags: &MapFlags, out: &mut Vec<Event>) {
        let mut page = first;
        for run in acts.chunk_by(|a, b| a == b) {
            let (addr, len) = (self.told(page), run.len() as u64 * BASE_BYTES);
            match run[0] {
                Act::Keep => {}
                Act::Map(prot, true) => {
                    let offset = down(self.piece.new.offset) + page as u64 * BASE_BYTES;
                    let backing = Backing::File { path: Arc::clone(&self.path), offset };
                    out.push(Event::Mmap { addr, len, prot, flags: flags.clone(), backing });
                }
                Act::Map(prot, false) => {
                    out.push(Event::Mmap { addr, len, prot, flags: flags.clone(), backing: Backing::Anon });
                }
                Act::Protect(prot) => out.push(Event::Mprotect { addr, len, prot }),
                Act::Unmap => out.push(Event::Munmap { addr, len }),
            }
            page += run.len();
        }
    }

    /// How the recorded addresses of its mapped pages move.
    pub fn spans(&self, out: &mut Vec<Span>) {
        let piece = &self.piece;
        let head = |address: u64| address % BASE_BYTES;
        let behind = |s: u64| up(s) - s;
        let address = self.old_start + head(piece.old.address);
        let end = address + piece.old.bytes;
        let (head_old, head_new) = (head(piece.old.address), head(piece.new.address));
        let room = behind(piece.new.address + piece.new.bytes + piece.tail) + piece.tail;
        let main = address - head_old.min(head_new)..end + behind(end).min(room);
        let parts = [
            (self.old_start..main.start, self.delta.wrapping_add(BASE_BYTES), Kind::Beside),
            (main.clone(), self.delta, Kind::Segment),
            (main.end..up(end), self.delta.wrapping_sub(BASE_BYTES), Kind::Beside),
        ];
        let mut page = 0;
        for run in self.old.chunk_by(|a, b| (a ^ b) & MAPPED == 0) {
            let from = self.old_start + page * BASE_BYTES;
            page += run.len() as u64;
            let to = self.old_start + page * BASE_BYTES;
            if run[0] & MAPPED == 0 {
                continue;
            }
            for (part, delta, kind) in &parts {
                let (start, end) = (part.start.max(from), part.end.min(to));
                if start < end {
                    out.push(Span { start, bytes: end - start, delta: *delta, kind: *kind });
                }
            }
        }
    }
}
