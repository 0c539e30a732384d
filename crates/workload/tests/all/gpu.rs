//! GPU programs: what every one must keep to, and what one of them computes.

use mmulab_trace::{Batch, Event, Item};
use mmulab_workload::open;
use std::collections::{BTreeMap, BTreeSet};

/// Small ones of all.
const PROGRAMS: &[&str] = &[
    "gen:gpu-backprop?inputs=512",
    "gen:gpu-bfs?nodes=1500&edges=5",
    "gen:gpu-btree?keys=100k&queries=40",
    "gen:gpu-hotspot?side=70&steps=3",
    "gen:gpu-kmeans?points=600&features=5&clusters=3",
    "gen:gpu-lud?side=64",
    "gen:gpu-nw?length=96",
    "gen:gpu-pathfinder?columns=700&rows=30",
    "gen:gpu-srad?side=64",
    "gen:gpu-streamcluster?points=1000&dimensions=6&candidates=2",
];

/// What a program does: mappings, and each instruction with its warp, its place, whether it stores, and its lanes.
struct Program {
    mappings: Vec<(u64, u64)>,
    instructions: Vec<(u32, u64, bool, Vec<u64>)>,
}

fn told(text: &str) -> Program {
    let mut source = open(text).unwrap();
    let (mut batch, mut warp) = (Batch::default(), 1);
    let mut told = Program { mappings: Vec::new(), instructions: Vec::new() };
    while source.next_batch(&mut batch).unwrap() {
        for word in &batch.refs {
            match word.item() {
                Item::Event(index) => match &batch.events[index] {
                    Event::Switch { tid, .. } => warp = tid.0,
                    Event::Mmap { addr, len, .. } => told.mappings.push((addr.raw(), addr.raw() + len)),
                    other => panic!("{other:?}"),
                },
                _ if word.is_fetch() => told.instructions.push((warp, word.va().raw(), false, Vec::new())),
                _ => {
                    let (_, _, write, lanes) = told.instructions.last_mut().unwrap();
                    assert!(lanes.is_empty() || *write == word.is_write(), "loads and stores of one instruction");
                    *write = word.is_write();
                    lanes.push(word.va().raw());
                }
            }
        }
    }
    told
}

#[test]
fn instructions_have_lanes_and_lie_in_mapped_memory() {
    for text in PROGRAMS {
        let told = told(&format!("{text}&cores=3&warps=20"));
        assert!(told.instructions.len() > 50, "{text}");
        for (warp, _, _, lanes) in &told.instructions {
            assert!(*warp < 60 && (1..=32).contains(&lanes.len()), "{text}: warp {warp} has {} lanes", lanes.len());
            for at in lanes {
                assert!(told.mappings.iter().any(|(from, to)| (from..to).contains(&at)), "{text}: {at:#x}");
            }
        }
    }
}

/// The machine decides when and where a warp runs, not what it does.
#[test]
fn a_program_does_the_same_on_every_machine() {
    for text in PROGRAMS {
        let sorted = |shape: &str| {
            let mut all: Vec<_> =
                told(&format!("{text}&{shape}")).instructions.into_iter().map(|(_, site, w, l)| (site, w, l)).collect();
            all.sort();
            all
        };
        let one = sorted("cores=1&warps=16");
        assert_eq!(one, sorted("cores=7&warps=33"), "{text}");
        assert_eq!(one, sorted("cores=128&warps=48"), "{text}");
    }
}

#[test]
fn blocks_are_spread_over_cores_and_all_warps_of_one_stay_together() {
    // 600 points are three blocks of eight warps; a core of 16 warps has room for two.
    let told = told("gen:gpu-kmeans?points=600&features=5&clusters=3&cores=4&warps=16");
    let cores: BTreeSet<u32> = told.instructions.iter().map(|(warp, ..)| warp / 16).collect();
    assert_eq!(cores, [0, 1, 2].into());
    let first: Vec<u32> = told.instructions.iter().take(6).map(|(warp, ..)| *warp).collect();
    assert_eq!(first, [0, 16, 32, 1, 17, 33], "a warp of each core in turn");
}

/// Every node that can be reached is marked as visited once, a level after another.
#[test]
fn breadth_first_search_visits_each_node_once() {
    let told = told("gen:gpu-bfs?nodes=1500&edges=5");
    // kernel2's third instruction stores to `visited`.
    let mut stores: BTreeMap<u64, u32> = BTreeMap::new();
    let visited = told.instructions.iter().filter(|(_, site, ..)| *site == 0x40_0000 + 12 * 64);
    visited.flat_map(|(.., lanes)| lanes).for_each(|at| *stores.entry(*at).or_default() += 1);
    assert!(stores.values().all(|n| *n == 1));
    // With one to five random edges nearly all nodes are reached, the first one is there from the beginning.
    assert!((1300..1500).contains(&stores.len()), "{}", stores.len());
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |text: &str| open(text).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused("gen:gpu-bfss").contains("did you mean 'gpu-bfs'?"));
    assert!(refused("gen:gpu-bfs?node=9").contains("did you mean 'nodes'?"));
    assert!(refused("gen:gpu-bfs?cores=0").contains("cores is '0': give 1 to 1024"));
    assert!(refused("gen:gpu-bfs?warps=8").contains("a block of gpu-bfs has 16"));
    assert!(refused("gen:gpu-nw?length=17").contains("multiple of 16"));
    assert!(refused("gen:gpu-lud?side=64&part=0/2").contains("unknown field `part`"));
}
