//! Reference emitter of the generators: loads, stores and code blocks of an algorithm become trace words. Only kept
//! arrays have contents. Loads from other arrays compute their value, so these arrays take no memory.

use crate::{
    layout::{CODE, SITE_BYTES},
    memory::{Array, Cell, Chain, Contents, Kept, Memory, Setup, Word},
};
use mmulab_addr::VirtAddr;
use mmulab_trace::Ref;

/// A memory without contents: appends each reference to a batch.
pub struct Emit<'a> {
    refs: &'a mut Vec<Ref>,
    contents: &'a mut Contents,
    /// Instructions told.
    pub instructions: u64,
}

impl<'a> Emit<'a> {
    /// Appends to `refs`; kept arrays have `contents`.
    pub fn new(refs: &'a mut Vec<Ref>, contents: &'a mut Contents) -> Self {
        Self { refs, contents, instructions: 0 }
    }

    /// Words in the batch.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.refs.len()
    }
}

impl Memory for Emit<'_> {
    #[inline(always)]
    fn block(&mut self, site: u64, instructions: u32) {
        debug_assert!(site < 64, "beyond the page of code");
        self.instructions += u64::from(instructions);
        self.refs.push(Ref::fetch(VirtAddr::new(CODE + site * SITE_BYTES), instructions.min(Ref::MAX_BLOCK)));
        if instructions > Ref::MAX_BLOCK {
            self.refs.push(Ref::retire(u64::from(instructions - Ref::MAX_BLOCK)));
        }
    }

    #[inline(always)]
    fn load<T: Word>(&mut self, array: Array<T>, index: u64, value: impl FnOnce() -> T) -> T {
        self.refs.push(Ref::read(VirtAddr::new(array.at(index))));
        value()
    }

    #[inline(always)]
    fn store<T: Word>(&mut self, array: Array<T>, index: u64, _value: impl FnOnce() -> T) {
        self.refs.push(Ref::write(VirtAddr::new(array.at(index))));
    }

    #[inline(always)]
    fn prefetch_hint<T: Word>(&mut self, kept: Kept<T>, index: impl FnOnce() -> u64) {
        self.contents.prefetch(kept, index());
    }

    #[inline(always)]
    fn get<T: Word>(&mut self, kept: Kept<T>, index: u64) -> T {
        self.refs.push(Ref::read(VirtAddr::new(kept.array().at(index))));
        self.contents.get(kept, index)
    }

    #[inline(always)]
    fn put<T: Word>(&mut self, kept: Kept<T>, index: u64, value: T) {
        self.refs.push(Ref::write(VirtAddr::new(kept.array().at(index))));
        self.contents.put(kept, index, value);
    }

    #[inline(always)]
    fn init(&mut self, cell: Cell) {
        self.refs.push(Ref::write(VirtAddr::new(cell.at)));
        self.contents.set(cell);
    }

    #[inline(always)]
    fn call(&mut self, chain: &Chain, local: Array<u64>) {
        for i in 0..chain.functions {
            self.refs.push(Ref::fetch(VirtAddr::new(chain.at(i)), Chain::INSTRUCTIONS as u32));
            let before = self.load(local, 0, || 0);
            self.store(local, 0, || before + 1);
        }
        self.instructions += chain.functions * Chain::INSTRUCTIONS;
    }
}

impl Setup for Contents {
    fn rows<const N: usize>(&mut self, rows: u64, row: impl Fn(u64) -> [Cell; N]) {
        // Most are not kept: then there is nothing to do, however many there are.
        if rows > 0 && row(0).iter().any(Cell::is_kept) {
            (0..rows).flat_map(row).for_each(|cell| self.set(cell));
        }
    }

    fn code(&mut self, _chain: &Chain) {}
}
