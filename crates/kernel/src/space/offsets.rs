//! Offsets of a mapping: how far its pages lie from their frames, as CA paging keeps them with each mapping.
//!
//! A mapping has one offset until a page does not find its frame free. From that page on it has another: the mapping
//! falls into parts, of each of which only the beginning is known (`struct capaging_sub_vma` of the published kernel).

use std::sync::Arc;

/// Parts that a mapping can have; the oldest makes way (`SUB_VMA_TOTAL`).
const MOST: usize = 64;

/// Where a part begins, and its page numbers less those of its frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    start: u64,
    offset: i64,
}

/// The parts of a mapping. Mappings that were cut share them, and one that grew keeps its own, as copies of a
/// `vm_area_struct` do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Offsets {
    parts: Option<Arc<Vec<Part>>>,
    /// Which part is the oldest, once there are as many as there can be.
    oldest: usize,
}

impl Offsets {
    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_none()
    }

    /// The offset of the part that begins nearest below `va`; if all begin above, of the lowest. And where the next
    /// part above begins, if there is one.
    pub fn at(&self, va: u64) -> Option<(i64, Option<u64>)> {
        let parts = self.parts.as_deref()?;
        let below = parts.iter().filter(|part| part.start <= va).max_by_key(|part| part.start);
        let above = parts.iter().filter(|part| part.start > va).min_by_key(|part| part.start);
        let part = below.or(above)?;
        Some((part.offset, above.map(|part| part.start)))
    }

    /// A part begins at `start`.
    pub fn begin(&mut self, start: u64, offset: i64) {
        let parts = Arc::make_mut(self.parts.get_or_insert_default());
        let part = Part { start, offset };
        if parts.len() < MOST {
            parts.push(part);
        } else {
            parts[self.oldest] = part;
            self.oldest = (self.oldest + 1) % MOST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_by_the_part_that_begins_nearest_below_it() {
        let mut offsets = Offsets::default();
        assert!(offsets.is_empty() && offsets.at(5).is_none());
        offsets.begin(100, 7);
        offsets.begin(300, 9);
        assert_eq!([50, 100, 299, 300].map(|va| offsets.at(va).map(|found| found.0)), [7, 7, 7, 9].map(Some));
        assert_eq!(offsets.at(150), Some((7, Some(300))));
        assert_eq!(offsets.at(400), Some((9, None)));
    }

    #[test]
    fn the_oldest_part_makes_way() {
        let mut offsets = Offsets::default();
        (0..=MOST as u64).for_each(|n| offsets.begin(n * 10, n as i64));
        assert_eq!(offsets.at(0).map(|found| found.0), Some(1), "the first is gone, and the lowest serves");
        let copy = offsets.clone();
        offsets.begin(5, 99);
        assert_eq!((offsets.at(5), copy.at(5).map(|found| found.0)), (Some((99, Some(20))), Some(1)));
    }
}
