//! The mappings that were asked for at once and are large: their tables are merged before they are in use.

use mmulab_addr::{PageOrder, VirtRange};

/// Pages of such mappings, in order and apart: from the first, up to the last.
#[derive(Clone, Debug, Default)]
pub struct Requests(Vec<(u64, u64)>);

fn pages(range: VirtRange) -> (u64, u64) {
    let first = range.start.vpn().0;
    (first, first + range.bytes().div_ceil(PageOrder::P4K.bytes()))
}

impl Requests {
    /// Adds a request for a mapping of `range`. Earlier information about its pages is out of date.
    pub fn add(&mut self, range: VirtRange) {
        self.forget(range);
        let at = self.0.partition_point(|&(first, _)| first < pages(range).0);
        self.0.insert(at, pages(range));
    }

    /// Nothing is mapped there any more.
    pub fn forget(&mut self, range: VirtRange) {
        let (from, to) = pages(range);
        let left = |&(first, end): &(u64, u64)| [(first, end.min(from)), (first.max(to), end)];
        self.0 = self.0.iter().flat_map(left).filter(|(first, end)| first < end).collect();
    }

    /// How many entries of a table they meet, each of which spans a page of `covers`, the first from page `first` on.
    pub fn entries(&self, first: u64, covers: PageOrder) -> u16 {
        const ENTRIES: u64 = 512;
        let (mut met, mut next) = (0, 0);
        for &(from, to) in &self.0 {
            let entry = |page: u64| (page.saturating_sub(first) >> covers.get()).min(ENTRIES);
            let (begins, ends) = (entry(from).max(next), entry(to + covers.base_pages() - 1));
            if begins < ends {
                met += ends - begins;
                next = ends;
            }
        }
        met as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::VirtAddr;

    fn range(first: u64, pages: u64) -> VirtRange {
        VirtRange::sized(VirtAddr::new(first << 12), pages << 12)
    }

    #[test]
    fn entries_are_counted_once_and_within_the_table() {
        let mut requests = Requests::default();
        let met = |requests: &Requests, first| requests.entries(first, PageOrder::P2M);
        assert_eq!(met(&requests, 0), 0);
        requests.add(range(100, 1000));
        // Pages 100 to 1099: entries 0, 1 and 2 of 512 pages each.
        assert_eq!(met(&requests, 0), 3);
        requests.add(range(1100, 100));
        assert_eq!(met(&requests, 0), 3, "the second is in the third entry too");
        requests.add(range(1 << 17, 1 << 18));
        assert_eq!((met(&requests, 0), met(&requests, 1 << 18)), (3 + 256, 256));
        requests.forget(range(0, 600));
        assert_eq!(met(&requests, 0), 2 + 256);
        requests.forget(range(700, 100));
        assert_eq!(met(&requests, 0), 2 + 256, "600 to 699 and 800 to 1199 are left");
        requests.forget(range(0, 1 << 20));
        assert_eq!(met(&requests, 1 << 18), 0);
    }
}
