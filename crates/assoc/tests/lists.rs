//! The sets against lists in order of use.

use mmulab_assoc::{EMPTY, Keys, Replacement, Sets, Store, Ways, each, geometry};
use proptest::prelude::*;

/// What a set would be if nobody cared for speed.
enum Naive {
    Lru(Vec<u64>),
    Tree { ways: Vec<Option<u64>>, bits: Vec<bool> },
}

impl Naive {
    fn touch_tree(ways: usize, bits: &mut [bool], way: usize) {
        let (mut low, mut high, mut node) = (0, ways, 1);
        while high - low > 1 {
            let middle = (low + high) / 2;
            bits[node] = way < middle;
            (low, high, node) = if way < middle { (low, middle, 2 * node) } else { (middle, high, 2 * node + 1) };
        }
    }

    fn victim_tree(ways: usize, bits: &[bool]) -> usize {
        let (mut low, mut high, mut node) = (0, ways, 1);
        while high - low > 1 {
            let middle = (low + high) / 2;
            (low, high, node) = if bits[node] { (middle, high, 2 * node + 1) } else { (low, middle, 2 * node) };
        }
        low
    }

    /// Whether it was there, and what went.
    fn access(&mut self, key: u64, capacity: usize) -> (bool, Option<u64>) {
        match self {
            Self::Lru(keys) => {
                let there = keys.iter().position(|&k| k == key).map(|at| keys.remove(at)).is_some();
                keys.push(key);
                let gone = (keys.len() > capacity).then(|| keys.remove(0));
                (there, gone)
            }
            Self::Tree { ways, bits } => {
                let at = ways.iter().position(|&k| k == Some(key));
                let way = at.or_else(|| ways.iter().position(Option::is_none));
                let way = way.unwrap_or_else(|| Self::victim_tree(capacity, bits));
                let gone = ways[way].filter(|_| at.is_none());
                ways[way] = Some(key);
                Self::touch_tree(capacity, bits, way);
                (at.is_some(), gone)
            }
        }
    }
}

proptest! {
    #[test]
    fn hits_and_victims_are_those_of_a_list(
        tree in any::<bool>(),
        power in 0u32..5,
        extra in 0usize..24,
        keys in prop::collection::vec(0u64..60, 1..400),
    ) {
        let ways = if tree { 1 << power } else { extra + 1 };
        let replacement = if tree { Replacement::TreePlru } else { Replacement::Lru };
        let mut sets = Sets::new(1, ways, replacement, 0);
        let mut naive = if tree {
            Naive::Tree { ways: vec![None; ways], bits: vec![false; 2 * ways] }
        } else {
            Naive::Lru(Vec::new())
        };
        for key in keys {
            let put = sets.put(0, key);
            prop_assert_eq!((put.present, put.replaced), naive.access(key, ways));
            prop_assert_eq!(sets.find(0, key), Some(put.way));
        }
    }

    #[test]
    fn a_demoted_key_is_the_first_of_the_list(
        ways in 1usize..24,
        keys in prop::collection::vec((0u64..60, any::<bool>()), 1..400),
    ) {
        let mut store = Store::new(1, ways, Replacement::Lru, 0);
        let mut list: Vec<u64> = Vec::new();
        for (key, demote) in keys {
            let (there, gone) = each!(&mut store, keys => {
                let found = keys.find(0, key);
                let (way, gone) = found.map_or_else(|| keys.admit(0, key, true), |way| (way, EMPTY));
                keys.touch(0, way);
                if demote {
                    keys.demote(0, way);
                }
                (found.is_some(), gone)
            });
            prop_assert_eq!(there, list.contains(&key));
            let full = !there && list.len() == ways;
            prop_assert_eq!(gone, if full { list.remove(0) } else { EMPTY });
            list.retain(|&k| k != key);
            list.insert(if demote { 0 } else { list.len() }, key);
        }
    }

    #[test]
    fn random_replacement_repeats_and_stays_in_the_set(seed in any::<u64>(), ways in 1usize..20) {
        let run = || {
            let mut sets = Sets::new(4, ways, Replacement::Random, seed);
            (0..500u64).map(|k| sets.put(sets.set_of(k), k).way).collect::<Vec<_>>()
        };
        let first = run();
        prop_assert!(first.iter().all(|&w| w < ways));
        prop_assert_eq!(first, run());
    }
}

#[test]
fn impossible_shapes_are_refused_with_a_remedy() {
    assert_eq!(geometry(1536, Ways::Count(12), Replacement::Lru), Ok((128, 12)));
    assert_eq!(geometry(48, Ways::Full, Replacement::Lru), Ok((1, 48)));
    let message = geometry(64, Ways::Count(5), Replacement::Lru).unwrap_err();
    assert_eq!(message, "5 ways do not divide 64 entries; 4 would");
    assert!(geometry(60, Ways::Count(12), Replacement::TreePlru).unwrap_err().contains("power of two"));
    assert!(geometry(0, Ways::Full, Replacement::Lru).is_err());
    assert!(geometry(512, Ways::Full, Replacement::Lru).is_err());
}
