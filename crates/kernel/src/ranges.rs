//! Ranges of addresses that do not overlap, in order, each with a value: mappings, and the regions of reports.

use std::cell::Cell;

/// Value that can lie on a range of addresses.
pub trait Piece: Clone {
    /// The value for the part that begins `bytes` further on.
    fn advance(&mut self, bytes: u64);
    /// Whether `next`, which begins where this value ends after `bytes`, is its continuation.
    fn joins(&self, bytes: u64, next: &Self) -> bool;
    /// Takes over what `next` knows beyond its identity, when the two become one.
    fn absorb(&mut self, next: &Self);
}

/// A range and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span<T> {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Its value.
    pub value: T,
}

impl<T> Span<T> {
    #[inline(always)]
    fn holds(&self, va: u64) -> bool {
        va.wrapping_sub(self.start) < self.end - self.start
    }
}

/// A sorted list of ranges. A look-up first tries the range of the last look-up, which faults and misses mostly hit,
/// and then searches by halves. Changes move the tail of the list, some kilobytes even for thousands of mappings.
#[derive(Clone, Debug)]
pub struct RangeMap<T> {
    spans: Vec<Span<T>>,
    last: Cell<usize>,
}

impl<T> Default for RangeMap<T> {
    fn default() -> Self {
        Self { spans: Vec::new(), last: Cell::new(0) }
    }
}

impl<T: Piece> RangeMap<T> {
    /// The range that holds `va`.
    #[inline]
    pub fn find(&self, va: u64) -> Option<&Span<T>> {
        let last = self.spans.get(self.last.get());
        if let Some(span) = last
            && span.holds(va)
        {
            return last;
        }
        let index = self.first_ending_after(va);
        let span = self.spans.get(index)?;
        if !span.holds(va) {
            return None;
        }
        self.last.set(index);
        Some(span)
    }

    /// The value of the range that holds `va`, to be changed in place.
    pub fn value_mut(&mut self, va: u64) -> Option<&mut T> {
        self.find(va)?;
        self.spans.get_mut(self.last.get()).map(|s| &mut s.value)
    }

    /// The first range that ends after `va`: the one that holds it, or the next above.
    pub fn at_or_above(&self, va: u64) -> Option<&Span<T>> {
        self.spans.get(self.first_ending_after(va))
    }

    /// The last range that ends at or before `va`.
    pub fn below(&self, va: u64) -> Option<&Span<T>> {
        self.first_ending_after(va).checked_sub(1).map(|i| &self.spans[i])
    }

    /// The ranges that share an address with `start..end`.
    pub fn over(&self, start: u64, end: u64) -> impl Iterator<Item = &Span<T>> {
        self.spans[self.first_ending_after(start)..].iter().take_while(move |s| s.start < end)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Span<T>> {
        self.spans.iter()
    }

    /// The first address of `start..end` that no range holds, or `end`.
    pub fn first_hole(&self, start: u64, end: u64) -> u64 {
        let mut at = start;
        for span in self.over(start, end) {
            if span.start > at {
                break;
            }
            at = span.end;
        }
        at.min(end)
    }

    /// Removes what lies on `start..end`, cutting ranges at its ends, and returns it.
    pub fn cut(&mut self, start: u64, end: u64) -> Vec<Span<T>> {
        if start >= end {
            return Vec::new();
        }
        self.cut_at(start);
        self.cut_at(end);
        let first = self.first_ending_after(start);
        let count = self.spans[first..].iter().take_while(|s| s.start < end).count();
        self.spans.drain(first..first + count).collect()
    }

    /// Puts a value on `start..end`, where nothing may lie, and joins it with its neighbours where they continue each
    /// other.
    pub fn insert(&mut self, start: u64, end: u64, value: T) {
        if start >= end {
            return;
        }
        let mut index = self.first_ending_after(start);
        debug_assert!(self.spans.get(index).is_none_or(|s| s.start >= end), "nothing may lie there");
        self.spans.insert(index, Span { start, end, value });
        if index > 0 && self.join(index - 1) {
            index -= 1;
        }
        self.join(index);
        self.last.set(index);
    }

    /// Moves the start of the range that begins at `start` down to `lower`; nothing may lie between.
    pub fn grow_down(&mut self, start: u64, lower: u64) {
        let index = self.first_ending_after(start);
        if let Some(span) = self.spans.get_mut(index).filter(|s| s.start == start) {
            span.start = lower;
        }
    }

    fn first_ending_after(&self, va: u64) -> usize {
        self.spans.partition_point(|s| s.end <= va)
    }

    fn cut_at(&mut self, at: u64) {
        let index = self.first_ending_after(at);
        if let Some(span) = self.spans.get_mut(index)
            && span.start < at
        {
            let mut upper = span.clone();
            upper.value.advance(at - span.start);
            upper.start = at;
            span.end = at;
            self.spans.insert(index + 1, upper);
        }
    }

    fn join(&mut self, index: usize) -> bool {
        let [a, b, ..] = &mut self.spans[index..] else { return false };
        if a.end != b.start || !a.value.joins(a.end - a.start, &b.value) {
            return false;
        }
        a.end = b.end;
        a.value.absorb(&b.value);
        self.spans.remove(index + 1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A value that counts on along its range, as file offsets do.
    #[derive(Clone, Debug, PartialEq)]
    struct Run(u64);

    impl Piece for Run {
        fn advance(&mut self, bytes: u64) {
            self.0 += bytes;
        }
        fn joins(&self, bytes: u64, next: &Self) -> bool {
            self.0 + bytes == next.0
        }
        fn absorb(&mut self, _: &Self) {}
    }

    proptest! {
        #[test]
        fn behaves_as_an_array_of_values(
            ops in prop::collection::vec((0u64..60, 1u64..20, 0u64..3, any::<bool>()), 1..60)
        ) {
            let mut spans = RangeMap::default();
            let mut model = [None; 100];
            for (start, len, value, put) in ops {
                let end = start + len;
                let gone: u64 = spans.cut(start, end).iter().map(|s: &Span<Run>| s.end - s.start).sum();
                prop_assert_eq!(gone, model[start as usize..end as usize].iter().flatten().count() as u64);
                for va in start..end {
                    model[va as usize] = put.then_some(value * 1000 + va);
                }
                if put {
                    spans.insert(start, end, Run(value * 1000 + start));
                }
                for va in 0..100 {
                    let found = spans.find(va).map(|s| s.value.0 + va - s.start);
                    prop_assert_eq!(found, model[va as usize]);
                }
                let all: Vec<_> = spans.iter().collect();
                for pair in all.windows(2) {
                    prop_assert!(pair[0].end <= pair[1].start);
                    let (left, right) = (&pair[0], &pair[1]);
                    prop_assert!(left.end < right.start || !left.value.joins(left.end - left.start, &right.value));
                }
                let hole = (start..end).find(|&va| model[va as usize].is_none()).unwrap_or(end);
                prop_assert_eq!(spans.first_hole(start, end), hole);
            }
        }
    }
}
