//! A bound on Equation 1 of the paper, bytes that no selection can be below, and a selection near it.
//!
//! Give a price to each TLB entry, and a price to each miss covered. A selection that is best for its bytes and these
//! prices is found bin by bin. A bin is mapped whole, or by the best selection of the bins in it, or not at all. Take
//! the cost of that best selection, less the prices of all entries of the TLB, plus those of the misses to cover. It is
//! below the bytes of every selection that meets the constraints (Lagrangian relaxation). So any prices give a bound;
//! they are moved to where it is highest. The bins nest, so the highest bound is that of the linear program.
//!
//! Where the best selection at some prices meets the constraints, it is a selection like any other. The one with the
//! fewest bytes is kept, and its coldest entries are replaced by smaller ones as in Algorithm 1.

use crate::{
    bins::Bins,
    board::{Board, Place, Room},
    goal::{Goal, LeshyError},
    paper::refine,
    selection::Selection,
};
use mmulab_addr::BASE_BYTES;

/// Steps of a search along one price.
const STEPS: usize = 48;
/// Rounds over the prices of all budgets.
const ROUNDS: usize = 2;

/// Bytes that no selection can be below, if there is one.
///
/// # Errors
/// The goal makes no sense.
pub fn bound(bins: &Bins, goal: &Goal) -> Result<u64, LeshyError> {
    Ok(relax(bins, goal)?.0)
}

/// A selection that is best at some prices of entries and misses.
///
/// # Errors
/// The goal makes no sense, or no prices were found at which a best selection meets it.
pub fn by_prices(bins: &Bins, goal: &Goal) -> Result<Selection, LeshyError> {
    let Some((_, places)) = relax(bins, goal)?.1 else {
        return Err(LeshyError::Broken("no prices give one with these entries and this target".into()));
    };
    let mut board = Board::new(bins, Room::new(bins, goal)?);
    places.iter().for_each(|&at| board.choose(at));
    let wanted = goal.wanted(bins.total());
    for level in (0..bins.levels().len()).rev() {
        let rank = |at: &Place| bins.levels()[level].rank[at.1];
        let mut places: Vec<Place> = board.chosen().filter(|at| at.0 == level).collect();
        places.sort_unstable_by_key(rank);
        refine(&mut board, level, places, wanted);
    }
    Ok(Selection::new(bins, goal, board.entries()))
}

/// The bytes and the bins of a selection.
type Found = (u64, Vec<Place>);

/// The highest bound, and the least selection that meets the constraints.
fn relax(bins: &Bins, goal: &Goal) -> Result<(u64, Option<Found>), LeshyError> {
    goal.check()?;
    let mut relaxed = Relaxed {
        bins,
        budget_of: goal.budget_of(&bins.sizes())?,
        entries: goal.budgets.iter().map(|budget| goal.usable(budget) as f64).collect(),
        wanted: goal.wanted(bins.total()) as f64,
        values: bins.levels().iter().map(|level| vec![(0.0, 0.0); level.bins.len()]).collect(),
        found: None,
    };
    let largest = bins.levels().last().map_or(1, |level| level.order.base_pages()) as f64;
    let mut prices = vec![0.0; goal.budgets.len()];
    let mut best = relaxed.at(&prices);
    let rounds = if prices.len() == 1 { 1 } else { ROUNDS };
    let count = prices.len();
    for budget in (0..rounds).flat_map(|_| 0..count) {
        // The bound is concave in the price: thirds of the range that cannot have its top are left, one a step.
        let (mut low, mut high) = (0.0, largest);
        for _ in 0..STEPS {
            let (one, two) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            let mut with = |price: f64| {
                let mut moved = prices.clone();
                moved[budget] = price;
                relaxed.at(&moved)
            };
            let (left, right) = (with(one), with(two));
            if left < right {
                low = one;
            } else {
                high = two;
            }
            for (price, found) in [(one, left), (two, right)] {
                if found > best {
                    best = found;
                    prices[budget] = price;
                }
            }
        }
    }
    // Sums of millions of prices are rounded: a billionth is left for that.
    let pages = (best * (1.0 - 1e-9) - 1e-6).ceil().max(0.0);
    Ok((pages as u64 * BASE_BYTES, relaxed.found))
}

struct Relaxed<'a> {
    bins: &'a Bins,
    budget_of: Vec<usize>,
    entries: Vec<f64>,
    wanted: f64,
    /// Of each bin the best of its choices: its cost at the prices, in base pages, and the misses that it covers.
    values: Vec<Vec<(f64, f64)>>,
    /// The least selection so far that meets the constraints.
    found: Option<Found>,
}

impl Relaxed<'_> {
    /// The highest bound, in base pages, with these prices of entries.
    fn at(&mut self, prices: &[f64]) -> f64 {
        let paid: f64 = prices.iter().zip(&self.entries).map(|(price, entries)| price * entries).sum();
        let largest = self.bins.levels().last().map_or(1, |level| level.order.base_pages()) as f64;
        // At this price of a miss, every bin is worth its bytes and its entry.
        let (mut low, mut high) = (0.0, largest + prices.iter().fold(0.0, |most: f64, &price| most.max(price)));
        let mut best = f64::MIN;
        for _ in 0..STEPS {
            let miss = f64::midpoint(low, high);
            let (cost, covered) = self.choose(prices, miss);
            best = best.max(cost + miss * self.wanted - paid);
            if covered < self.wanted {
                low = miss;
            } else {
                high = miss;
            }
        }
        // Rounding errors aside, the least price at which the target is reached.
        if self.choose(prices, high).1 >= self.wanted {
            self.keep(prices, high);
        }
        best
    }

    /// Keeps what was chosen last, at these prices, if there are entries enough and it is the least.
    fn keep(&mut self, prices: &[f64], miss: f64) {
        let levels = self.bins.levels();
        let mut places = Vec::new();
        let mut open: Vec<Place> =
            (0..levels[levels.len() - 1].bins.len()).map(|index| (levels.len() - 1, index)).collect();
        while let Some((number, index)) = open.pop() {
            let (cost, _) = self.values[number][index];
            if cost >= 0.0 {
                continue;
            }
            let level = &levels[number];
            let weight = level.bins[index].weight(self.bins.weight()) as f64;
            let whole = level.order.base_pages() as f64 + prices[self.budget_of[number]] - miss * weight;
            // What `choose` took: the bin whole only where that is less than its parts.
            if number == 0 || whole <= cost {
                places.push((number, index));
            } else {
                open.extend(level.within(index..index + 1).map(|part| (number - 1, part)));
            }
        }
        let mut used = vec![0.0; self.entries.len()];
        places.iter().for_each(|&(number, _)| used[self.budget_of[number]] += 1.0);
        let bytes = places.iter().map(|&(number, _)| levels[number].order.bytes()).sum();
        let fits = used.iter().zip(&self.entries).all(|(used, entries)| used <= entries);
        let covered: u64 = places.iter().map(|&(number, index)| self.bins.weight_of(number, index)).sum();
        if fits && covered as f64 >= self.wanted && self.found.as_ref().is_none_or(|found| bytes < found.0) {
            self.found = Some((bytes, places));
        }
    }

    /// What is best for each bin at these prices: the cost of all, and the misses covered.
    fn choose(&mut self, prices: &[f64], miss: f64) -> (f64, f64) {
        for (number, level) in self.bins.levels().iter().enumerate() {
            let entry = level.order.base_pages() as f64 + prices[self.budget_of[number]];
            let (below, here) = self.values.split_at_mut(number);
            for (index, bin) in level.bins.iter().enumerate() {
                let weight = bin.weight(self.bins.weight()) as f64;
                let whole = (entry - miss * weight, weight);
                let mut parts = (0.0, 0.0);
                if let Some(below) = below.last() {
                    for part in &below[level.within(index..index + 1)] {
                        parts.0 += part.0;
                        parts.1 += part.1;
                    }
                }
                let least = if whole.0 < parts.0 { whole } else { parts };
                here[0][index] = if least.0 < 0.0 { least } else { (0.0, 0.0) };
            }
        }
        let all = self.values.last().map_or(&[][..], Vec::as_slice);
        all.iter().fold((0.0, 0.0), |sum, value| (sum.0 + value.0, sum.1 + value.1))
    }
}
