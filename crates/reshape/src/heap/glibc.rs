//! As glibc's malloc with one arena and without its caches of small chunks (tcache and fastbins).
//!
//! A *chunk* is an object with 16 bytes before it, in multiples of 16, 32 at least. Free chunks are joined with their
//! neighbours at once. The smallest that serves is taken, then the end of the heap, which grows as by brk. Large
//! objects are mapped by themselves. Where the heap's end is free for long enough, it shrinks. MADV_FREE is not used.

use super::{
    desc::GlibcDesc,
    runs::{Fit, Runs},
    window::Window,
};
use mmulab_addr::BASE_BYTES;
use rustc_hash::FxHashMap;

/// From a chunk's start to its object's: the sizes of the chunk before and of its own.
const HEADER: u64 = 16;
/// What a chunk has beyond its object: the next chunk's first field may hold the object's end (SIZE_SZ).
const OVERHEAD: u64 = 8;
const ALIGN: u64 = 16;
/// MINSIZE.
const LEAST: u64 = 32;
/// The threshold does not grow beyond (DEFAULT_MMAP_THRESHOLD_MAX on 64 bits).
const MOST_THRESHOLD: u64 = 32 << 20;
/// A chunk that became this large has the heap's end looked at (FASTBIN_CONSOLIDATION_THRESHOLD).
const LARGE_FREE: u64 = 64 << 10;
/// What part of the window the heap may grow to; mappings of their own are behind it.
const HEAP_SHARE: u64 = 2;

/// The allocator.
#[derive(Clone, Debug)]
pub struct Glibc {
    desc: GlibcDesc,
    threshold: u64,
    trim: u64,
    /// Bytes of chunks in use, by where they begin.
    chunks: FxHashMap<u64, u64>,
    /// Where mappings of single objects begin, and their bytes, by the object.
    mapped: FxHashMap<u64, (u64, u64)>,
    free: Runs,
    start: u64,
    /// Where the last chunk, which is free, begins.
    top: u64,
    /// Where the heap ends.
    end: u64,
    /// Addresses for mappings, free again.
    holes: Runs,
    /// Where the addresses begin that no mapping had.
    fresh: u64,
}

impl Glibc {
    pub fn new(desc: &GlibcDesc, window: &Window) -> Self {
        let start = window.start();
        Self {
            threshold: desc.mmap_threshold.0,
            trim: desc.trim_threshold.0,
            desc: desc.clone(),
            chunks: FxHashMap::default(),
            mapped: FxHashMap::default(),
            free: Runs::new(Fit::Best, ALIGN, LEAST),
            start,
            top: start,
            end: start,
            holes: Runs::new(Fit::Best, BASE_BYTES, BASE_BYTES),
            fresh: start + (window.end() - start) / HEAP_SHARE,
        }
    }

    pub fn malloc(&mut self, len: u64, align: u64, window: &mut Window) -> Option<u64> {
        let bytes = len.checked_add(OVERHEAD)?.checked_next_multiple_of(ALIGN)?.max(LEAST);
        if let Some((at, taken)) = self.free.take(bytes, align, HEADER) {
            self.chunks.insert(at, taken);
            return Some(at + HEADER);
        }
        let at = self.at_top(align);
        if at + bytes + LEAST > self.end {
            if bytes >= self.threshold {
                return self.map(bytes, align, window);
            }
            self.grow(at + bytes + LEAST, window)?;
        }
        if at > self.top {
            self.free.add(self.top, at - self.top);
        }
        self.top = at + bytes;
        self.chunks.insert(at, bytes);
        Some(at + HEADER)
    }

    /// Where a chunk at the end of the heap would begin for its object to be aligned.
    fn at_top(&self, align: u64) -> u64 {
        let at = (self.top + HEADER).next_multiple_of(align) - HEADER;
        // What is left before it is a chunk, too.
        if at > self.top && at - self.top < LEAST { at + align.max(LEAST) } else { at }
    }

    /// Has the heap reach `wanted`, and a pad beyond.
    fn grow(&mut self, wanted: u64, window: &mut Window) -> Option<()> {
        let end = wanted.checked_add(self.desc.top_pad.0)?.checked_next_multiple_of(BASE_BYTES)?;
        if end > self.start + (window.end() - self.start) / HEAP_SHARE {
            return None;
        }
        window.map(self.end, end - self.end)?;
        self.end = end;
        Some(())
    }

    /// A mapping for one object.
    fn map(&mut self, bytes: u64, align: u64, window: &mut Window) -> Option<u64> {
        let slack = if align > ALIGN { align } else { 0 };
        let all = bytes.checked_add(HEADER)?.checked_add(slack)?.checked_next_multiple_of(BASE_BYTES)?;
        let start = match self.holes.take(all, BASE_BYTES, 0) {
            Some((start, _)) => start,
            None => self.fresh,
        };
        window.map(start, all)?;
        self.fresh = self.fresh.max(start + all);
        let object = (start + HEADER).next_multiple_of(align);
        self.mapped.insert(object, (start, all));
        Some(object)
    }

    pub fn free(&mut self, object: u64, window: &mut Window) {
        if let Some((start, bytes)) = self.mapped.remove(&object) {
            window.unmap(start, bytes);
            self.holes.add(start, bytes);
            if self.desc.dynamic && bytes > self.threshold && bytes <= MOST_THRESHOLD {
                self.threshold = bytes;
                self.trim = 2 * bytes;
            }
            return;
        }
        let at = object - HEADER;
        let Some(bytes) = self.chunks.remove(&at) else { return };
        let (start, mut joined) = self.free.add(at, bytes);
        if start + joined == self.top {
            self.free.remove(start);
            self.top = start;
            joined = self.end - start;
        }
        if joined >= LARGE_FREE && self.end - self.top >= self.trim {
            self.shrink(window);
        }
    }

    /// Gives whole pages at the heap's end back, but for the pad (systrim).
    fn shrink(&mut self, window: &mut Window) {
        let spare = (self.end - self.top).saturating_sub(LEAST + 1 + self.desc.top_pad.0);
        let spare = spare / BASE_BYTES * BASE_BYTES;
        if spare > 0 {
            self.end -= spare;
            window.unmap(self.end, spare);
        }
    }
}
