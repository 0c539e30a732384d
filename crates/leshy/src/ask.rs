//! A question to Leshy as JSON: which method, over which sizes, with which entries; and the answer with its hints.

use crate::{
    artifact::artifact,
    bins::Bins,
    bound::{bound, by_prices},
    file::ProfileFile,
    goal::{Budget, Goal, LeshyError, Weight},
    hints::{HintFile, HintSource},
    paper::paper,
    selection::Selection,
};
use mmulab_addr::PageOrder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The page sizes of the paper: it leaves 1 GiB as future work.
const SIZES: [PageOrder; 4] = [PageOrder::P4K, PageOrder::P64K, PageOrder::P2M, PageOrder::P32M];

/// How sizes are selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// The published artifact's heuristic.
    Artifact,
    /// The paper's Algorithm 1.
    #[default]
    Paper,
    /// The best at some prices of entries and misses (Lagrangian relaxation).
    Prices,
    /// Solved elsewhere, by integer programming: [`Ask::chosen`].
    Optimum,
}

/// What is asked.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// How sizes are selected.
    #[serde(default)]
    pub method: Method,
    /// The page sizes. Default: 4K, 64K, 2M and 32M, as far as the profile's TLB holds them.
    #[serde(default)]
    pub sizes: Option<Vec<PageOrder>>,
    /// The entries. Default: those of the profile's TLB.
    #[serde(default)]
    pub budgets: Option<Vec<Budget>>,
    /// The share of the misses, in 1/100000.
    pub target: u32,
    /// Percent of the entries.
    pub slack: u32,
    /// What misses are weighed by.
    #[serde(default)]
    pub weight: Weight,
    /// The bins that were chosen elsewhere: size and number of the first page.
    #[serde(default)]
    pub chosen: Vec<(PageOrder, u64)>,
}

/// A selection with its hints.
#[derive(Serialize)]
pub struct Answer {
    /// Bytes of all entries: what Equation 1 minimises.
    pub bytes: u64,
    /// Entries by size, those of the smallest size too.
    pub by_size: BTreeMap<PageOrder, u64>,
    /// Misses covered, as weighed.
    pub covered: u64,
    /// Misses to cover.
    pub wanted: u64,
    /// All misses.
    pub total: u64,
    /// The size that the method begins with.
    pub initial: Option<PageOrder>,
    /// Entries in place of those asked for, where these do not reach the target.
    pub raised: Option<u64>,
    /// The hints.
    pub file: HintFile,
}

/// The bins among which an optimum is found, for one page size.
#[derive(Serialize)]
pub struct Candidates {
    /// The size.
    pub size: PageOrder,
    /// Bytes.
    pub bytes: u64,
    /// The number of its budget.
    pub budget: usize,
    /// First pages.
    pub pages: Vec<u64>,
    /// Weights.
    pub weights: Vec<u64>,
    /// The bin of the next larger size around each; those of the largest size have none.
    pub parents: Vec<u32>,
}

/// An optimisation problem: Equation 1.
#[derive(Serialize)]
pub struct Problem {
    /// The misses to cover.
    pub wanted: u64,
    /// The entries of each budget.
    pub entries: Vec<u64>,
    /// Bytes that no selection can be below, if there is one.
    pub bound: u64,
    /// The bins, smallest size first.
    pub levels: Vec<Candidates>,
}

impl Ask {
    fn goal(&self, file: &ProfileFile) -> Result<(Goal, Vec<PageOrder>), LeshyError> {
        let budgets = self.budgets.clone().unwrap_or_else(|| file.head.tlb.clone());
        let is_held = |size: &PageOrder| budgets.iter().any(|budget| budget.sizes.contains(size));
        let usual = || SIZES.into_iter().filter(is_held).collect();
        let sizes: Vec<PageOrder> = self.sizes.clone().unwrap_or_else(usual);
        // A budget none of whose sizes is asked for limits nothing.
        let budgets = budgets.into_iter().filter(|b| b.sizes.iter().any(|size| sizes.contains(size))).collect();
        Ok((Goal { target: self.target, budgets, slack: self.slack, weight: self.weight }, sizes))
    }

    fn bins(&self, file: &ProfileFile) -> Result<(Bins, Goal), LeshyError> {
        let (goal, sizes) = self.goal(file)?;
        Ok((Bins::new(&file.profile(), &sizes, self.weight)?, goal))
    }

    /// The selection, as hints.
    ///
    /// # Errors
    /// There is none.
    pub fn answer(&self, file: &ProfileFile) -> Result<Answer, LeshyError> {
        let (bins, goal) = self.bins(file)?;
        let made = match self.method {
            Method::Artifact => artifact(&bins, &goal)?,
            Method::Paper => paper(&bins, &goal)?,
            Method::Prices => by_prices(&bins, &goal)?,
            Method::Optimum => Selection::of(&bins, &goal, &self.chosen)?,
        };
        let head = &file.head;
        let source = HintSource {
            trace: head.trace.clone(),
            machine: head.machine.clone(),
            policy: head.policy.clone(),
            sampler: head.sampler.clone(),
            period: head.period,
            method: word(self.method),
            weight: word(self.weight),
            target: self.target,
            entries: made.raised.unwrap_or_else(|| goal.budgets.iter().map(|budget| goal.usable(budget)).sum()),
            covered: made.covered,
            total: made.total,
        };
        let smallest = bins.levels()[0].order;
        Ok(Answer {
            bytes: made.bytes(),
            by_size: made.by_size(),
            covered: made.covered,
            wanted: made.wanted,
            total: made.total,
            initial: made.initial,
            raised: made.raised,
            file: HintFile::new(source, file.hints(&made.entries, smallest)),
        })
    }

    /// Equation 1 over the bins of a profile.
    ///
    /// # Errors
    /// The goal makes no sense.
    pub fn problem(&self, file: &ProfileFile) -> Result<Problem, LeshyError> {
        let (bins, goal) = self.bins(file)?;
        goal.check()?;
        let budget_of = goal.budget_of(&bins.sizes())?;
        let level = |(level, budget): (&crate::Level, usize)| Candidates {
            size: level.order,
            bytes: level.order.bytes(),
            budget,
            pages: level.bins.iter().map(|bin| bin.first_page).collect(),
            weights: level.bins.iter().map(|bin| bin.weight(self.weight)).collect(),
            parents: level.parent.clone(),
        };
        Ok(Problem {
            wanted: goal.wanted(bins.total()),
            entries: goal.budgets.iter().map(|budget| goal.usable(budget)).collect(),
            bound: bound(&bins, &goal)?,
            levels: bins.levels().iter().zip(budget_of).map(level).collect(),
        })
    }
}

fn word<T: Serialize>(value: T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_files() {
        assert_eq!(
            [word(Method::Artifact), word(Method::Optimum), word(Weight::Latency)],
            ["artifact", "optimum", "latency"]
        );
    }
}
