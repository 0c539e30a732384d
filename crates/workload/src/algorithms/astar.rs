//! Generator `astar`: A* searches between random cells of a square map. A round starts a search, or pops one cell from
//! a binary heap and visits its neighbours. Neighbours in the map are one cell or one map row away in memory. Heap
//! accesses jump between the levels of the heap.

use super::Describe;
use crate::{
    algorithm::Algorithm,
    heap::Heap,
    layout::Layout,
    memory::{Array, Kept, Memory, Setup},
    seed::{mix, nth},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A* searches for ways across a map.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AstarDesc {
    /// The map's width and height; a cell takes 80 bytes, 76 of which are kept in memory.
    /// Default 256.
    #[schemars(range(min = 16, max = 16384))]
    #[schemars(extend("x-power-of-two" = true))]
    width: u64,
    /// How many of 100 cells cannot be passed. Default 30.
    #[schemars(range(min = 0, max = 60))]
    obstacles: u64,
    /// Searches, each between random cells. Default 4.
    #[schemars(range(min = 1, max = 1 << 30))]
    searches: u64,
    /// Seed. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for AstarDesc {
    fn default() -> Self {
        Self { width: 256, obstacles: 30, searches: 4, seed: 1 }
    }
}

impl Describe for AstarDesc {
    const NAME: &str = "astar";
    type Algorithm = Astar;

    fn algorithm(&self) -> Result<Astar, String> {
        Ok(Astar::new(self.width, self.obstacles, self.searches, self.seed))
    }
}

/// A* on a grid of cells with four neighbours, as astar of SPEC CPU2006 searches its maps. The algorithm is from Hart,
/// Nilsson and Raphael, "A formal basis for the heuristic determination of minimum cost paths", 1968. A heap has the
/// cells by their way so far and the Manhattan distance left. Each cell has the way to it, and the number of the search
/// that saw it, so that nothing is cleared.
#[derive(Clone)]
pub struct Astar {
    layout: Layout,
    map: Array<u8>,
    /// The search that saw a cell last; the way to it.
    seen: Kept<u32>,
    cost: Kept<u32>,
    /// The search that is done with a cell.
    closed: Kept<u32>,
    open: Heap,
    width: u64,
    obstacles: u64,
    searches: u64,
    key: u64,
    search: u64,
    goal: u64,
    /// Of each search that found a way, how long it is.
    pub lengths: Vec<(u64, u32)>,
}

const CELL_BYTES: u64 = 12;

impl Astar {
    /// On a map of `width` by `width`.
    pub fn new(width: u64, obstacles: u64, searches: u64, seed: u64) -> Self {
        let cells = width * width;
        let mut layout = Layout::default();
        let map = layout.array(cells);
        let records = layout.records(cells, CELL_BYTES);
        let (seen, cost, closed) =
            (layout.keep(records.field(0)), layout.keep(records.field(4)), layout.keep(records.field(8)));
        // A cell is put in again when a shorter way is found: at most once from each neighbour.
        let open = Heap::new(&mut layout, 4 * cells + 1, 4);
        Self {
            layout,
            map,
            seen,
            cost,
            closed,
            open,
            width,
            obstacles,
            searches,
            key: mix(seed),
            search: 0,
            goal: 0,
            lengths: Vec::new(),
        }
    }

    fn is_free(&self, cell: u64) -> bool {
        nth(self.key, cell) % 100 >= self.obstacles
    }

    /// A random cell that is free: the first one tried that is.
    fn cell(&self, end: u64) -> u64 {
        let tries =
            (0..1 << 10).map(|i| nth(!self.key ^ mix(2 * self.search + end), i) & (self.width * self.width - 1));
        tries.clone().find(|&cell| self.is_free(cell)).unwrap_or(0)
    }

    #[inline(always)]
    fn far(&self, cell: u64) -> u64 {
        let at = |cell: u64| (cell & (self.width - 1), cell / self.width);
        let ((x, y), (gx, gy)) = (at(cell), at(self.goal));
        x.abs_diff(gx) + y.abs_diff(gy)
    }

    #[inline(always)]
    fn reach(&mut self, m: &mut impl Memory, cell: u64, cost: u32) {
        let search = self.search as u32 + 1;
        m.block(3, 10);
        m.put(self.seen, cell, search);
        m.put(self.cost, cell, cost);
        self.open.push(m, u64::from(cost) + self.far(cell), cell);
    }

    #[inline(always)]
    fn visit(&mut self, m: &mut impl Memory, cell: u64) {
        let search = self.search as u32 + 1;
        m.block(1, 8);
        if m.get(self.closed, cell) == search {
            return;
        }
        m.put(self.closed, cell, search);
        let cost = m.get(self.cost, cell) + 1;
        let (x, y) = (cell & (self.width - 1), cell / self.width);
        let beside = [
            (x > 0).then(|| cell - 1),
            (x + 1 < self.width).then(|| cell + 1),
            (y > 0).then(|| cell - self.width),
            (y + 1 < self.width).then(|| cell + self.width),
        ];
        for next in beside.into_iter().flatten() {
            m.block(2, 9);
            if m.load(self.map, next, || u8::from(self.is_free(next))) == 0 {
                continue;
            }
            if m.get(self.seen, next) != search || cost < m.get(self.cost, next) {
                self.reach(m, next, cost);
            }
        }
    }
}

impl Algorithm for Astar {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        None
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.map, |cell| u8::from(self.is_free(cell)));
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        if self.search == self.searches {
            return false;
        }
        m.block(0, 12);
        if self.open.len() == 0 {
            self.goal = self.cell(1);
            self.reach(m, self.cell(0), 0);
            return true;
        }
        match self.open.pop(m) {
            Some((key, cell)) if cell == self.goal => {
                self.lengths.push((self.search, key as u32));
                self.open.clear();
            }
            Some((_, cell)) => self.visit(m, cell),
            None => {}
        }
        self.search += u64::from(self.open.len() == 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model;
    use std::collections::{BTreeMap, VecDeque};

    #[test]
    fn ways_are_as_short_as_those_of_a_search_without_a_goal() {
        let found = model(Astar::new(32, 35, 40, 3)).algorithm;
        let mut expected = Vec::new();
        for search in 0..40 {
            let mut k = Astar::new(32, 35, 40, 3);
            k.search = search;
            let (from, to) = (k.cell(0), k.cell(1));
            let mut far = BTreeMap::from([(from, 0u32)]);
            let mut queue = VecDeque::from([from]);
            while let Some(cell) = queue.pop_front() {
                let (x, y) = (cell as i64 % 32, cell as i64 / 32);
                for (x, y) in [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)] {
                    let next = (y * 32 + x) as u64;
                    if (0..32).contains(&x) && (0..32).contains(&y) && k.is_free(next) && !far.contains_key(&next) {
                        far.insert(next, far[&cell] + 1);
                        queue.push_back(next);
                    }
                }
            }
            expected.extend(far.get(&to).map(|&length| (search, length)));
        }
        assert!(expected.len() > 10 && expected.len() < 40, "some have a way, some have none");
        assert_eq!(found.lengths, expected);
    }
}
