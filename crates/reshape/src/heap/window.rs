//! The window of addresses for a modelled heap, and the system calls of the modelled allocator. These calls enter the
//! trace as events, so that the simulated kernel sees the heap grow and shrink.

use mmulab_addr::{Prot, VirtAddr};
use mmulab_trace::{Advice, Backing, Event, MapFlags};

use super::desc::WINDOW_BYTES;

/// The addresses that a modelled allocator may map, and what it asked the system for.
#[derive(Clone, Debug)]
pub struct Window {
    start: u64,
    /// What the system is asked for, in order; taken away by whoever writes the trace.
    pub asked: Vec<Event>,
}

impl Window {
    pub fn new(start: u64) -> Self {
        Self { start, asked: Vec::new() }
    }

    pub fn start(&self) -> u64 {
        self.start
    }

    pub fn end(&self) -> u64 {
        self.start + WINDOW_BYTES
    }

    /// Asks for memory; none if the window has no room there.
    pub fn map(&mut self, addr: u64, len: u64) -> Option<()> {
        if addr.checked_add(len)? > self.end() {
            return None;
        }
        // No label: mappings that meet are one, as in a heap that grows.
        self.asked.push(Event::Mmap {
            addr: VirtAddr::new(addr),
            len,
            prot: Prot::RW,
            flags: MapFlags::default(),
            backing: Backing::Anon,
        });
        Some(())
    }

    pub fn unmap(&mut self, addr: u64, len: u64) {
        self.asked.push(Event::Munmap { addr: VirtAddr::new(addr), len });
    }

    /// Tells that contents are needed no more.
    pub fn free(&mut self, addr: u64, len: u64) {
        self.asked.push(Event::Madvise { addr: VirtAddr::new(addr), len, advice: Advice::Free });
    }
}
