//! How hardware looks an address up: groups of reads, each made at once.

use super::layout::{FIRST_WALK_TABLE, LINE_BITS, SIZE_BITS, SIZES, WALK_TABLE_BITS};
use super::line::{Kind, WORDS};
use super::registers::{MAX_WAYS, Registers};
use super::sections;
use crate::{Leaf, Probing, Root, x86};
use mmulab_addr::{PhysAddr, VirtAddr};
use mmulab_frames::PhysMem;
use std::ops::RangeInclusive;

/// Most reads of a group: all ways of all sizes, and both ways of all cuckoo walk tables.
const MAX_READS: usize = SIZES * (MAX_WAYS + 2);

/// One line that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// The level of its table. It is 1 to 3 for pages of 4 KiB, 2 MiB and 1 GiB, and 4 to 6 for their cuckoo walk
    /// tables.
    pub level: u8,
    /// The line.
    pub line: PhysAddr,
    /// Whether the walk waits for it: it does not for cuckoo walk tables, which help the next one.
    pub awaited: bool,
}

/// Lines that are read at once.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    reads: [Read; MAX_READS],
    len: usize,
}

impl Group {
    const EMPTY: Self = Self { reads: [Read { level: 0, line: PhysAddr(0), awaited: false }; MAX_READS], len: 0 };

    fn push(&mut self, read: Read) {
        self.reads[self.len] = read;
        self.len += 1;
    }
}

impl std::ops::Deref for Group {
    type Target = [Read];

    fn deref(&self) -> &[Read] {
        &self.reads[..self.len]
    }
}

/// The entry that maps an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Where it lies.
    pub entry: PhysAddr,
    /// Its level.
    pub level: u8,
    /// Its bits.
    pub bits: u64,
    /// Its leaf.
    pub leaf: Leaf,
}

/// A line of a cuckoo walk table that a walk read, for a cache to keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Learned {
    /// The level of the cuckoo walk table.
    pub level: u8,
    /// Where it lies.
    pub at: PhysAddr,
    /// Its contents.
    pub line: [u64; WORDS],
}

/// State of a cuckoo walk table in a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WalkTable {
    /// The kernel keeps none: it is not read.
    Unused,
    /// It is to be read beside the next group.
    Wanted,
    /// The byte of a cached copy for the address.
    Said(u8),
}

/// How a hashed table finds the place of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hashing {
    /// One place in each way, by a hash of its own.
    Cuckoo,
    /// The first free place after the one that the hash names; page sizes are read at once or one after another.
    Open(Probing),
}

/// The search for an address.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    root: PhysAddr,
    va: VirtAddr,
    hashing: Hashing,
    walk_tables: [WalkTable; SIZES],
    group: Group,
    /// Groups made.
    rounds: u64,
    /// By size: ways not to be read any more.
    done: [u8; SIZES],
}

impl Search {
    /// A search for `va` in a table that is searched so.
    #[inline]
    pub fn new(hashing: Hashing, root: Root, va: VirtAddr) -> Self {
        Self {
            root: root.lower,
            va,
            hashing,
            walk_tables: [WalkTable::Unused; SIZES],
            group: Group::EMPTY,
            rounds: 0,
            done: [0; SIZES],
        }
    }

    /// The levels of the cuckoo walk tables, which caches may hold lines of.
    #[inline]
    pub fn walk_tables(&self) -> RangeInclusive<u8> {
        let last = FIRST_WALK_TABLE + SIZES as u8 - 1;
        match self.hashing {
            Hashing::Cuckoo => FIRST_WALK_TABLE..=last,
            Hashing::Open(_) => last + 1..=last,
        }
    }

    /// A walk cache supplied this line of the cuckoo walk table of `level` for the address. The line may be out of
    /// date.
    pub fn use_walk_table(&mut self, level: u8, line: &[u64; WORDS]) {
        let size = usize::from(level - FIRST_WALK_TABLE);
        self.walk_tables[size] = WalkTable::Said(sections::byte(line, section(self.va, size)));
    }

    /// A walk cache that can hold the cuckoo walk table of `level` does not have it: the search reads the cuckoo walk
    /// table as well.
    pub fn read_walk_table(&mut self, level: u8) {
        self.walk_tables[usize::from(level - FIRST_WALK_TABLE)] = WalkTable::Wanted;
    }

    /// Number of the line of `size` that maps the address.
    fn key(&self, size: usize) -> u64 {
        section(self.va, size)
    }

    /// The lines to read next, none if the address is not mapped.
    pub fn next(&mut self, mem: &PhysMem) -> Group {
        self.group = Group::EMPTY;
        match self.hashing {
            Hashing::Cuckoo => self.next_cuckoo(mem),
            Hashing::Open(sizes) => self.next_open(mem, sizes),
        }
        self.rounds += 1;
        self.group
    }

    /// First the ways that the cuckoo walk tables name. If the page was not there, all others follow, because the
    /// caches' copies of the cuckoo walk tables may be out of date.
    fn next_cuckoo(&mut self, mem: &PhysMem) {
        while self.rounds < 2 && self.group.is_empty() {
            let all = self.rounds > 0;
            for size in 0..SIZES {
                let Some(registers) = Registers::load(mem, self.root, size) else { continue };
                let ways = (1u8 << registers.ways) - 1;
                let named = if all { ways } else { ways & self.named(size) };
                let key = self.key(size);
                for way in (0..usize::from(registers.ways)).filter(|way| (named & !self.done[size]) >> way & 1 == 1) {
                    let line = registers.home(mem, key, way);
                    self.group.push(Read { level: size as u8 + 1, line, awaited: true });
                }
                self.done[size] |= named;
            }
            if self.group.is_empty() {
                self.rounds += 1;
                continue;
            }
            for size in 0..SIZES {
                let wanted = match self.walk_tables[size] {
                    WalkTable::Unused => false,
                    WalkTable::Wanted => true,
                    WalkTable::Said(_) => all,
                };
                if !wanted {
                    continue;
                }
                self.walk_tables[size] = WalkTable::Unused;
                let Some(registers) = Registers::load(mem, self.root, SIZES + size) else { continue };
                for way in 0..usize::from(registers.ways) {
                    let line = registers.home(mem, section(self.va, size) >> WALK_TABLE_BITS, way);
                    self.group.push(Read { level: FIRST_WALK_TABLE + size as u8, line, awaited: false });
                }
            }
        }
    }

    /// The ways in which a page of `size` can be, going by the cuckoo walk tables.
    fn named(&self, size: usize) -> u8 {
        let mut ways = u8::MAX;
        for (of, walk_table) in self.walk_tables.iter().enumerate().skip(size) {
            if let WalkTable::Said(byte) = *walk_table {
                if !sections::has(byte, size) {
                    return 0;
                }
                if of == size {
                    ways = 1 << sections::way(byte);
                }
            }
        }
        ways
    }

    /// The next slot of each size that is still looked for.
    fn next_open(&mut self, mem: &PhysMem, sizes: Probing) {
        for size in 0..SIZES {
            let Some(registers) = Registers::load(mem, self.root, size).filter(|_| self.done[size] & 1 == 0) else {
                continue;
            };
            let mask = (1u64 << registers.now.slots) - 1;
            // With sizes one after another, those before this one are done: what is kept of each is how many reads it
            // had.
            let slot = super::hash(self.key(size), 0).wrapping_add(self.rounds) & mask;
            let line = registers.slot(mem, false, 0, slot);
            self.group.push(Read { level: size as u8 + 1, line, awaited: true });
            if sizes == Probing::Sequential {
                break;
            }
        }
    }

    /// Result of the lines that were read last.
    pub fn judge(&mut self, mem: &PhysMem) -> Option<Found> {
        let (group, mut over) = (self.group, false);
        for read in group.iter().filter(|read| read.awaited) {
            let size = usize::from(read.level) - 1;
            let line = mem.line(read.line);
            let used = Kind::Pages.is_used(line);
            let own = used && Kind::Pages.key(line) == self.key(size);
            if own {
                let slot = (self.va.vpn().0 >> (SIZE_BITS * size as u8)) as usize % WORDS;
                if let Some(leaf) = x86::decode_leaf(line[slot], read.level) {
                    let entry = PhysAddr(read.line.0 + slot as u64 * 8);
                    return Some(Found { entry, level: read.level, bits: line[slot], leaf });
                }
            }
            if let Hashing::Open(sizes) = self.hashing
                && (own || !used)
            {
                // Its line, or the end of the run of lines it would be in.
                self.done[size] |= 1;
                over |= sizes == Probing::Sequential;
            }
        }
        if over {
            // The next size begins at its own first slot.
            self.rounds = 0;
        }
        None
    }

    /// The lines of cuckoo walk tables for the address among those read last.
    pub fn learned(&self, mem: &PhysMem) -> impl Iterator<Item = Learned> {
        let walk_tables = self.group.iter().filter(|read| read.level >= FIRST_WALK_TABLE);
        walk_tables.filter_map(move |read| {
            let size = usize::from(read.level - FIRST_WALK_TABLE);
            let line = *mem.line(read.line);
            let own = Kind::Sections.is(&line, section(self.va, size) >> WALK_TABLE_BITS);
            own.then_some(Learned { level: read.level, at: read.line, line })
        })
    }

    /// The entry that maps the address, as a walk without caches finds it; `seen` receives every line that it reads.
    pub(crate) fn run(mut self, mem: &PhysMem, mut seen: impl FnMut(&Read)) -> Option<Found> {
        loop {
            let group = self.next(mem);
            if group.is_empty() {
                return None;
            }
            group.iter().for_each(&mut seen);
            if let Some(found) = self.judge(mem) {
                return Some(found);
            }
        }
    }
}

/// The section of `size` that holds an address: what a line of that size's table maps.
fn section(va: VirtAddr, size: usize) -> u64 {
    va.vpn().0 >> (SIZE_BITS * size as u8 + LINE_BITS)
}
