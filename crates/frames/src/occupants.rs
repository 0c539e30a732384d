//! Frames that others than the program held before it began, and that compaction may move. They are ordinary pages of
//! processes without page tables in the simulation, for example those of a fragmentation tool. They are runs, not a
//! description for each frame, so that they cost the host little in a memory of terabytes.

use std::collections::BTreeMap;

/// Runs of frames by their first one: each run's end. No two runs touch.
#[derive(Default)]
pub struct Occupants(BTreeMap<u32, u32>);

impl Occupants {
    /// Whether the frame is one of theirs.
    pub fn contains(&self, pfn: u32) -> bool {
        self.0.range(..=pfn).next_back().is_some_and(|(_, &end)| pfn < end)
    }

    /// Their runs among the frames from `from` up to `to`, in order.
    pub fn within(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, u32)> {
        let before = self.0.range(..from).next_back();
        let runs = before.into_iter().chain(self.0.range(from..to));
        runs.map(move |(&start, &end)| (start.max(from), end.min(to))).filter(|(start, end)| start < end)
    }

    /// The frames from `from` up to `to` become theirs; none of them is yet.
    pub fn add(&mut self, mut from: u32, mut to: u32) {
        if from >= to {
            return;
        }
        if let Some((&start, &end)) = self.0.range(..from).next_back()
            && end == from
        {
            from = start;
        }
        if let Some(end) = self.0.remove(&to) {
            to = end;
        }
        self.0.insert(from, to);
    }

    /// Their page in frame `old` is in frame `new` from now on, which nobody holds.
    pub fn relocate(&mut self, old: u32, new: u32) {
        let Some((&start, &end)) = self.0.range(..=old).next_back() else { return };
        if old >= end {
            return;
        }
        self.0.remove(&start);
        if start < old {
            self.0.insert(start, old);
        }
        if old + 1 < end {
            self.0.insert(old + 1, end);
        }
        self.add(new, new + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever moves, the runs say what a set of frames would say, and no two of them touch.
        #[test]
        fn runs_are_a_set_of_frames(
            begin in prop::collection::btree_set(0u32..256, 1..200),
            moves in prop::collection::vec((0u32..256, 0u32..256), 0..100),
            (from, to) in (0u32..256, 0u32..256),
        ) {
            let (mut runs, mut set) = (Occupants::default(), BTreeSet::new());
            for pfn in begin {
                runs.add(pfn, pfn + 1);
                set.insert(pfn);
            }
            for (old, new) in moves {
                if set.contains(&old) && !set.contains(&new) {
                    set.remove(&old);
                    set.insert(new);
                    runs.relocate(old, new);
                }
            }
            prop_assert!((0..256).all(|pfn| runs.contains(pfn) == set.contains(&pfn)));
            let (from, to) = (from.min(to), from.max(to));
            for (from, to) in [(0, 256), (from, to)] {
                let within: Vec<u32> = runs.within(from, to).flat_map(|(start, end)| start..end).collect();
                prop_assert_eq!(within, set.range(from..to).copied().collect::<Vec<_>>());
            }
            let touching = runs.0.iter().zip(runs.0.iter().skip(1)).any(|(a, b)| *a.1 >= *b.0);
            prop_assert!(!touching);
        }
    }
}
