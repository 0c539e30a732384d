//! Hints about page sizes: which ranges of an address space should be translated by pages of which size. The first hint
//! is the most urgent one: whoever gives them sorts them by what translation costs there (paper 3, section IV-D).
//!
//! ```text
//! madvise ADDR LEN page-size=SIZE --.
//! Kernel::hint, ahead of the run ---+--> SizeHints --+-- in order of arrival --> daemon: what to promote next
//!                                                    '-- by address -----------> fault: the size to map, if the policy
//!                                                                                has hints guide faults
//! ```

use crate::HintedBlock;
use mmulab_addr::{PageOrder, Pfn, VirtAddr};
use std::collections::BTreeMap;

/// A range and the size that its memory should be translated by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SizeHint {
    pub start: u64,
    pub end: u64,
    pub size: PageOrder,
}

impl SizeHint {
    /// The first aligned block of the size that lies wholly inside the range and begins at or above `va`.
    pub fn block_from(&self, va: u64) -> Option<u64> {
        let block = va.max(self.start).checked_next_multiple_of(self.size.bytes())?;
        let end = block.checked_add(self.size.bytes())?;
        (end <= self.end).then_some(block)
    }
}

/// The hints of an address space. They do not overlap: a new one takes the place of those that it touches.
#[derive(Clone, Debug, Default)]
pub(crate) struct SizeHints {
    /// Numbered in the order of arrival.
    in_order: BTreeMap<u64, SizeHint>,
    /// The number of the hint that begins at an address.
    by_address: BTreeMap<u64, u64>,
    /// The number of the next hint.
    next: u64,
    /// Whether faults go by them.
    guides_faults: bool,
}

impl SizeHints {
    /// Whether it has no hints.
    pub fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }

    /// Forgets all. The numbers of later hints go on from here.
    pub fn clear(&mut self) {
        self.in_order.clear();
        self.by_address.clear();
    }

    /// Adds a hint behind all others; how many others it takes the place of.
    pub fn add(&mut self, hint: SizeHint, guides_faults: bool) -> u64 {
        let mut replaced = 0;
        while let Some((number, old)) = self.below(hint.end).filter(|(_, old)| old.end > hint.start) {
            self.in_order.remove(&number);
            self.by_address.remove(&old.start);
            replaced += 1;
        }
        self.in_order.insert(self.next, hint);
        self.by_address.insert(hint.start, self.next);
        self.next += 1;
        self.guides_faults = guides_faults;
        replaced
    }

    /// The last hint that begins below `va`, and its number.
    fn below(&self, va: u64) -> Option<(u64, SizeHint)> {
        let (_, number) = self.by_address.range(..va).next_back()?;
        self.in_order.get(number).map(|hint| (*number, *hint))
    }

    /// The first hint with this number or a higher one.
    pub fn next_from(&self, number: u64) -> Option<(u64, SizeHint)> {
        self.in_order.range(number..).next().map(|(&number, &hint)| (number, hint))
    }

    /// The size that a fault at `va` should aim for: a base page if no hint covers `va`. `None` if no hint guides
    /// faults in this address space, and the policy chooses by itself.
    #[inline]
    pub fn for_fault(&self, va: u64) -> Option<PageOrder> {
        if !self.guides_faults || self.is_empty() {
            return None;
        }
        let hint = self.below(va.saturating_add(1)).map(|(_, hint)| hint);
        // A block that sticks out of the hinted range is not what was hinted.
        let covers = |hint: &SizeHint| {
            let block = VirtAddr::new(va).align_down(hint.size).raw();
            va < hint.end && hint.block_from(block) == Some(block)
        };
        Some(hint.filter(covers).map_or(PageOrder::P4K, |hint| hint.size))
    }
}

/// The hints that the host has of this kernel's memory, by their first frame. As in the host, a later hint takes the
/// place of those that it touches.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandedOn(BTreeMap<Pfn, PageOrder>);

impl HandedOn {
    /// Notes a block of frames and its hint; whether the host does not have it yet.
    pub fn add(&mut self, block: HintedBlock) -> bool {
        let HintedBlock { first, size } = block;
        if self.0.get(&first) == Some(&size) {
            return false;
        }
        // Blocks are aligned to their sizes: they hold one another, or do not touch.
        let inside: Vec<Pfn> = self.0.range(first..Pfn(first.0 + size.base_pages())).map(|(&pfn, _)| pfn).collect();
        let below = self.0.range(..first).next_back();
        let around = below.filter(|(pfn, order)| pfn.0 + order.base_pages() > first.0).map(|(&pfn, _)| pfn);
        for pfn in inside.into_iter().chain(around) {
            self.0.remove(&pfn);
        }
        self.0.insert(first, size);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    fn hinted(hints: &[(u64, u64, PageOrder)]) -> (SizeHints, Vec<u64>) {
        let mut store = SizeHints::default();
        let add = |&(start, end, size): &_| store.add(SizeHint { start, end, size }, true);
        let replaced = hints.iter().map(add).collect();
        (store, replaced)
    }

    #[test]
    fn hints_come_in_the_order_of_arrival_and_take_each_others_places() {
        let (huge, small) = (PageOrder::P2M, PageOrder::P64K);
        let (store, replaced) =
            hinted(&[(64 * M, 68 * M, huge), (0, 2 * M, huge), (8 * M, 9 * M, small), (M, 65 * M, small)]);
        assert_eq!(replaced, [0, 0, 0, 3]);
        let (number, left) = store.next_from(0).unwrap();
        assert_eq!((number, left.start, left.end), (3, M, 65 * M));
        assert_eq!(store.next_from(4), None);
    }

    #[test]
    fn a_fault_is_guided_by_whole_blocks() {
        let (store, _) = hinted(&[(3 * M, 8 * M, PageOrder::P2M), (8 * M, 9 * M, PageOrder::P64K)]);
        let at = |va| store.for_fault(va);
        assert_eq!(
            (at(3 * M), at(4 * M), at(8 * M - 1)),
            (Some(PageOrder::P4K), Some(PageOrder::P2M), Some(PageOrder::P2M))
        );
        assert_eq!((at(8 * M), at(9 * M), at(0)), (Some(PageOrder::P64K), Some(PageOrder::P4K), Some(PageOrder::P4K)));
        assert_eq!(SizeHints::default().for_fault(0), None);
    }

    #[test]
    fn a_hint_is_handed_on_again_only_once_another_took_its_place() {
        let mut host = HandedOn::default();
        let mut add = |first: u64, size| host.add(HintedBlock { first: Pfn(first), size });
        let (small, huge) = (PageOrder::P64K, PageOrder::P2M);
        assert!(add(512, huge) && !add(512, huge));
        assert!(add(0, small) && !add(0, small) && !add(512, huge), "they do not touch");
        // A part of the block gets another size, so the host forgets the whole.
        assert!(add(528, small) && add(512, huge));
        assert!(add(528, small), "the block took its place");
        assert!(add(512, small) && !add(528, small));
    }
}
