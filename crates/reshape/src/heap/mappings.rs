//! Private anonymous mappings of the recording. The recorded allocator's own records lie in these mappings, outside all
//! objects; `Bookkeeping` decides about references to them.

use std::collections::BTreeMap;

/// Private anonymous memory of the recording: where allocators have their heaps. A mapping is as it was asked for,
/// whatever the system joins.
#[derive(Clone, Debug, Default)]
pub struct Mappings {
    /// Where each ends.
    ends: BTreeMap<u64, u64>,
}

impl Mappings {
    /// The mapping that has `address`: where it begins and ends.
    pub fn at(&self, address: u64) -> Option<(u64, u64)> {
        let (&start, &end) = self.ends.range(..=address).next_back()?;
        (address < end).then_some((start, end))
    }

    /// Nothing of the kind is at `from` to `end` any more.
    pub fn remove(&mut self, from: u64, end: u64) {
        if from >= end {
            return;
        }
        let met: Vec<_> =
            self.ends.range(..end).rev().take_while(|(_, at)| **at > from).map(|(&s, &e)| (s, e)).collect();
        for (start, stop) in met {
            self.ends.remove(&start);
            if start < from {
                self.ends.insert(start, from);
            }
            if stop > end {
                self.ends.insert(end, stop);
            }
        }
    }

    /// A mapping appears in place of what was there.
    pub fn add(&mut self, from: u64, end: u64) {
        self.remove(from, end);
        if from < end {
            self.ends.insert(from, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_in_the_middle_of_another_parts_it() {
        let mut mappings = Mappings::default();
        mappings.add(10, 50);
        mappings.add(60, 70);
        mappings.remove(20, 30);
        mappings.add(45, 65);
        let at = |address| mappings.at(address);
        assert_eq!(
            [9, 10, 20, 30, 45, 64, 65, 70].map(at),
            [None, Some((10, 20)), None, Some((30, 45)), Some((45, 65)), Some((45, 65)), Some((65, 70)), None]
        );
        mappings.remove(0, 100);
        assert_eq!(mappings.at(45), None);
    }
}
