//! The heaps of a trace's address spaces: which objects live, and which allocator placed each. Forks share and copy
//! heaps here.

use super::{
    HeapDesc,
    allocator::Allocator,
    mappings::Mappings,
    objects::{GRANULE, Object, Objects},
};
use mmulab_addr::{Pid, VirtAddr};
use mmulab_trace::{Batch, MALLOC_ALIGN};
use serde::Serialize;
use std::collections::BTreeMap;

/// The end of the addresses that objects can have: a user's part of 57 bits.
const USER_END: u64 = 1 << 56;

/// What became of a program's objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Objects that were given a place.
    objects: u64,
    /// Of these, objects whose end was told.
    freed: u64,
    /// Of these, objects whose end was not told before others took their addresses.
    replaced: u64,
    /// Ends of what no object is known to be at.
    unknown_frees: u64,
}

/// The heap of an address space.
#[derive(Clone)]
struct Heap {
    objects: Objects,
    allocator: Allocator,
    mappings: Mappings,
}

impl Heap {
    /// One without objects, whose time begins with its first call.
    fn new(desc: &HeapDesc) -> Self {
        Self { objects: Objects::new(), allocator: Allocator::new(desc, 0), mappings: Mappings::default() }
    }
}

/// The heaps of all processes.
pub struct Spaces {
    desc: HeapDesc,
    heaps: Vec<Heap>,
    /// Heaps that nobody has.
    spare: Vec<usize>,
    /// Which one a process has; one that borrows its maker's memory has its maker's.
    of: BTreeMap<Pid, usize>,
    acting: Pid,
    /// The acting process's.
    current: usize,
    ended: Vec<Object>,
    pub counts: Counts,
}

impl Spaces {
    pub fn new(desc: HeapDesc) -> Self {
        let acting = Pid(1);
        let mut this = Self {
            desc,
            heaps: Vec::new(),
            spare: Vec::new(),
            of: BTreeMap::new(),
            acting,
            current: 0,
            ended: Vec::new(),
            counts: Counts::default(),
        };
        this.switch(acting);
        this
    }

    /// The acting process's objects.
    #[inline(always)]
    pub fn objects(&mut self) -> &mut Objects {
        &mut self.heaps[self.current].objects
    }

    pub fn switch(&mut self, pid: Pid) {
        self.acting = pid;
        self.current = match self.of.get(&pid) {
            Some(&heap) => heap,
            None => {
                let heap = self.place(None);
                self.of.insert(pid, heap);
                heap
            }
        };
    }

    /// A place for a heap, which is a copy of `original`'s, or empty.
    fn place(&mut self, original: Option<usize>) -> usize {
        let heap = match original {
            Some(original) => self.heaps[original].clone(),
            None => Heap::new(&self.desc),
        };
        match self.spare.pop() {
            Some(place) => {
                self.heaps[place] = heap;
                place
            }
            None => {
                self.heaps.push(heap);
                self.heaps.len() - 1
            }
        }
    }

    pub fn fork(&mut self, child: Pid, shares_memory: bool) {
        let heap = if shares_memory { self.current } else { self.place(Some(self.current)) };
        if let Some(before) = self.of.insert(child, heap) {
            self.give_up(before);
        }
    }

    /// The acting process has its address space no more.
    pub fn leave(&mut self) {
        self.of.remove(&self.acting);
        self.give_up(self.current);
        self.switch(self.acting);
    }

    /// Empties `heap` if no process has it.
    fn give_up(&mut self, heap: usize) {
        if !self.of.values().any(|&other| other == heap) {
            self.heaps[heap] = Heap::new(&self.desc);
            self.spare.push(heap);
        }
    }

    /// A new object, which the recording has at `from`: where it is now. What the allocator asks for comes first.
    pub fn malloc(
        &mut self,
        from: u64,
        len: u64,
        align: u64,
        now_ns: u64,
        batch: &mut Batch,
    ) -> Result<VirtAddr, String> {
        if !from.is_multiple_of(GRANULE) {
            return Err(format!("an object at {from:#x}: objects begin at multiples of {GRANULE}"));
        }
        if from.checked_add(len).is_none_or(|end| end > USER_END) {
            return Err(format!("an object of {len} bytes at {from:#x}: no program has these addresses"));
        }
        let align = align.max(MALLOC_ALIGN);
        let full = || format!("an object of {len} bytes: the heap's window of addresses is full");
        let heap = &mut self.heaps[self.current];
        // Bounds what follows, as well.
        let align = align.checked_next_power_of_two().filter(|&align| align <= 1 << 32).ok_or_else(full)?;
        let to = heap.allocator.malloc(len, align, now_ns).ok_or_else(full)?;
        // The first object of a mapping tells whose it is.
        if !heap.objects.is_held(from)
            && let Some(mapping) = heap.mappings.at(from)
        {
            heap.objects.hold(mapping, from);
        }
        heap.objects.add(Object { from, len, to }, &mut self.ended);
        self.counts.objects += 1;
        self.counts.replaced += self.ended.len() as u64;
        self.ended.drain(..).for_each(|object| heap.allocator.free(object.to, now_ns));
        heap.allocator.asked().for_each(|event| batch.push_event(event));
        Ok(VirtAddr::new(to))
    }

    /// The object that the recording has at `from` ends: where it was. What the allocator asks for comes first.
    pub fn free(&mut self, from: u64, now_ns: u64, batch: &mut Batch) -> Option<VirtAddr> {
        let heap = &mut self.heaps[self.current];
        let Some(object) = heap.objects.remove(from) else {
            self.counts.unknown_frees += 1;
            return None;
        };
        self.counts.freed += 1;
        heap.allocator.free(object.to, now_ns);
        heap.allocator.asked().for_each(|event| batch.push_event(event));
        Some(VirtAddr::new(object.to))
    }

    /// The recording has another mapping at `addr`, or none: private anonymous memory, where an allocator can be, or
    /// not.
    pub fn map(&mut self, addr: VirtAddr, len: u64, can_hold: bool) {
        let from = addr.raw().min(USER_END);
        let end = from.saturating_add(len).min(USER_END);
        let heap = &mut self.heaps[self.current];
        heap.objects.renew(from, end);
        heap.mappings.remove(from, end);
        if can_hold {
            heap.mappings.add(from, end);
        }
    }

    /// A mapping of the recording moves or changes its length, an allocator's with it.
    pub fn remap(&mut self, old: (VirtAddr, u64), new: (VirtAddr, u64), keep_old: bool) {
        let heap = &self.heaps[self.current];
        let (held, can_hold) = (heap.objects.is_held(old.0.raw()), heap.mappings.at(old.0.raw()).is_some());
        self.map(old.0, old.1, keep_old && can_hold);
        self.map(new.0, new.1, can_hold);
        if held {
            self.hold(new.0.raw());
        }
    }

    /// The recording's brk heap is `start` to `end`.
    pub fn brk(&mut self, start: VirtAddr, end: VirtAddr) {
        let from = start.raw();
        let bytes = end.raw().saturating_sub(from);
        let before = self.heaps[self.current].mappings.at(from).map_or(0, |(_, end)| end - from);
        // What is new belongs to whoever has what it follows.
        let last = from + before.saturating_sub(1);
        let held = self.objects().is_held(last);
        self.map(start, bytes.max(before), false);
        self.map(start, bytes, true);
        if held {
            self.hold(last.min(end.raw().saturating_sub(1)));
        }
    }

    /// An allocator has the mapping at `address`.
    fn hold(&mut self, address: u64) {
        let heap = &mut self.heaps[self.current];
        if let Some(mapping) = heap.mappings.at(address) {
            heap.objects.hold(mapping, address);
        }
    }

    /// Where a range lies now: moved if one object has it all.
    pub fn moved(&mut self, addr: VirtAddr, len: u64) -> VirtAddr {
        let from = addr.raw();
        match self.objects().at(from) {
            Some(object) if from.checked_add(len).is_some_and(|end| end <= object.from + object.len) => {
                VirtAddr::new(object.to + (from - object.from))
            }
            _ => addr,
        }
    }
}
