//! A third memory, of plain vectors: what an algorithm does in it must be what the generator tells.

use crate::{
    algorithm::Algorithm,
    emit::Emit,
    layout::Layout,
    memory::{Array, Cell, Chain, Contents, Kept, Memory, Setup, Word},
};
use mmulab_trace::{Item, Ref};

/// Real contents at made-up addresses, and what was done to them: address and whether it was a store.
#[derive(Default)]
pub struct Vectors {
    regions: Vec<(u64, Vec<u8>)>,
    pub done: Vec<(u64, bool)>,
    pub instructions: u64,
}

impl Vectors {
    fn bytes(&mut self, at: u64, len: u64) -> &mut [u8] {
        let inside = |(base, bytes): &&mut (u64, Vec<u8>)| *base <= at && at + len <= *base + bytes.len() as u64;
        let (base, bytes) = self.regions.iter_mut().find(inside).unwrap_or_else(|| panic!("{at:#x} is in no array"));
        &mut bytes[(at - *base) as usize..]
    }

    fn read<T: Word>(&mut self, at: u64) -> T {
        T::read(self.bytes(at, T::BYTES))
    }

    fn write<T: Word>(&mut self, at: u64, value: T) {
        value.write(self.bytes(at, T::BYTES));
    }

    /// All there is.
    pub fn contents(&self) -> &[(u64, Vec<u8>)] {
        &self.regions
    }

    fn set(&mut self, cell: Cell) {
        let bytes = cell.bytes as usize;
        self.bytes(cell.at, cell.bytes)[..bytes].copy_from_slice(&cell.bits.to_le_bytes()[..bytes]);
    }
}

impl Setup for Vectors {
    fn rows<const N: usize>(&mut self, rows: u64, row: impl Fn(u64) -> [Cell; N]) {
        (0..rows).flat_map(row).for_each(|cell| self.set(cell));
    }

    fn code(&mut self, _chain: &Chain) {}
}

impl Memory for Vectors {
    fn block(&mut self, site: u64, instructions: u32) {
        assert!(site < 64);
        self.instructions += u64::from(instructions);
    }

    fn load<T: Word>(&mut self, array: Array<T>, index: u64, _value: impl FnOnce() -> T) -> T {
        assert!(index < array.len());
        self.done.push((array.at(index), false));
        self.read(array.at(index))
    }

    fn store<T: Word>(&mut self, array: Array<T>, index: u64, value: impl FnOnce() -> T) {
        assert!(index < array.len());
        self.done.push((array.at(index), true));
        self.write(array.at(index), value());
    }

    fn get<T: Word>(&mut self, kept: Kept<T>, index: u64) -> T {
        self.load(kept.array(), index, T::default)
    }

    fn put<T: Word>(&mut self, kept: Kept<T>, index: u64, value: T) {
        self.store(kept.array(), index, || value);
    }

    fn init(&mut self, cell: Cell) {
        self.done.push((cell.at, true));
        self.set(cell);
    }

    fn call(&mut self, chain: &Chain, local: Array<u64>) {
        for _ in 0..chain.functions {
            let before = self.load(local, 0, || 0);
            self.store(local, 0, || before + 1);
        }
        self.instructions += chain.functions * Chain::INSTRUCTIONS;
    }
}

/// An algorithm and the memory it has run in.
pub struct Model<A> {
    pub algorithm: A,
    pub memory: Vectors,
}

impl<A: Algorithm> Model<A> {
    /// All rounds there are.
    pub fn run(&mut self) {
        let most = self.algorithm.rounds().unwrap_or(u64::MAX);
        (0..most).take_while(|_| self.algorithm.round(&mut self.memory)).for_each(drop);
    }

    /// An array's contents.
    pub fn array<T: Word>(&mut self, which: impl Fn(&A) -> Array<T>) -> Vec<T> {
        let array = which(&self.algorithm);
        (0..array.len()).map(|i| self.memory.read(array.at(i))).collect()
    }
}

/// Zeros where the arrays of `layout` are.
pub fn vectors(layout: &Layout) -> Vectors {
    let regions = layout.regions().iter().map(|r| (r.base, vec![0; r.bytes as usize])).collect();
    Vectors { regions, ..Vectors::default() }
}

/// An algorithm made ready in vectors, before its first round.
pub fn ready<A: Algorithm>(mut algorithm: A) -> Model<A> {
    let mut memory = vectors(algorithm.layout());
    algorithm.build();
    algorithm.prepare(&mut memory);
    Model { algorithm, memory }
}

/// An algorithm after all rounds in vectors.
pub fn model<A: Algorithm>(algorithm: A) -> Model<A> {
    let mut model = ready(algorithm);
    model.run();
    model
}

/// What the generator tells: addresses and whether each is a store, then the instructions.
pub fn told<A: Algorithm>(mut algorithm: A) -> (Vec<(u64, bool)>, u64) {
    let mut contents = Contents::new(algorithm.layout().kept_bytes() as usize);
    algorithm.build();
    algorithm.prepare(&mut contents);
    let mut refs: Vec<Ref> = Vec::new();
    let mut emit = Emit::new(&mut refs, &mut contents);
    let most = algorithm.rounds().unwrap_or(u64::MAX);
    (0..most).take_while(|_| algorithm.round(&mut emit)).for_each(drop);
    let instructions = emit.instructions;
    let data = refs.iter().filter_map(|r| match r.item() {
        Item::Access(_, va, _) if !r.is_fetch() => Some((va.raw(), r.is_write())),
        _ => None,
    });
    (data.collect(), instructions)
}

/// The addresses of all loads.
pub fn loads(algorithm: impl Algorithm) -> Vec<u64> {
    told(algorithm).0.into_iter().filter(|(_, store)| !store).map(|(at, _)| at).collect()
}
