//! The heuristic of the paper's published artifact (`src/leshy.rs` of cslab-ntua/etutils-rs), written anew.
//!
//! 1. The *start size* is the smallest page size of which N entries, hottest first, reach the target. If none does, it
//!    is the largest size, and N becomes the number of entries that reach the target.
//! 2. If the start size is the smallest size of all, the program needs no larger pages.
//! 3. Otherwise, entries of the start size are given up one by one, the coldest first. The entries that are free then
//!    go to bins of the next smaller size that no entry covers. The rest of the entries go to bins of the size below
//!    that. Of all numbers of start-size entries that still reach the target, the smallest wins.
//!
//! Entries of which only one 4 KiB page was sampled are left to the smaller sizes. As in the artifact, a refill takes
//! all entries that are free, even if fewer would reach the target. Two things differ: the target is rounded up, not
//! down, and giving up the last start-size entry is tried too (the artifact begins anew there).

use crate::{
    bins::{Bins, Entry, Level},
    board::Room,
    goal::{Goal, LeshyError},
    selection::Selection,
};

/// The selection of the artifact's heuristic.
///
/// # Errors
/// The goal makes no sense. A target out of reach raises the number of entries instead ([`Selection::raised`]).
pub fn artifact(bins: &Bins, goal: &Goal) -> Result<Selection, LeshyError> {
    let mut room = Room::new(bins, goal)?;
    let wanted = goal.wanted(bins.total());
    let sizes = bins.levels().len();
    let needed = |level: usize| needed(bins, level, wanted);
    let mut raised = None;
    let start = (0..sizes).find(|&level| needed(level) <= room.left(level)).unwrap_or_else(|| {
        let level = sizes - 1;
        // Above 100 % slack is room beyond the least, as the artifact has it.
        let more = if goal.slack > 100 { 100 + u64::from(goal.slack) } else { 100 };
        let entries = needed(level) * more / 100;
        room.raise(level, entries);
        raised = Some(entries);
        level
    });
    let first = bins.levels()[start].by_heat.iter().map(|&index| index as usize).take(needed(start) as usize);
    let first: Vec<usize> = first.collect();
    let fewest = if start == 0 { None } else { substitute(bins, start, &first, &room, wanted) };
    let entries = fewest.unwrap_or_else(|| entries(&bins.levels()[start], first));
    let mut made = Selection::new(bins, goal, entries);
    (made.initial, made.raised) = (Some(bins.levels()[start].order), raised);
    Ok(made)
}

/// The number of bins of a level, hottest first, that reach `wanted`.
pub(crate) fn needed(bins: &Bins, level: usize, wanted: u64) -> u64 {
    let mut covered = 0;
    let before = bins.levels()[level].hottest().take_while(|(_, bin)| {
        let short = covered < wanted;
        covered += bin.weight(bins.weight());
        short
    });
    before.count() as u64
}

fn entries(level: &Level, indices: impl IntoIterator<Item = usize>) -> Vec<Entry> {
    indices.into_iter().map(|index| Entry { order: level.order, bin: level.bins[index] }).collect()
}

/// The hottest bins of one level among those that no start-size entry covers: as many as there could be room for.
struct Uncovered<'a> {
    level: &'a Level,
    /// Their ranks, hottest first.
    ranks: Vec<u32>,
    most: usize,
}

impl<'a> Uncovered<'a> {
    fn new(level: &'a Level, most: u64) -> Self {
        Self { level, ranks: Vec::new(), most: usize::try_from(most).unwrap_or(usize::MAX) }
    }

    fn add(&mut self, bins: impl IntoIterator<Item = usize>) {
        self.ranks.extend(bins.into_iter().map(|index| self.level.rank[index]));
        self.ranks.sort_unstable();
        self.ranks.truncate(self.most);
    }

    fn hottest(&self, count: u64) -> impl Iterator<Item = usize> + '_ {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.ranks.iter().take(count).map(|&rank| self.level.by_heat[rank as usize] as usize)
    }
}

/// The entries with the fewest of the start size, if any number of them with refills reaches `wanted`.
fn substitute(bins: &Bins, start: usize, first: &[usize], room: &Room, wanted: u64) -> Option<Vec<Entry>> {
    let levels = bins.levels();
    let (whole, middle) = (&levels[start], &levels[start - 1]);
    let kept: Vec<usize> = first.iter().copied().filter(|&index| whole.bins[index].pages > 1).collect();
    let mut is_kept = vec![false; whole.bins.len()];
    kept.iter().for_each(|&index| is_kept[index] = true);
    // Bins of one page are left to the size below, if there is one.
    let is_worth = |&index: &usize| start == 1 || middle.bins[index].pages > 1;
    let is_single = |index: &usize| !is_worth(index);
    let low = start.checked_sub(2).map(|low| &levels[low]);

    let mut refill = Uncovered::new(middle, room.left(start - 1));
    let mut rest = low.map(|low| Uncovered::new(low, room.left(start - 2)));
    let uncover = |refill: &mut Uncovered, rest: &mut Option<Uncovered>, indices: &[usize]| {
        let inside = || indices.iter().flat_map(|&index| whole.within(index..index + 1));
        refill.add(inside().filter(is_worth));
        if let Some(rest) = rest {
            rest.add(inside().filter(is_single).flat_map(|single| middle.within(single..single + 1)));
        }
    };
    let cold: Vec<usize> = (0..whole.bins.len()).filter(|&index| !is_kept[index]).collect();
    uncover(&mut refill, &mut rest, &cold);

    let sum = |level: usize, of: &[usize]| of.iter().map(|&index| bins.weight_of(level, index)).sum::<u64>();
    let mut by_kept = sum(start, &kept);
    let mut best = None;
    for count in (0..=kept.len()).rev() {
        if let Some(&given_up) = kept.get(count) {
            by_kept -= bins.weight_of(start, given_up);
            uncover(&mut refill, &mut rest, &[given_up]);
        }
        let mut left = room.clone();
        left.take(start, count as u64);
        let (mut middles, mut lows) = (Vec::new(), Vec::new());
        let mut covered = by_kept;
        if covered < wanted {
            middles = refill.hottest(left.left(start - 1)).collect();
            left.take(start - 1, middles.len() as u64);
            covered += sum(start - 1, &middles);
        }
        if covered < wanted
            && let Some(rest) = &rest
        {
            lows = rest.hottest(left.left(start - 2)).collect();
            covered += sum(start - 2, &lows);
        }
        if covered >= wanted {
            best = Some((count, middles, lows));
        }
    }
    let (count, middles, lows) = best?;
    let mut found = entries(whole, kept[..count].iter().copied());
    found.extend(entries(middle, middles));
    if let Some(low) = low {
        found.extend(entries(low, lows));
    }
    Some(found)
}
