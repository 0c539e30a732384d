//! Which stores a load can take its value from before they are written to the cache.

/// Bytes of a granule: what is compared of addresses.
const GRANULE_SHIFT: u32 = 3;
/// Entries of the table. Granules with the same number modulo this share one.
const ENTRIES: usize = 1024;

#[derive(Clone, Copy, Default, Debug)]
struct Entry {
    /// Its number and 1; 0 for none.
    granule: u64,
    /// When its data are there.
    ready: u64,
    /// When it is written to the cache.
    drained: u64,
}

/// The last store to each granule.
#[derive(Clone, Debug)]
pub struct Stores {
    entries: Box<[Entry]>,
}

impl Stores {
    pub fn new() -> Self {
        Self { entries: vec![Entry::default(); ENTRIES].into() }
    }

    /// When the data of the youngest stores are ready that a load at `at` takes, if it takes from any.
    #[inline(always)]
    pub fn ready(&self, at: u64, address: u64, bytes: u64) -> Option<u64> {
        let (mut granule, last) = granules(address, bytes);
        let mut ready = None;
        loop {
            let entry = &self.entries[granule as usize % ENTRIES];
            if entry.granule == granule + 1 && entry.drained > at {
                ready = ready.max(Some(entry.ready));
            }
            if granule >= last {
                return ready;
            }
            granule += 1;
        }
    }

    /// A store whose data are ready at `ready` and in the cache at `drained`.
    #[inline(always)]
    pub fn note(&mut self, address: u64, bytes: u64, ready: u64, drained: u64) {
        let (first, last) = granules(address, bytes);
        for granule in first..last + 1 {
            self.entries[granule as usize % ENTRIES] = Entry { granule: granule + 1, ready, drained };
        }
    }
}

/// The first granule of an access, and the last.
#[inline(always)]
fn granules(address: u64, bytes: u64) -> (u64, u64) {
    (address >> GRANULE_SHIFT, address.saturating_add(bytes.max(1) - 1) >> GRANULE_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_takes_from_the_store_before_it_until_that_is_written() {
        let mut stores = Stores::new();
        stores.note(0x1004, 8, 50, 100);
        assert_eq!(stores.ready(60, 0x1000, 4), Some(50));
        assert_eq!(stores.ready(60, 0x1008, 8), Some(50));
        assert_eq!(stores.ready(60, 0x1010, 8), None);
        assert_eq!(stores.ready(100, 0x1000, 4), None);
        stores.note(0x1008, 8, 70, 120);
        assert_eq!(stores.ready(60, 0x1000, 16), Some(70));
    }
}
