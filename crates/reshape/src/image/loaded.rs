//! An ELF file that a process has mapped: its load address in the recording, its new load address, and the state of its
//! segments.

use super::{
    file::{Relinked, down, up},
    pages::{SegmentPages, Shows},
    spans::Span,
};
use mmulab_addr::{Prot, VirtAddr};
use mmulab_trace::{Advice, Backing, Event, MapFlags};
use std::sync::Arc;

/// A loaded file.
#[derive(Clone, Debug)]
pub struct Loaded {
    file: Arc<Relinked>,
    /// How far it was from where its headers place it.
    bias: u64,
    /// Where it is told.
    base: u64,
    segments: Vec<SegmentPages>,
}

/// The pages of `len` bytes from `addr` on: the first one's address and the last one's end.
pub fn page_range(addr: VirtAddr, len: u64) -> (u64, u64) {
    // The last page of all has no end; nothing of a program is there.
    let end = addr.raw().saturating_add(len).min(down(u64::MAX));
    (down(addr.raw()), up(end))
}

impl Loaded {
    /// `file`, recorded `bias` bytes from where its headers place it, told from `base` on.
    pub fn new(file: &Arc<Relinked>, bias: u64, base: u64) -> Self {
        let segments = file.pieces.iter().map(|&piece| SegmentPages::new(piece, &file.path, bias, base)).collect();
        Self { file: Arc::clone(file), bias, base, segments }
    }

    /// The addresses it is given: from the first to the end.
    pub fn told(&self) -> (u64, u64) {
        (self.base, self.base + self.file.reach)
    }

    /// Whether a mapping of `path` at `start` from `offset` on shows a segment of it.
    pub fn shows(&self, path: &str, start: u64, offset: u64) -> bool {
        *self.file.path == *path && self.file.shown(start.wrapping_sub(self.bias), offset).is_some()
    }

    /// Tells a mapping of the file. What it covers of other segments' places is left to their own mappings. The dynamic
    /// linker maps the whole place with the first segment, and the others over it.
    pub fn map_file(&mut self, event: &Event, out: &mut Vec<Event>) {
        let Event::Mmap { addr, len, prot, flags, backing: Backing::File { offset, .. } } = event else { return };
        let (start, end) = page_range(*addr, *len);
        if let Some(index) = self.file.shown(start.wrapping_sub(self.bias), *offset) {
            let segment = &mut self.segments[index];
            let range = segment.covered(start, end);
            segment.map(range, Shows::File, *prot, flags, out);
        }
    }

    /// Tells a mapping of no file, if it is one of zeroes that belong to a segment.
    pub fn map_zeroes(&mut self, start: u64, end: u64, prot: Prot, flags: &MapFlags, out: &mut Vec<Event>) -> bool {
        for segment in &mut self.segments {
            let (range, zeroes) = (segment.covered(start, end), segment.zero_pages());
            let whole = segment.covers(start, end);
            if whole && !range.is_empty() && zeroes.start <= range.start && range.end <= zeroes.end {
                segment.map(range, Shows::Zeroes, prot, flags, out);
                return true;
            }
        }
        false
    }

    /// The rights of what of it is recorded at `start..end` change.
    pub fn protect(&mut self, start: u64, end: u64, prot: Prot, out: &mut Vec<Event>) {
        for segment in &mut self.segments {
            let range = segment.covered(start, end);
            if !range.is_empty() {
                segment.protect(range, prot, out);
            }
        }
    }

    /// What of it is recorded at `start..end` goes; whether there was anything.
    pub fn unmap(&mut self, start: u64, end: u64, out: &mut Vec<Event>) -> bool {
        let (before, mut changed) = (out.len(), false);
        for segment in &mut self.segments {
            let range = segment.covered(start, end);
            if segment.any_mapped(range.clone()) {
                segment.unmap(range, out);
                changed = true;
            }
        }
        if changed && !self.is_mapped() {
            // All of it goes at once, as it does for the program.
            out.truncate(before);
            out.push(Event::Munmap { addr: VirtAddr::new(self.base), len: self.file.reach });
        }
        changed
    }

    /// Advice on what of it is recorded at `start..end`.
    pub fn advise(&self, start: u64, end: u64, advice: Advice, out: &mut Vec<Event>) {
        for segment in &self.segments {
            let range = segment.covered(start, end);
            if !range.is_empty() {
                segment.advise(range, advice, out);
            }
        }
    }

    /// What is recorded at `start..end`, within one segment, moves elsewhere: where it is told, if it can be told
    /// apart.
    pub fn move_out(&mut self, start: u64, end: u64, stays: bool) -> Option<VirtAddr> {
        let segment = self.segments.iter_mut().find(|s| s.covers(start, end))?;
        segment.move_out(segment.covered(start, end), stays)
    }

    /// Whether any of it is mapped.
    pub fn is_mapped(&self) -> bool {
        self.segments.iter().any(SegmentPages::is_mapped)
    }

    /// How its recorded addresses move.
    pub fn spans(&self, out: &mut Vec<Span>) {
        self.segments.iter().for_each(|segment| segment.spans(out));
    }
}
