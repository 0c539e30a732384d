//! Bitmaps of accessed pages for one address space, and the mappings that decide whether a page counts as private,
//! shared or file memory. Changes of mappings and forks change both.
//!
//! ```text
//! page number   bits 9 and up     bits 8 to 6             bits 5 to 0
//! selects       leaf of 2 MiB     one of 8 words          bit of the word
//! leaf          touched: 8 words, private: 8 words; one bit per base page
//! ```

use mmulab_addr::{BASE_SHIFT, PageOrder, VirtAddr, VirtRange, Vpn};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What a range of addresses shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Memory of the process's own; also what no mapping is known for.
    Private,
    /// Shared anonymous memory.
    Shared,
    /// A file, from its page `first` on.
    File { file: u32, first: u64, shared: bool },
}

/// What a touch of a page came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Nothing new.
    Before,
    /// One private page more.
    Private,
    /// A page of a file, maybe seen before; `private` if the store that this was copied it.
    File { file: u32, page: u64, private: bool },
}

/// What is not private, by its first page number.
#[derive(Clone, Copy)]
struct Mapping {
    /// The first page number after it.
    end: u64,
    shown: Shown,
}

/// One bit per base page, in leaves of 2 MiB.
#[derive(Default, Clone)]
struct Leaf {
    touched: [u64; 8],
    /// Of these, the private ones that count here: not those a fork left shared.
    private: [u64; 8],
}

/// The pages one address space touched.
#[derive(Default, Clone)]
pub struct Space {
    leaves: FxHashMap<u64, Leaf>,
    mappings: BTreeMap<u64, Mapping>,
    /// Bits of `private` set.
    private: u64,
    /// Where the brk heap ended, to see it shrink.
    pub brk: VirtAddr,
}

const LEAF: PageOrder = PageOrder::P2M;

fn split(page: u64) -> (usize, u64) {
    ((page & 511) as usize >> 6, 1 << (page & 63))
}

/// The first page number of a range, and the first after it.
fn bounds(range: VirtRange) -> (u64, u64) {
    let first = range.start.vpn().0;
    (first, first + (range.bytes() >> BASE_SHIFT))
}

impl Space {
    /// Leaves and mappings: what it takes memory for.
    pub fn held(&self) -> usize {
        self.leaves.len() + self.mappings.len()
    }

    /// Private pages that count here.
    pub fn private_pages(&self) -> u64 {
        self.private
    }

    /// A load or fetch of a page, or a store to it.
    #[inline]
    pub fn mark(&mut self, vpn: Vpn, store: bool) -> Seen {
        let leaf = self.leaves.entry(vpn.0 >> 9).or_default();
        let (word, bit) = split(vpn.0);
        let (touched, private) = (leaf.touched[word] & bit != 0, leaf.private[word] & bit != 0);
        if touched && (private || !store) {
            return Seen::Before;
        }
        leaf.touched[word] |= bit;
        match shown(&self.mappings, vpn.0) {
            Shown::Shared => Seen::Before,
            Shown::Private => {
                leaf.private[word] |= bit;
                self.private += 1;
                Seen::Private
            }
            Shown::File { file, first, shared } => {
                let copied = store && !shared;
                leaf.private[word] |= if copied { bit } else { 0 };
                self.private += u64::from(copied);
                Seen::File { file, page: first, private: copied }
            }
        }
    }

    /// A child's: the pages are touched, but each is its parent's until it stores there.
    pub fn forked(&self) -> Self {
        let mut child = self.clone();
        child.leaves.values_mut().for_each(|leaf| leaf.private = [0; 8]);
        child.private = 0;
        child
    }

    /// From here on `range` shows this.
    pub fn show(&mut self, range: VirtRange, shown: Shown) {
        let (start, end) = bounds(range);
        self.cut(start);
        self.cut(end);
        let inside: Vec<u64> = self.mappings.range(start..end).map(|(&at, _)| at).collect();
        for at in inside {
            self.mappings.remove(&at);
        }
        if shown != Shown::Private && start < end {
            self.mappings.insert(start, Mapping { end, shown });
        }
    }

    /// Makes mappings begin or end at page `at`, not go on across it.
    fn cut(&mut self, at: u64) {
        let Some((&start, mapping)) = self.mappings.range_mut(..at).next_back() else { return };
        if mapping.end > at {
            let rest = Mapping { end: mapping.end, shown: further(mapping.shown, at - start) };
            mapping.end = at;
            self.mappings.insert(at, rest);
        }
    }

    /// The pages of `from` are now in `to`, as far as they fit; `from` shows nothing any more, or stays without pages.
    pub fn remap(&mut self, from: VirtRange, to: VirtRange, keep: bool) {
        let ((old, old_end), (new, new_end)) = (bounds(from), bounds(to));
        let pages = self.pages(from);
        let what = shown(&self.mappings, old);
        self.clear(from);
        if !keep {
            self.show(from, Shown::Private);
        }
        self.clear(to);
        self.show(to, what);
        for (page, private) in pages {
            let at = new + (page - old);
            if page < old_end && at < new_end {
                let leaf = self.leaves.entry(at >> 9).or_default();
                let (word, bit) = split(at);
                leaf.touched[word] |= bit;
                leaf.private[word] |= if private { bit } else { 0 };
                self.private += u64::from(private);
            }
        }
    }

    /// The leaves that meet `range`, found through whichever is fewer: the range's, or all there are.
    fn leaves_in(&self, range: VirtRange) -> Vec<u64> {
        if range.is_empty() {
            return Vec::new();
        }
        let (start, end) = bounds(range);
        let (first, last) = (start >> 9, (end - 1) >> 9);
        let mut found: Vec<u64> = if last - first < self.leaves.len() as u64 {
            (first..=last).filter(|l| self.leaves.contains_key(l)).collect()
        } else {
            self.leaves.keys().copied().filter(|l| (first..=last).contains(l)).collect()
        };
        found.sort_unstable();
        found
    }

    /// The pages touched in `range`, and whether each is private.
    fn pages(&self, range: VirtRange) -> Vec<(u64, bool)> {
        let (start, end) = bounds(range);
        let mut found = Vec::new();
        for index in self.leaves_in(range) {
            let leaf = &self.leaves[&index];
            for page in (index << 9..(index + 1) << 9).filter(|page| (start..end).contains(page)) {
                let (word, bit) = split(page);
                if leaf.touched[word] & bit != 0 {
                    found.push((page, leaf.private[word] & bit != 0));
                }
            }
        }
        found
    }

    /// Forgets the pages of `range`; how many of them were private.
    pub fn clear(&mut self, range: VirtRange) -> u64 {
        let before = self.private;
        for index in self.leaves_in(range) {
            let whole = VirtRange::sized(Vpn(index << 9).addr(), LEAF.bytes());
            if range.covers(whole) {
                let gone = self.leaves.remove(&index).unwrap_or_default();
                self.private -= gone.private.iter().map(|w| u64::from(w.count_ones())).sum::<u64>();
                continue;
            }
            let leaf = self.leaves.get_mut(&index).expect("listed above");
            for page in (index << 9..(index + 1) << 9).filter(|&page| range.contains(Vpn(page).addr())) {
                let (word, bit) = split(page);
                self.private -= u64::from(leaf.private[word] & bit != 0);
                leaf.touched[word] &= !bit;
                leaf.private[word] &= !bit;
            }
        }
        before - self.private
    }
}

/// What page `at` shows; of a file, which of its pages.
fn shown(mappings: &BTreeMap<u64, Mapping>, at: u64) -> Shown {
    match mappings.range(..=at).next_back() {
        Some((&start, mapping)) if at < mapping.end => further(mapping.shown, at - start),
        _ => Shown::Private,
    }
}

fn further(shown: Shown, pages: u64) -> Shown {
    match shown {
        Shown::File { file, first, shared } => Shown::File { file, first: first + pages, shared },
        other => other,
    }
}
