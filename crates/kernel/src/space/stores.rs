//! The base pages that a process stored to.
//!
//! A simulated page has no contents, and one dirty bit stands for all of a huge page. A kernel that reads memory for
//! pages of zeros therefore goes by these marks. A private base page that was never stored to holds the zeros that it
//! was made with. Marks are kept by process and virtual address, and only in runs whose policy asks for them.
//!
//! ```text
//! reference: a store ------------------------> add     (Kernel::note_stores, for a stretch of references at once)
//! MAP_POPULATE ------------------------------> add     (it stands for memory that was filled before the trace began)
//! fork --------------------------------------> a copy for the child
//! mremap ------------------------------------> carry
//! munmap, MADV_DONTNEED, a mapping over it --> remove: the page after that is a new one, of zeros
//! ```

use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, VirtAddr};
use std::collections::BTreeMap;

/// A bit for each base page of 2 MiB.
type Bits = [u64; 8];

/// The base pages of an address space that were stored to.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredPages {
    /// By the first address of each aligned 2 MiB.
    regions: BTreeMap<u64, Bits>,
}

/// The aligned 2 MiB around an address; the word of its base page there, and the bit in it.
fn place(va: u64) -> (u64, usize, u64) {
    let page = (va % PageOrder::P2M.bytes()) >> BASE_SHIFT;
    (va & !(PageOrder::P2M.bytes() - 1), (page / 64) as usize, 1 << (page % 64))
}

impl StoredPages {
    /// Marks the pages of these stores.
    pub fn add(&mut self, stores: impl Iterator<Item = VirtAddr>) {
        let mut last: Option<(u64, Bits)> = None;
        for va in stores {
            let (region, word, bit) = place(va.raw());
            match &mut last {
                Some((at, bits)) if *at == region => bits[word] |= bit,
                other => {
                    if let Some((at, bits)) = other.take() {
                        self.put(at, bits);
                    }
                    let mut bits = Bits::default();
                    bits[word] = bit;
                    *other = Some((region, bits));
                }
            }
        }
        if let Some((at, bits)) = last {
            self.put(at, bits);
        }
    }

    fn put(&mut self, region: u64, new: Bits) {
        let bits = self.regions.entry(region).or_default();
        bits.iter_mut().zip(new).for_each(|(word, new)| *word |= new);
    }

    /// The base pages of the aligned 2 MiB at `region` that have no mark.
    pub fn zeros(&self, region: u64) -> impl Iterator<Item = u64> + use<> {
        let bits = self.regions.get(&region).copied().unwrap_or_default();
        let pages = (0..PageOrder::P2M.base_pages()).map(move |page| region + page * BASE_BYTES);
        pages.filter(move |&va| {
            let (_, word, bit) = place(va);
            bits[word] & bit == 0
        })
    }

    /// The marked pages of a range.
    fn marked(&self, start: u64, end: u64) -> Vec<u64> {
        let mut pages = Vec::new();
        if start < end {
            for (&region, bits) in self.regions.range(place(start).0..end) {
                let first = (0..PageOrder::P2M.base_pages()).map(|page| region + page * BASE_BYTES);
                pages.extend(first.filter(|&va| {
                    let (_, word, bit) = place(va);
                    (start..end).contains(&va) && bits[word] & bit != 0
                }));
            }
        }
        pages
    }

    /// The pages of a range are gone.
    pub fn remove(&mut self, start: u64, end: u64) {
        for va in self.marked(start, end) {
            let (region, word, bit) = place(va);
            let Some(bits) = self.regions.get_mut(&region) else { continue };
            bits[word] &= !bit;
            if *bits == Bits::default() {
                self.regions.remove(&region);
            }
        }
    }

    /// The pages of `len` bytes from `from` on are at `to` now.
    pub fn carry(&mut self, from: u64, to: u64, len: u64) {
        let moved = self.marked(from, from + len);
        self.remove(from, from + len);
        self.add(moved.into_iter().map(|va| VirtAddr::new(va - from + to)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const HUGE: u64 = 2 << 20;

    fn all(pages: &StoredPages) -> Vec<u64> {
        pages.marked(0, u64::MAX)
    }

    proptest! {
        /// Marks are those of a set of pages, whatever is stored to, unmapped and moved.
        #[test]
        fn marks_are_a_set_of_pages(
            ops in prop::collection::vec((0u8..3, 0u64..1600, 1u64..700, 2000u64..3000), 1..30)
        ) {
            let (mut pages, mut model) = (StoredPages::default(), BTreeSet::new());
            for (op, at, len, to) in ops {
                let (start, end) = (at * BASE_BYTES, (at + len) * BASE_BYTES);
                match op {
                    0 => {
                        let stores = (at..at + len).step_by(3).map(|page| page * BASE_BYTES);
                        pages.add(stores.clone().map(|va| VirtAddr::new(va + 8)));
                        model.extend(stores);
                    }
                    1 => {
                        pages.remove(start, end);
                        model.retain(|va| !(start..end).contains(va));
                    }
                    _ => {
                        let to = to * BASE_BYTES;
                        pages.carry(start, to, end - start);
                        let moved: Vec<u64> = model.range(start..end).copied().collect();
                        model.retain(|va| !(start..end).contains(va));
                        model.extend(moved.into_iter().map(|va| va - start + to));
                    }
                }
                prop_assert_eq!(all(&pages), model.iter().copied().collect::<Vec<_>>());
            }
            for region in (0..4000 * BASE_BYTES).step_by(HUGE as usize) {
                let zeros = (region..region + HUGE).step_by(4096).filter(|va| !model.contains(va));
                prop_assert!(pages.zeros(region).eq(zeros));
            }
        }
    }
}
