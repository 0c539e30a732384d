//! What a selection of page sizes is asked for, and why there may be none.

use mmulab_addr::PageOrder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// All misses, in the unit of [`Goal::target`].
pub const WHOLE: u32 = 100_000;

/// Weight of a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// One.
    #[default]
    Misses,
    /// The cycles of its walk.
    Latency,
}

/// Entries of a TLB for pages of some sizes. A machine whose TLB is split has several.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The page sizes that share the entries.
    pub sizes: Vec<PageOrder>,
    /// The entries.
    pub entries: u64,
}

/// The request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Goal {
    /// The share of the misses to cover, in 1/100000 ([`WHOLE`]).
    pub target: u32,
    /// The entries there are. No page size is in two of them.
    pub budgets: Vec<Budget>,
    /// Percent of each budget to use. Below 100 leaves entries to pages without samples.
    pub slack: u32,
    /// Weight of a miss.
    pub weight: Weight,
}

/// Why there is no selection.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LeshyError {
    /// No samples.
    #[error("the profile has no samples: run a longer part of the program, or sample more misses (a smaller period)")]
    Empty,
    /// No latencies to weigh misses by.
    #[error("the profile has no walk latencies to weigh misses by: weigh by misses")]
    NoLatency,
    /// No entries.
    #[error("a budget of {entries} entries at {slack} % has room for no translation: give more entries")]
    NoEntries {
        /// Asked for.
        entries: u64,
        /// Percent of them to use.
        slack: u32,
    },
    /// A share that is none.
    #[error("a target of {0} of 100000 misses: give more than 0 % and at most 100 %")]
    Target(u32),
    /// Sizes that make no bins.
    #[error("page sizes {0}: give at least one, each once, none above 1G")]
    Sizes(String),
    /// A size has no entries, or is in two budgets.
    #[error("the page size {size} is in {times} budgets of TLB entries: it must be in exactly one")]
    Budgets {
        /// The size.
        size: PageOrder,
        /// How many have it.
        times: usize,
    },
    /// The target is out of reach.
    #[error(
        "{entries} entries of {size} cover {reached} of {wanted} misses to be covered: give at least {needed} entries, \
         or a lower target"
    )]
    OutOfReach {
        /// The size with the best cover.
        size: PageOrder,
        /// The entries for it.
        entries: u64,
        /// The misses they cover, as weighed.
        reached: u64,
        /// The misses to cover.
        wanted: u64,
        /// The entries of that size that would do.
        needed: u64,
    },
    /// Bins that are no selection.
    #[error("the chosen bins are not a selection: {0}")]
    Broken(String),
}

impl Goal {
    /// The misses to cover of `total`: rounded up, so that the share is reached.
    pub fn wanted(&self, total: u64) -> u64 {
        (u128::from(total) * u128::from(self.target)).div_ceil(u128::from(WHOLE)) as u64
    }

    /// The entries of a budget that may be used.
    pub fn usable(&self, budget: &Budget) -> u64 {
        (u128::from(budget.entries) * u128::from(self.slack) / 100).min(u128::from(u64::MAX)) as u64
    }

    /// The number of the budget of each of `sizes`.
    pub(crate) fn budget_of(&self, sizes: &[PageOrder]) -> Result<Vec<usize>, LeshyError> {
        let one = |&size: &PageOrder| {
            let mut has = self.budgets.iter().enumerate().filter(|(_, budget)| budget.sizes.contains(&size));
            match (has.next(), has.count()) {
                (Some((number, _)), 0) => Ok(number),
                (first, more) => Err(LeshyError::Budgets { size, times: usize::from(first.is_some()) + more }),
            }
        };
        sizes.iter().map(one).collect()
    }

    /// Whether the numbers make sense.
    pub(crate) fn check(&self) -> Result<(), LeshyError> {
        if self.target == 0 || self.target > WHOLE {
            return Err(LeshyError::Target(self.target));
        }
        match self.budgets.iter().find(|budget| self.usable(budget) == 0) {
            Some(budget) => Err(LeshyError::NoEntries { entries: budget.entries, slack: self.slack }),
            None => Ok(()),
        }
    }
}
