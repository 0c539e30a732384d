//! As V8's heap in Node.js: objects lie in *blocks* below 2 MiB. Each is a mapping of its own that is aligned to more
//! than it has. So FreeBSD reserves 2 MiB for each block, and no block ever fills them; Linux has no place for a huge
//! page.
//!
//! Within blocks the smallest free place that serves is taken. A block without objects is unmapped. Objects too large
//! for a block have a mapping of their own. Objects are not moved, as V8's collector does.

use super::{
    desc::BlocksDesc,
    runs::{Fit, Runs},
    window::Window,
};
use rustc_hash::FxHashMap;

/// What V8 keeps of a block at its start (MemoryChunk, some 250 bytes; src/heap/memory-chunk-layout.h).
const HEADER: u64 = 256;
/// Objects lie at multiples of this.
const ALIGN: u64 = 16;

/// The allocator.
#[derive(Clone, Debug)]
pub struct Blocks {
    block: u64,
    stride: u64,
    largest: u64,
    /// Bytes of objects in blocks.
    objects: FxHashMap<u64, u64>,
    /// Mappings of single objects: where they begin, and their bytes.
    mapped: FxHashMap<u64, (u64, u64)>,
    free: Runs,
    /// Addresses between strides, free again.
    holes: Runs,
    /// Where the addresses begin that nothing had.
    fresh: u64,
}

impl Blocks {
    pub fn new(desc: &BlocksDesc) -> Self {
        Self {
            block: desc.block.0,
            stride: desc.stride.0,
            largest: desc.largest.0,
            objects: FxHashMap::default(),
            mapped: FxHashMap::default(),
            free: Runs::new(Fit::Best, ALIGN, ALIGN),
            holes: Runs::new(Fit::Best, desc.stride.0, desc.stride.0),
            fresh: desc.window.0.next_multiple_of(desc.stride.0),
        }
    }

    pub fn malloc(&mut self, len: u64, align: u64, window: &mut Window) -> Option<u64> {
        let bytes = len.max(1).checked_next_multiple_of(ALIGN)?;
        // With its alignment it must find room in an empty block.
        if bytes > self.largest || bytes.saturating_add(align) > self.block - HEADER - ALIGN {
            return self.map(bytes, align, window);
        }
        if let Some((at, taken)) = self.free.take(bytes, align, 0) {
            self.objects.insert(at, taken);
            return Some(at);
        }
        let start = self.place(self.block, window)?;
        self.free.add(start + HEADER, self.block - HEADER);
        let (at, taken) = self.free.take(bytes, align, 0)?;
        self.objects.insert(at, taken);
        Some(at)
    }

    /// Maps `bytes` at a multiple of the stride.
    fn place(&mut self, bytes: u64, window: &mut Window) -> Option<u64> {
        let room = bytes.checked_next_multiple_of(self.stride)?;
        let start = match self.holes.take(room, self.stride, 0) {
            Some((start, _)) => start,
            None => self.fresh,
        };
        window.map(start, bytes)?;
        self.fresh = self.fresh.max(start + room);
        Some(start)
    }

    /// A mapping for one object.
    fn map(&mut self, bytes: u64, align: u64, window: &mut Window) -> Option<u64> {
        let slack = if align > ALIGN { align } else { 0 };
        let all = bytes.checked_add(HEADER)?.checked_add(slack)?.checked_next_multiple_of(self.block)?;
        let start = self.place(all, window)?;
        let object = (start + HEADER).next_multiple_of(align);
        self.mapped.insert(object, (start, all));
        Some(object)
    }

    pub fn free(&mut self, object: u64, window: &mut Window) {
        let whole = match self.mapped.remove(&object) {
            Some(whole) => whole,
            None => {
                let Some(bytes) = self.objects.remove(&object) else { return };
                let (start, joined) = self.free.add(object, bytes);
                if joined < self.block - HEADER {
                    return;
                }
                self.free.remove(start);
                (start - HEADER, self.block)
            }
        };
        window.unmap(whole.0, whole.1);
        self.holes.add(whole.0, whole.1.next_multiple_of(self.stride));
    }
}
