use mmulab_addr::VirtAddr;

/// What is at a stretch of recorded addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Memory that stays where it is.
    Elsewhere,
    /// Bytes of a segment.
    Segment,
    /// Bytes of a segment's first or last page that belong to no segment, and that its pages have no room for as it is laid
    /// out now. They are told as bytes of the same page.
    Beside,
    /// Addresses that images are told at: the recording has nothing there.
    Kept,
    /// A mapping of which is not known yet whether it becomes a program's.
    Waiting,
}

/// A stretch of recorded addresses that move alike.
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
const SLOTS: usize = 64;
/// Addresses that share a place of it: 2 MiB, about a library's size.
const SLOT_SHIFT: u32 = 21;

/// All recorded addresses of an address space, in order.
#[derive(Clone, Debug)]
pub struct Spans {
    all: Vec<Span>,
    /// The span that an address of each place was in last.
    last: [u32; SLOTS],
}

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
        // The last address of all is never looked for by its span's length: see `find`.
        all.push(rest(at, u64::MAX));
        Self { all, last: [0; SLOTS] }
    }

    /// The span of `va`.
    #[inline(always)]
    pub fn find(&mut self, va: VirtAddr) -> Span {
        let slot = (va.raw() >> SLOT_SHIFT) as usize % SLOTS;
        let span = self.all[self.last[slot] as usize];
        if va.raw().wrapping_sub(span.start) < span.bytes { span } else { self.look(va.raw(), slot) }
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
    fn look(&mut self, address: u64, slot: usize) -> Span {
        let index = self.all.partition_point(|s| s.start <= address) - 1;
        self.last[slot] = index as u32;
        self.all[index]
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
            let span = |w: &[u64]| Span { start: w[0] * unit, bytes: (w[1] - w[0]) * unit, delta: w[0], kind: Kind::Segment };
            let known: Vec<Span> = cuts.chunks_exact(2).map(span).collect();
            let mut spans = Spans::new(known.clone());
            for address in asked.into_iter().map(|a| a * unit + 7).chain([0, u64::MAX]) {
                let found = spans.find(VirtAddr::new(address));
                let address = VirtAddr::new(address).raw();
                match known.iter().find(|s| address.wrapping_sub(s.start) < s.bytes) {
                    Some(expected) => prop_assert_eq!(&found, expected),
                    None => prop_assert_eq!((found.delta, found.kind), (0, Kind::Elsewhere)),
                }
            }
        }
    }
}
