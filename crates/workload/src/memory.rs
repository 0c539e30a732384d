//! What an algorithm does to memory, so that it can be written once and run on several.

use std::marker::PhantomData;

/// A value that one load reads.
pub trait Word: Copy + Default {
    /// Its bytes: a power of two of at most 8, so that an aligned one never crosses a page.
    const BYTES: u64 = size_of::<Self>() as u64;
    /// Out of its bytes.
    fn read(bytes: &[u8]) -> Self;
    /// Into its bytes.
    fn write(self, bytes: &mut [u8]);
    /// As the low bytes of a number.
    fn bits(self) -> u64 {
        let mut bytes = [0; 8];
        self.write(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

macro_rules! words {
    ($($word:ty),*) => {$(
        impl Word for $word {
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(&bytes[..size_of::<Self>()]);
                Self::from_le_bytes(own)
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
words!(u8, u32, u64, i32, i64, f32, f64);

/// Elements of one type in memory, `stride` bytes apart: an array, or one field of an array of records.
#[derive(Debug)]
pub struct Array<T> {
    base: u64,
    stride: u64,
    len: u64,
    word: PhantomData<T>,
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<T> {}

impl<T: Word> Array<T> {
    /// `len` elements from `base` on, each `stride` bytes after the one before.
    pub(crate) fn new(base: u64, stride: u64, len: u64) -> Self {
        debug_assert!(base.is_multiple_of(T::BYTES) && stride.is_multiple_of(T::BYTES), "a word may cross a page");
        Self { base, stride, len, word: PhantomData }
    }

    /// Elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Element `index` with what it holds at first.
    #[inline(always)]
    pub fn cell(&self, index: u64, value: T) -> Cell {
        Cell { at: self.at(index), bytes: T::BYTES, bits: value.bits(), kept: None }
    }

    /// Where element `index` lies.
    #[inline(always)]
    pub fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.len, "element {index} of {}", self.len);
        self.base + index * self.stride
    }
}

/// An [`Array`] whose contents steer the algorithm after it changed them, so that every memory must keep them.
#[derive(Debug)]
pub struct Kept<T> {
    array: Array<T>,
    /// Where its contents begin among all that are kept, in bytes.
    start: usize,
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Kept<T> {}

impl<T: Word> Kept<T> {
    pub(crate) fn new(array: Array<T>, start: usize) -> Self {
        Self { array, start }
    }

    /// The elements in memory.
    pub fn array(&self) -> Array<T> {
        self.array
    }

    /// Element `index` with what it holds at first.
    #[inline(always)]
    pub fn cell(&self, index: u64, value: T) -> Cell {
        Cell { kept: Some(self.start + index as usize * size_of::<T>()), ..self.array.cell(index, value) }
    }
}

/// A word of memory, with what it holds before the algorithm begins.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Its address.
    pub at: u64,
    /// Its bytes: 1, 2, 4 or 8.
    pub bytes: u64,
    /// What they hold, the lowest first.
    pub bits: u64,
    /// Where among all that is kept it is.
    kept: Option<usize>,
}

impl Cell {
    /// Whether every memory keeps it.
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }
}

/// Contents of kept arrays, packed: what lies between fields of a record is not kept.
#[derive(Default, Debug, PartialEq)]
pub struct Contents(Vec<u8>);

impl Contents {
    /// `bytes` zeros. The system gives them when they are touched.
    pub fn new(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    /// Element `index`.
    #[inline(always)]
    pub fn get<T: Word>(&self, kept: Kept<T>, index: u64) -> T {
        T::read(&self.0[kept.start + index as usize * size_of::<T>()..])
    }

    /// Has the host fetch element `index`.
    #[inline(always)]
    pub fn prefetch<T: Word>(&self, kept: Kept<T>, index: u64) {
        // SAFETY: a prefetch reads nothing the program could see, and any address is allowed.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let at = kept.start + index as usize * size_of::<T>();
            _mm_prefetch::<_MM_HINT_T0>(self.0.as_ptr().wrapping_add(at).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (kept, index);
    }

    /// A cell is as it is at first, if it is kept.
    #[inline(always)]
    pub fn set(&mut self, cell: Cell) {
        if let Some(from) = cell.kept {
            let bytes = cell.bytes as usize;
            self.0[from..from + bytes].copy_from_slice(&cell.bits.to_le_bytes()[..bytes]);
        }
    }

    /// Element `index` becomes `value`.
    #[inline(always)]
    pub fn put<T: Word>(&mut self, kept: Kept<T>, index: u64, value: T) {
        value.write(&mut self.0[kept.start + index as usize * size_of::<T>()..]);
    }
}

/// Functions that go on to one another, each of which increments a variable.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// Where the first one's page begins.
    pub base: u64,
    /// How many there are.
    pub functions: u64,
    /// From one's page to the next.
    pub spacing: u64,
    /// How much further into its page one is than the one before.
    pub offset: u64,
}

impl Chain {
    /// Instructions of one: increment, jump.
    pub const INSTRUCTIONS: u64 = 2;
    /// Bytes of code that one has at most.
    const CODE_BYTES: u64 = 16;

    /// Where function `i` begins; offsets begin anew where a page ends.
    #[inline(always)]
    pub fn at(&self, i: u64) -> u64 {
        self.base + i * self.spacing + i * self.offset % (self.spacing - self.spacing % Self::CODE_BYTES)
    }
}

/// What takes an algorithm's data before it begins.
pub trait Setup {
    /// Rows of words, one after another, of which `row` tells: those of one record, or one of an array.
    fn rows<const N: usize>(&mut self, rows: u64, row: impl Fn(u64) -> [Cell; N]);

    /// The code of `chain` is there.
    fn code(&mut self, chain: &Chain);

    /// Every element of `array` is what `value` says.
    fn fill<T: Word>(&mut self, array: Array<T>, value: impl Fn(u64) -> T) {
        self.rows(array.len(), |i| [array.cell(i, value(i))]);
    }

    /// Every element of a kept array is what `value` says; it is 0 unless told.
    fn fill_kept<T: Word>(&mut self, kept: Kept<T>, value: impl Fn(u64) -> T) {
        self.rows(kept.array().len(), |i| [kept.cell(i, value(i))]);
    }
}

/// What an algorithm runs on: real memory, or a generator that only tells of the references.
pub trait Memory {
    /// The block of code `site` (0..=63) runs: its instructions up to its next jump.
    fn block(&mut self, site: u64, instructions: u32);

    /// Loads element `index`. `value` gives it if memory has no contents. It is a function of seed and index, or
    /// anything at all if the algorithm's further way does not depend on it.
    fn load<T: Word>(&mut self, array: Array<T>, index: u64, value: impl FnOnce() -> T) -> T;

    /// Stores to element `index` what `value` says; no later way depends on it, so that it need not be computed.
    fn store<T: Word>(&mut self, array: Array<T>, index: u64, value: impl FnOnce() -> T);

    /// A software prefetch of an element of a kept array that is looked up soon. It makes no reference.
    #[inline(always)]
    fn prefetch_hint<T: Word>(&mut self, _kept: Kept<T>, _index: impl FnOnce() -> u64) {}

    /// Loads element `index` of a kept array.
    fn get<T: Word>(&mut self, kept: Kept<T>, index: u64) -> T;

    /// Stores element `index` of a kept array.
    fn put<T: Word>(&mut self, kept: Kept<T>, index: u64, value: T);

    /// Stores what a cell holds at first.
    fn init(&mut self, cell: Cell);

    /// Runs the functions of `chain` in turn; each increments the first element of `local`.
    fn call(&mut self, chain: &Chain, local: Array<u64>);
}
