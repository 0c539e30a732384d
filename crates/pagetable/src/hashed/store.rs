//! The ways of a table as the kernel has them: their memory, their registers, their lines.

use super::line::{Kind, WORDS};
use super::registers::{MAX_WAYS, Registers, Shape};
use crate::TableFrames;
use mmulab_addr::{LINE_BYTES, PageOrder, Pfn, PhysAddr};
use mmulab_frames::PhysMem;

/// Lines of a base frame, as a power of two.
const FRAME_LINES: u8 = 6;

/// The memory of all ways of one age.
#[derive(Debug)]
struct Memory {
    shape: Shape,
    lists: Vec<Pfn>,
    pieces: Vec<Pfn>,
}

/// Where lines are kept and moved to, and how many.
#[derive(Debug)]
pub struct Store {
    /// Which table it is.
    pub table: usize,
    pub kind: Kind,
    pub ways: usize,
    root: PhysAddr,
    /// Pieces a way may have.
    most: u64,
    now: Memory,
    next: Option<Memory>,
    pub registers: Registers,
    /// Lines in use.
    pub lines: u64,
}

/// Fixed properties of a table: its number, its kind of lines, the place of its registers, and the pieces that a way
/// may have.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub table: usize,
    pub kind: Kind,
    pub ways: usize,
    pub root: PhysAddr,
    pub pieces: u64,
}

impl Memory {
    /// Memory for ways of `slots` lines, in as few pieces as there are blocks for.
    fn take(mem: &mut PhysMem, frames: &mut impl TableFrames, plan: &Plan, slots: u8) -> Option<Self> {
        let whole = slots - FRAME_LINES;
        let smallest = whole.saturating_sub(plan.pieces.trailing_zeros() as u8);
        (smallest..=whole).rev().find_map(|order| Self::of_pieces(mem, frames, plan, slots, order))
    }

    fn of_pieces(mem: &mut PhysMem, frames: &mut impl TableFrames, plan: &Plan, slots: u8, order: u8) -> Option<Self> {
        let piece = order + FRAME_LINES;
        let per_way = 1u64 << (slots - piece);
        let mut made = Self { shape: Shape { slots, piece }, lists: Vec::new(), pieces: Vec::new() };
        for _ in 0..plan.ways {
            let list = frames.take();
            made.lists.extend(list);
            if list.is_none() {
                made.give(mem, frames);
                return None;
            }
            for _ in 0..per_way {
                let order = PageOrder::new(order);
                let got = if order == PageOrder::P4K { frames.take() } else { frames.take_block(order) };
                made.pieces.extend(got);
                if got.is_none() {
                    made.give(mem, frames);
                    return None;
                }
            }
        }
        for (n, &piece) in made.pieces.iter().enumerate() {
            made.frames_of(piece).for_each(|frame| mem.clear(frame));
            let (way, at) = (n as u64 / per_way, n as u64 % per_way);
            if at == 0 {
                mem.clear(made.lists[way as usize]);
            }
            mem.write(PhysAddr(made.lists[way as usize].addr().0 + at * 8), piece.0);
        }
        Some(made)
    }

    fn frames_of(&self, piece: Pfn) -> impl Iterator<Item = Pfn> + use<> {
        (0..1u64 << (self.shape.piece - FRAME_LINES)).map(move |n| Pfn(piece.0 + n))
    }

    fn frames(&self) -> u64 {
        self.lists.len() as u64 + ((self.pieces.len() as u64) << (self.shape.piece - FRAME_LINES))
    }

    fn give(self, mem: &mut PhysMem, frames: &mut impl TableFrames) {
        let order = PageOrder::new(self.shape.piece - FRAME_LINES);
        for &piece in self.pieces.iter().rev() {
            self.frames_of(piece).for_each(|frame| mem.clear(frame));
            if order == PageOrder::P4K { frames.give_back(piece) } else { frames.give_back_block(piece, order) }
        }
        for list in self.lists.into_iter().rev() {
            mem.clear(list);
            frames.give_back(list);
        }
    }

    fn lists(&self) -> [Pfn; MAX_WAYS] {
        std::array::from_fn(|way| self.lists.get(way).copied().unwrap_or(Pfn(0)))
    }
}

impl Store {
    /// An empty table of `slots` (a power of two) lines a way; none without memory.
    pub fn new(mem: &mut PhysMem, frames: &mut impl TableFrames, plan: Plan, slots: u8) -> Option<Self> {
        let now = Memory::take(mem, frames, &plan, slots)?;
        let lists = [now.lists(), [Pfn(0); MAX_WAYS]];
        let registers = Registers { ways: plan.ways as u8, now: now.shape, next: None, moved: [0; MAX_WAYS], lists };
        registers.store(mem, plan.root, plan.table);
        let Plan { table, kind, ways, root, pieces } = plan;
        Some(Self { table, kind, ways, root, most: pieces, now, next: None, registers, lines: 0 })
    }

    /// Its level.
    pub fn level(&self) -> u8 {
        self.table as u8 + 1
    }

    /// Slots of all ways that lines are in, or move to.
    pub fn slots(&self) -> u64 {
        (self.ways as u64) << self.registers.next.unwrap_or(self.registers.now).slots
    }

    /// Lines of a way, as a power of two: those lines are in, and those they move to.
    pub fn sizes(&self) -> (u8, Option<u8>) {
        (self.registers.now.slots, self.registers.next.map(|next| next.slots))
    }

    pub fn frames(&self) -> u64 {
        self.now.frames() + self.next.as_ref().map_or(0, Memory::frames)
    }

    /// Pieces of each way that lines are in.
    pub fn pieces(&self) -> u64 {
        (self.now.pieces.len() / self.ways) as u64
    }

    /// Pieces of each way that lines move to.
    pub fn next_pieces(&self) -> u64 {
        self.next.as_ref().map_or(0, |next| (next.pieces.len() / self.ways) as u64)
    }

    fn publish(&self, mem: &mut PhysMem) {
        self.registers.store(mem, self.root, self.table);
    }

    /// Takes memory for ways of another size, to which lines are to move. Whether there was any.
    pub fn begin(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames, slots: u8) -> bool {
        let plan = Plan { table: self.table, kind: self.kind, ways: self.ways, root: self.root, pieces: self.most };
        let Some(next) = Memory::take(mem, frames, &plan, slots) else { return false };
        self.registers.next = Some(next.shape);
        self.registers.lists[1] = next.lists();
        self.next = Some(next);
        self.publish(mem);
        true
    }

    /// All slots of `way` below `moved` have been moved.
    pub fn set_moved(&mut self, mem: &mut PhysMem, way: usize, moved: u64) {
        self.registers.moved[way] = moved;
        self.publish(mem);
    }

    /// Whether every line has been moved.
    pub fn is_moved(&self) -> bool {
        self.registers.moved[..self.ways].iter().all(|&moved| moved == 1 << self.registers.now.slots)
    }

    /// The old ways are empty: their memory goes.
    pub fn finish(&mut self, mem: &mut PhysMem, frames: &mut impl TableFrames) {
        let Some(next) = self.next.take() else { return };
        std::mem::replace(&mut self.now, next).give(mem, frames);
        self.registers.now = self.now.shape;
        self.registers.next = None;
        self.registers.moved = [0; MAX_WAYS];
        self.registers.lists = [self.now.lists(), [Pfn(0); MAX_WAYS]];
        self.publish(mem);
    }

    /// Where line `key` is, and in which way.
    pub fn find(&self, mem: &PhysMem, key: u64) -> Option<(usize, PhysAddr)> {
        let home = |way| (way, self.registers.home(mem, key, way));
        (0..self.ways).map(home).find(|&(_, at)| self.kind.is(mem.line(at), key))
    }

    /// Gives all memory back.
    pub fn free(self, mem: &mut PhysMem, frames: &mut impl TableFrames) {
        Registers::clear(mem, self.root, self.table);
        if let Some(next) = self.next {
            next.give(mem, frames);
        }
        self.now.give(mem, frames);
    }
}

/// Writes a line.
pub fn put(mem: &mut PhysMem, at: PhysAddr, line: &[u64; WORDS]) {
    for (n, &word) in (0..).zip(line) {
        mem.write(PhysAddr(at.0 + n * 8), word);
    }
}

/// Moves a line to an empty place.
pub fn shift(mem: &mut PhysMem, from: PhysAddr, to: PhysAddr) {
    let line = *mem.line(from);
    put(mem, to, &line);
    put(mem, from, &[0; WORDS]);
}

const _: () = assert!(LINE_BYTES << FRAME_LINES == mmulab_addr::BASE_BYTES);
