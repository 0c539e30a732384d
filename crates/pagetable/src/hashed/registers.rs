//! State of the tables that hardware has without reading memory: the places and sizes of their ways, and the progress
//! of a resize.
//!
//! It is kept in one frame, which the base register points to, and loaded with it. A way is one block of memory, or
//! several pieces of equal size, whose frames are in a list. Stojkovic and others, *Memory-Efficient Hashed Page
//! Tables* (HPCA 2023), keep these lists in the processor too.

use super::layout::{SIZES, TABLES};
use super::line::{WORDS, hash};
use mmulab_addr::{BASE_BYTES, LINE_BYTES, Pfn, PhysAddr};
use mmulab_frames::PhysMem;

/// Ways a table can have.
pub const MAX_WAYS: usize = 4;
/// Pieces that a way can be made of: a list is a frame.
pub const MAX_PIECES: u64 = BASE_BYTES / 8;
/// Words of the frame that a table has.
const STRIDE: u64 = 64;
/// A table that is being resized has this bit in its first word.
const RESIZING: u64 = 1 << 40;

/// The shape of a table's ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Lines of a way, as a power of two.
    pub slots: u8,
    /// Lines of a piece, as a power of two.
    pub piece: u8,
}

/// A table, as its registers have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    /// Ways.
    pub ways: u8,
    /// Of the ways lines are in.
    pub now: Shape,
    /// Of those lines move to.
    pub next: Option<Shape>,
    /// How many slots of each way have been moved.
    pub moved: [u64; MAX_WAYS],
    /// The lists of pieces, of the ways lines are in and of those they move to.
    pub lists: [[Pfn; MAX_WAYS]; 2],
}

fn word(root: PhysAddr, table: usize, at: u64) -> PhysAddr {
    PhysAddr(root.0 + (table as u64 * STRIDE + at) * 8)
}

impl Registers {
    /// Those of table number `table`, if there is one.
    #[inline]
    pub fn load(mem: &PhysMem, root: PhysAddr, table: usize) -> Option<Self> {
        let first = mem.read(word(root, table, 0));
        if first == 0 {
            return None;
        }
        let byte = |at: u32| (first >> (8 * at)) as u8;
        let at = |n: usize| mem.read(word(root, table, 1 + n as u64));
        Some(Self {
            ways: byte(0),
            now: Shape { slots: byte(1), piece: byte(2) },
            next: (first & RESIZING != 0).then(|| Shape { slots: byte(3), piece: byte(4) }),
            moved: std::array::from_fn(at),
            lists: std::array::from_fn(|age| std::array::from_fn(|way| Pfn(at((age + 1) * MAX_WAYS + way)))),
        })
    }

    /// Writes them.
    pub fn store(&self, mem: &mut PhysMem, root: PhysAddr, table: usize) {
        let shape = |shape: Shape, at: u32| u64::from(shape.slots) << (8 * at) | u64::from(shape.piece) << (8 * at + 8);
        let next = self.next.map_or(0, |next| shape(next, 3) | RESIZING);
        mem.write(word(root, table, 0), u64::from(self.ways) | shape(self.now, 1) | next);
        let words = self.moved.into_iter().chain(self.lists.as_flattened().iter().map(|list| list.0));
        words.zip(1..).for_each(|(value, at)| mem.write(word(root, table, at), value));
    }

    /// Removes a table's.
    pub fn clear(mem: &mut PhysMem, root: PhysAddr, table: usize) {
        (0..STRIDE).for_each(|at| mem.write(word(root, table, at), 0));
    }

    /// Slot `slot` of a way; `next` of those that lines move to.
    #[inline]
    pub fn slot(&self, mem: &PhysMem, next: bool, way: usize, slot: u64) -> PhysAddr {
        let shape = if next { self.next.unwrap_or(self.now) } else { self.now };
        let list = self.lists[usize::from(next)][way].addr();
        let piece = mem.read(PhysAddr(list.0 + (slot >> shape.piece) * 8));
        PhysAddr(Pfn(piece).addr().0 + (slot & ((1 << shape.piece) - 1)) * LINE_BYTES)
    }

    /// The one place in `way` where line number `key` can be. If its old place is among those that were moved already,
    /// so is the line (Skarlatos and others, ASPLOS 2020, section 4.2: the rehashing pointer).
    #[inline]
    pub fn home(&self, mem: &PhysMem, key: u64, way: usize) -> PhysAddr {
        let hash = hash(key, way);
        let slot = hash & ((1 << self.now.slots) - 1);
        match self.next {
            Some(next) if slot < self.moved[way] => self.slot(mem, true, way, hash & ((1 << next.slots) - 1)),
            _ => self.slot(mem, false, way, slot),
        }
    }
}

/// Calls `each` for every line of memory that the tables at `root` are made of, with its level.
pub fn each_line(mem: &PhysMem, root: PhysAddr, each: &mut impl FnMut(u8, PhysAddr)) {
    let lines = |of: PhysAddr| (0..BASE_BYTES / LINE_BYTES).map(move |n| PhysAddr(of.0 + n * LINE_BYTES));
    lines(root).for_each(|line| each(0, line));
    for table in 0..TABLES {
        let Some(registers) = Registers::load(mem, root, table) else { continue };
        for next in [false, true] {
            let Some(shape) = (if next { registers.next } else { Some(registers.now) }) else { continue };
            for way in 0..usize::from(registers.ways) {
                for slot in 0..1u64 << shape.slots {
                    each(table as u8 + 1, registers.slot(mem, next, way, slot));
                }
            }
        }
    }
}

const _: () = assert!((1 + 3 * MAX_WAYS as u64) <= STRIDE && TABLES as u64 * STRIDE <= BASE_BYTES / 8);
const _: () = assert!(WORDS == 8 && SIZES == 3);
