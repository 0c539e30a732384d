//! Trace words: references, instruction counts and positions of events and code, packed into 64 bits each. The
//! simulator's main loop reads one word per reference. `Item` is the unpacked form.

use mmulab_addr::{Access, VirtAddr};

/// One packed word of a [`crate::Batch`].
///
/// | bits | a reference | a control word |
/// |---|---|---|
/// | 0..2 | 0 fetch, 1 read, 2 write | 3 |
/// | 2..7 | fetch: instructions in the block (0..=31) | 0 retire, 1 event, 2 code |
/// | 7..64 | virtual address (57 bits) | count or index |
///
/// A fetch stands for the execution of a translation block that begins there. It touches the page, and retires the
/// block's instructions. Blocks longer than 31 are followed by a retire word. A block or an access that crosses a page
/// boundary is two references. The second has the first address of the second page and no instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Ref(u64);

/// A [`Ref`] unpacked, for code that need not be fast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    /// A fetch (with the instructions it retires), read or write.
    Access(Access, VirtAddr, u32),
    /// Instructions retired beyond those of the fetches.
    Retire(u64),
    /// The event of this index in [`crate::Batch::events`] happens here.
    Event(usize),
    /// The fetches and accesses that follow are an execution of the code of this index in [`crate::Batch::code`].
    Code(usize),
}

const KIND: u64 = 3;
const CONTROL: u64 = 3;
const EVENT: u64 = 1 << 2;
const CODE: u64 = 2 << 2;
const SMALL_SHIFT: u32 = 2;
const VA_SHIFT: u32 = 7;

impl Ref {
    /// Most instructions a fetch word can carry.
    pub const MAX_BLOCK: u32 = 31;

    /// A fetch of a block of `instructions` (at most [`Ref::MAX_BLOCK`]).
    #[inline(always)]
    pub const fn fetch(va: VirtAddr, instructions: u32) -> Self {
        debug_assert!(instructions <= Self::MAX_BLOCK);
        Self((va.raw() << VA_SHIFT) | ((instructions as u64) << SMALL_SHIFT))
    }

    /// A load.
    #[inline(always)]
    pub const fn read(va: VirtAddr) -> Self {
        Self((va.raw() << VA_SHIFT) | Access::Read as u64)
    }

    /// A store.
    #[inline(always)]
    pub const fn write(va: VirtAddr) -> Self {
        Self((va.raw() << VA_SHIFT) | Access::Write as u64)
    }

    /// A load or a store, without a branch.
    #[inline(always)]
    #[cfg(feature = "files")]
    pub(crate) const fn data(va: VirtAddr, store: bool) -> Self {
        Self((va.raw() << VA_SHIFT) | (Access::Read as u64 + store as u64))
    }

    /// `count` more instructions retired (below 2^57).
    #[inline(always)]
    pub const fn retire(count: u64) -> Self {
        Self((count << VA_SHIFT) | CONTROL)
    }

    /// Event `index` of the batch happens here.
    #[inline(always)]
    pub const fn event(index: usize) -> Self {
        Self(((index as u64) << VA_SHIFT) | EVENT | CONTROL)
    }

    /// The code of index `index` in the batch is executed next.
    #[inline(always)]
    pub const fn code(index: usize) -> Self {
        Self(((index as u64) << VA_SHIFT) | CODE | CONTROL)
    }

    /// The packed word.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether it is a control word.
    #[inline(always)]
    pub const fn is_control(self) -> bool {
        self.0 & KIND == CONTROL
    }

    /// Whether it is a fetch.
    #[inline(always)]
    pub const fn is_fetch(self) -> bool {
        self.0 & KIND == Access::Fetch as u64
    }

    /// Whether it is a store.
    #[inline(always)]
    pub const fn is_write(self) -> bool {
        self.0 & KIND == Access::Write as u64
    }

    /// What a reference does.
    #[inline(always)]
    pub const fn access(self) -> Access {
        match (self.is_fetch(), self.is_write()) {
            (true, _) => Access::Fetch,
            (_, true) => Access::Write,
            _ => Access::Read,
        }
    }

    /// The address of a reference.
    #[inline(always)]
    pub const fn va(self) -> VirtAddr {
        VirtAddr::new(self.0 >> VA_SHIFT)
    }

    /// A reference to `delta` bytes further on, modulo 2^57.
    #[inline(always)]
    pub const fn moved(self, delta: u64) -> Self {
        Self(self.0.wrapping_add(delta << VA_SHIFT))
    }

    /// The instructions of a fetch.
    #[inline(always)]
    pub const fn instructions(self) -> u32 {
        (self.0 >> SMALL_SHIFT) as u32 & Self::MAX_BLOCK
    }

    /// Unpacked.
    #[inline]
    pub const fn item(self) -> Item {
        match self.0 & KIND {
            0 => Item::Access(Access::Fetch, self.va(), self.instructions()),
            1 => Item::Access(Access::Read, self.va(), 0),
            2 => Item::Access(Access::Write, self.va(), 0),
            _ if self.0 & EVENT != 0 => Item::Event((self.0 >> VA_SHIFT) as usize),
            _ if self.0 & CODE != 0 => Item::Code((self.0 >> VA_SHIFT) as usize),
            _ => Item::Retire(self.0 >> VA_SHIFT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_word_unpacks_to_what_was_packed() {
        let va = VirtAddr::new(0x7fff_ffff_f123);
        let kernel = VirtAddr::new(0xffff_ffff_8100_0000);
        assert_eq!(Ref::fetch(va, 31).item(), Item::Access(Access::Fetch, va, 31));
        assert_eq!(Ref::read(kernel).item(), Item::Access(Access::Read, kernel, 0));
        assert_eq!(Ref::write(va).item(), Item::Access(Access::Write, va, 0));
        assert_eq!(
            [Ref::fetch(va, 3), Ref::read(va), Ref::write(va)].map(Ref::access),
            [Access::Fetch, Access::Read, Access::Write]
        );
        assert_eq!(Ref::retire(1 << 50).item(), Item::Retire(1 << 50));
        assert_eq!(Ref::event(7).item(), Item::Event(7));
        assert_eq!(Ref::code(9).item(), Item::Code(9));
    }
}
