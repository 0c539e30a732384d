//! A graph in next to no memory: degrees, rows and neighbours are computed from the seed.
//!
//! The degrees follow a power law. Every group of vertices has the same ones, each group from another beginning, so
//! that a row's place needs one table. The slots of edges are shuffled, and neighbours in that order are the ends of an
//! edge:
//!
//! ```text
//! slot --shuffle--> place --other of the pair--> place --shuffle back--> slot --its row--> neighbour
//! ```
//!
//! So each edge goes both ways, and any end is as likely to meet any other. This is the configuration model (M. Newman,
//! "Networks", chapter 13). It has few loops and double edges, and no communities.

use super::Graph;
use crate::seed::{Shuffle, below, mix, nth};
use std::sync::Arc;

/// Most vertices of a group.
const GROUP: u64 = 4096;
/// Exponents of the power law that are tried, and how often the range is halved.
const EXPONENTS: (f64, f64) = (0.0, 8.0);
const HALVINGS: u32 = 60;

/// A graph whose degrees follow a power law.
#[derive(Clone, Debug)]
pub struct Drawn {
    vertices: u64,
    /// Where the rows of a group begin that has its least degree first; its slots at the end.
    begins: Arc<[u64]>,
    shuffle: Shuffle,
    key: u64,
}

impl Drawn {
    /// 2^`scale` vertices, with `mean` neighbours on average and 1 to `most`.
    ///
    /// # Errors
    /// No power law has this mean.
    pub fn new(scale: u64, mean: f64, most: u64, seed: u64) -> Result<Self, String> {
        let vertices = 1u64 << scale;
        let group = vertices.min(GROUP) as usize;
        if !(1.0..=most as f64 / 2.0).contains(&mean) {
            return Err(format!("{mean} neighbours on average, of at most {most}: give 1 to half of the most"));
        }
        let mut degrees = degrees(group, mean, most);
        // Two slots make an edge.
        *degrees.last_mut().unwrap_or(&mut 0) += degrees.iter().sum::<u64>() % 2;
        let mut begins = vec![0];
        for degree in degrees {
            begins.push(begins[begins.len() - 1] + degree);
        }
        let slots = begins[group] * (vertices / group as u64);
        let shuffle = Shuffle::new(slots.next_power_of_two(), !seed);
        Ok(Self { vertices, begins: begins.into(), shuffle, key: mix(seed) })
    }

    fn group(&self) -> u64 {
        self.begins.len() as u64 - 1
    }

    fn slots_of_group(&self) -> u64 {
        self.begins[self.begins.len() - 1]
    }

    /// Which vertex of the order of degrees is the first one of a group.
    #[inline(always)]
    fn first(&self, group: u64) -> u64 {
        below(nth(self.key, group), self.group())
    }

    /// The vertex whose row has `slot`.
    #[inline(always)]
    fn owner(&self, slot: u64) -> u64 {
        let (all, size) = (self.slots_of_group(), self.group());
        let (group, within) = (slot / all, slot % all);
        let first = self.first(group);
        let in_order = (self.begins[first as usize] + within) % all;
        let place = self.begins.partition_point(|&begin| begin <= in_order) as u64 - 1;
        group * size + (place + size - first) % size
    }

    /// The slot of an edge's other end.
    #[inline(always)]
    fn partner(&self, slot: u64) -> u64 {
        let slots = self.slots();
        // A shuffle of more numbers than there are slots comes to one of them at last.
        let mut at = self.shuffle.forth(slot);
        while at >= slots {
            at = self.shuffle.forth(at);
        }
        at = self.shuffle.back(at ^ 1);
        while at >= slots {
            at = self.shuffle.back(at);
        }
        at
    }
}

/// `count` degrees from small to large: quantiles of a power law from 1 to `most` whose mean is `mean`.
fn degrees(count: usize, mean: f64, most: u64) -> Vec<u64> {
    let of = |exponent: f64| -> Vec<u64> {
        let flat = 1.0 - exponent;
        let top = most as f64 + 1.0;
        let quantile = |at: usize| {
            let share = (at as f64 + 0.5) / count as f64;
            // The inverse of the distribution function of x^-exponent between 1 and `top`.
            let x = if flat.abs() < 1e-9 {
                top.powf(share)
            } else {
                (1.0 + share * (top.powf(flat) - 1.0)).powf(1.0 / flat)
            };
            (x as u64).clamp(1, most)
        };
        (0..count).map(quantile).collect()
    };
    let (mut low, mut high) = EXPONENTS;
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        let found = of(middle).iter().sum::<u64>() as f64 / count as f64;
        if found > mean { low = middle } else { high = middle }
    }
    of(high)
}

impl Graph for Drawn {
    fn vertices(&self) -> u64 {
        self.vertices
    }

    fn room(&self) -> u64 {
        self.slots()
    }

    #[inline(always)]
    fn slots(&self) -> u64 {
        self.slots_of_group() * (self.vertices / self.group())
    }

    #[inline(always)]
    fn offset(&self, v: u64) -> u64 {
        let (all, size) = (self.slots_of_group(), self.group());
        let (group, within) = (v / size, v % size);
        let first = self.first(group);
        let begin = self.begins[((first + within) % size) as usize];
        group * all + (begin + all - self.begins[first as usize]) % all
    }

    #[inline(always)]
    fn neighbour(&self, slot: u64) -> u32 {
        self.owner(self.partner(slot)) as u32
    }

    fn bytes(&self) -> u64 {
        8 * self.begins.len() as u64
    }

    fn build(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(graph: &Drawn, v: u64) -> std::ops::Range<u64> {
        graph.offset(v)..graph.offset(v) + graph.degree(v)
    }

    #[test]
    fn rows_follow_each_other_and_edges_go_both_ways() {
        for (scale, mean, most) in [(4, 3.0, 9), (13, 5.5, 200)] {
            let graph = Drawn::new(scale, mean, most, 3).unwrap();
            let mut next = 0;
            for v in 0..graph.vertices() {
                let row = row(&graph, v);
                assert_eq!(row.start, next);
                assert!((1..=most + 1).contains(&(row.end - row.start)), "{v}");
                for slot in row.clone() {
                    assert_eq!(graph.owner(slot), v);
                    let other = graph.partner(slot);
                    assert!(other != slot && graph.partner(other) == slot);
                    assert_eq!(u64::from(graph.neighbour(other)), v);
                }
                next = row.end;
            }
            assert_eq!((next, graph.offset(graph.vertices())), (graph.slots(), graph.slots()));
            assert!((next as f64 / graph.vertices() as f64 / mean - 1.0).abs() < 0.1, "{next}");
        }
    }

    #[test]
    fn neighbours_are_met_as_often_as_they_have_edges_and_vertices_of_a_group_differ() {
        let graph = Drawn::new(14, 8.0, 500, 1).unwrap();
        let mut met = vec![0; 1 << 14];
        (0..graph.slots()).for_each(|slot| met[graph.neighbour(slot) as usize] += 1);
        assert!((0..1 << 14).all(|v| met[v as usize] == graph.degree(v)));
        let degrees = |group: u64| (0..4096).map(|v| graph.degree(group * 4096 + v)).collect::<Vec<_>>();
        assert_ne!(degrees(0), degrees(1));
        let (mut a, mut b) = (degrees(0), degrees(1));
        a.sort_unstable();
        b.sort_unstable();
        assert_eq!(a, b);
    }

    #[test]
    fn a_mean_that_no_power_law_has_is_refused() {
        let wrong = Drawn::new(10, 60.0, 100, 1).unwrap_err();
        assert_eq!(wrong, "60 neighbours on average, of at most 100: give 1 to half of the most");
    }
}
