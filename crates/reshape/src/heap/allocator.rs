//! The allocator of one process: jemalloc, glibc or blocks behind one interface. The heap's bookkeeping is the same for
//! all.

use super::{HeapDesc, blocks::Blocks, glibc::Glibc, jemalloc::Jemalloc, window::Window};

/// A modelled allocator.
#[derive(Clone, Debug)]
enum Kind {
    Jemalloc(Box<Jemalloc>),
    Glibc(Box<Glibc>),
    Blocks(Box<Blocks>),
}

/// The allocator of one process.
#[derive(Clone, Debug)]
pub struct Allocator {
    kind: Kind,
    window: Window,
}

impl Allocator {
    pub fn new(desc: &HeapDesc, now_ns: u64) -> Self {
        let window = Window::new(desc.window());
        let kind = match desc {
            HeapDesc::Jemalloc(desc) => Kind::Jemalloc(Box::new(Jemalloc::new(desc, now_ns))),
            HeapDesc::Glibc(desc) => Kind::Glibc(Box::new(Glibc::new(desc, &window))),
            HeapDesc::Blocks(desc) => Kind::Blocks(Box::new(Blocks::new(desc))),
        };
        Self { kind, window }
    }

    /// Where a new object of `len` bytes lies, at a multiple of `align`, a power of two; none if the window is full.
    pub fn malloc(&mut self, len: u64, align: u64, now_ns: u64) -> Option<u64> {
        let window = &mut self.window;
        match &mut self.kind {
            Kind::Jemalloc(it) => it.malloc(len, align, now_ns, window),
            Kind::Glibc(it) => it.malloc(len, align, window),
            Kind::Blocks(it) => it.malloc(len, align, window),
        }
    }

    /// An object that [`Allocator::malloc`] gave is given back.
    pub fn free(&mut self, at: u64, now_ns: u64) {
        let window = &mut self.window;
        match &mut self.kind {
            Kind::Jemalloc(it) => it.free(at, now_ns, window),
            Kind::Glibc(it) => it.free(at, window),
            Kind::Blocks(it) => it.free(at, window),
        }
    }

    /// What it asked of the system since last asked.
    pub fn asked(&mut self) -> impl Iterator<Item = mmulab_trace::Event> + '_ {
        self.window.asked.drain(..)
    }
}
