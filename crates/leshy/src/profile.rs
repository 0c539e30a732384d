//! Samples of TLB misses, summed up by 4 KiB page. The order of the samples does not matter.

/// A 4 KiB page, with the samples that fell on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// Its number: the address divided by 4096. The pages of several address spaces have numbers that differ above
    /// every bit of a page number. So no bin holds pages of two spaces.
    pub number: u64,
    /// Samples.
    pub misses: u64,
    /// Cycles of the sampled walks, together.
    pub cycles: u64,
}

/// The pages that were sampled, in the order of their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Profile {
    pages: Vec<Page>,
}

impl Profile {
    /// The sum of samples, which may repeat pages.
    pub fn new(samples: impl IntoIterator<Item = Page>) -> Self {
        let mut pages: Vec<Page> = samples.into_iter().filter(|page| page.misses > 0).collect();
        if !pages.is_sorted_by_key(|page| page.number) {
            pages.sort_unstable_by_key(|page| page.number);
        }
        pages.dedup_by(|next, sum| {
            let same = next.number == sum.number;
            if same {
                sum.misses += next.misses;
                sum.cycles += next.cycles;
            }
            same
        });
        Self { pages }
    }

    /// Its pages.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }
}
