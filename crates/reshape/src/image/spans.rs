//! Ranges of recorded addresses that move by the same distance. Each load, store and fetch is looked up here.

use mmulab_addr::VirtAddr;

/// What a range of recorded addresses holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Memory that stays where it is.
    Elsewhere,
    /// Bytes of a segment.
    Segment,
    /// Bytes of a segment's first or last page that belong to no segment, and that its pages have no room for as it is
    /// laid out now. They are told as bytes of the same page.
    Beside,
    /// Addresses that images are told at: the recording has nothing there.
    Kept,
    /// A mapping of which is not known yet whether it becomes a program's.
    Waiting,
}

/// A range of recorded addresses that move by the same distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Its first address.
    pub start: u64,
    /// Its bytes.
    pub bytes: u64,
    /// What is added to its addresses, modulo 2^64.
    pub delta: u64,
    /// What is there.
    pub kind: Kind,
}

/// Places of the shortcut: a program's references are to a few segments, a stack, a heap.
const SLOTS: usize = 128;
/// Addresses that share a place of it: 2 MiB, about a library's size.
const SLOT_SHIFT: u32 = 21;

/// All recorded addresses of an address space, in order.
#[derive(Clone, Debug)]
pub struct Spans {
    all: Vec<Span>,
    /// The span that an address of each place was in last, of those that are told at once.
    last: [Span; SLOTS],
}

/// The place of `va`: Fibonacci hashing (Knuth, The Art of Computer Programming, vol. 3, section 6.4), since programs
/// and what they map begin at round addresses.
#[inline(always)]
fn slot(va: VirtAddr) -> usize {
    ((va.raw() >> SLOT_SHIFT).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.ilog2())) as usize
}

/// Where nothing is.
const NOTHING: Span = Span { start: 0, bytes: 0, delta: 0, kind: Kind::Elsewhere };

impl Default for Spans {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Spans {
    /// A table of `known` spans; all else is elsewhere. Where two overlap the first has it.
    pub fn new(mut known: Vec<Span>) -> Self {
        known.sort_unstable_by_key(|s| s.start);
        let (mut all, mut at) = (Vec::with_capacity(2 * known.len() + 1), 0u64);
        let rest = |start: u64, end: u64| Span { start, bytes: end - start, delta: 0, kind: Kind::Elsewhere };
        for span in known {
            let (start, end) = (span.start.max(at), span.start.saturating_add(span.bytes));
            if start >= end {
                continue;
            }
            if start > at {
                all.push(rest(at, start));
            }
            all.push(Span { start, bytes: end - start, ..span });
            at = end;
        }
        all.push(rest(at, u64::MAX));
        Self { all, last: [NOTHING; SLOTS] }
    }

    /// How far `va` moves, if it is told at once.
    #[inline(always)]
    pub fn delta(&mut self, va: VirtAddr) -> Option<u64> {
        let last = &self.last[slot(va)];
        if va.raw().wrapping_sub(last.start) < last.bytes { Some(last.delta) } else { self.look(va) }
    }

    /// The span of `va`.
    pub fn find(&self, va: VirtAddr) -> Span {
        self.all[self.all.partition_point(|s| s.start <= va.raw()) - 1]
    }

    /// The parts of `start..end` where no segment is.
    pub fn outside(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut out: Vec<(u64, u64)> = Vec::new();
        for span in self.all.iter().filter(|s| !matches!(s.kind, Kind::Segment | Kind::Beside)) {
            let (from, to) = (span.start.max(start), span.start.saturating_add(span.bytes).min(end));
            if from < to {
                match out.last_mut().filter(|last| last.1 == from) {
                    Some(last) => last.1 = to,
                    None => out.push((from, to)),
                }
            }
        }
        out
    }

    #[inline(never)]
    fn look(&mut self, va: VirtAddr) -> Option<u64> {
        let span = self.find(va);
        if !matches!(span.kind, Kind::Segment | Kind::Elsewhere) {
            return None;
        }
        self.last[slot(va)] = span;
        Some(span.delta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_address_is_found_as_by_looking_at_all(
            cuts in prop::collection::btree_set(1u64..40, 2..12),
            asked in prop::collection::vec(0u64..48, 1..60),
        ) {
            let unit = 1u64 << (SLOT_SHIFT - 2);
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let span = |w: &[u64]| Span {
                start: w[0] * unit,
                bytes: (w[1] - w[0]) * unit,
                delta: w[0],
                kind: if w[0].is_multiple_of(3) { Kind::Beside } else { Kind::Segment },
            };
            let known: Vec<Span> = cuts.chunks_exact(2).map(span).collect();
            let mut spans = Spans::new(known.clone());
            for address in asked.into_iter().map(|a| a * unit + 7).chain([0, u64::MAX]) {
                let va = VirtAddr::new(address);
                let expected = known.iter().find(|s| va.raw().wrapping_sub(s.start) < s.bytes);
                match expected.map(|s| s.kind) {
                    Some(Kind::Beside) => prop_assert_eq!(spans.delta(va), None),
                    Some(_) => prop_assert_eq!(spans.delta(va), expected.map(|s| s.delta)),
                    None => prop_assert_eq!(spans.delta(va), Some(0)),
                }
                prop_assert_eq!(Some(spans.find(va).kind), expected.map(|s| s.kind).or(Some(Kind::Elsewhere)));
            }
        }
    }
}
