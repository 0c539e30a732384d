//! What holds for every generator: it repeats, it can be entered anywhere, and its parts are the whole.

use mmulab_trace::{Batch, Item, Ref, Source};
use mmulab_workload::{NAMES, open};

/// Keys that make a generator small enough for a test, yet larger than a batch.
fn small(name: &str) -> String {
    let keys = match name {
        "gups" => "footprint=1M&updates=20000",
        "sequential" | "stride" | "zipf" | "sparse" => "footprint=1M&references=20000",
        "pointer-chase" => "footprint=1000K&references=20000",
        "btree" => "elements=5000&lookups=2000",
        "hashjoin" => "inner=4096&outer=3000",
        "xsbench" => "gridpoints=50&particles=10",
        "ycsb" => "workload=D&records=500&operations=2000",
        "tpcc" => "transactions=300",
        "bfs" => "scale=9",
        "pagerank" | "graphchi" => "scale=8",
        "code-chain" => "rounds=500",
        "svm" => "instances=400&features=1000",
        "canneal" => "elements=1024&swaps=50",
        "streamcluster" => "points=100&dimensions=16",
        "freqmine" => "transactions=300&items=100",
        "astar" => "width=64",
        "events" => "modules=100&messages=100&events=1000",
        "mcf" => "nodes=300&arcs=3000&pivots=50",
        _ => "",
    };
    format!("gen:{name}?{keys}")
}

fn rest(source: &mut dyn Source) -> Vec<Ref> {
    let (mut all, mut batch) = (Vec::new(), Batch::default());
    while source.next_batch(&mut batch).unwrap() {
        all.extend(batch.refs.iter().filter(|r| !matches!(r.item(), Item::Event(_))));
    }
    all
}

fn whole(text: &str) -> Vec<Ref> {
    rest(open(text).unwrap().as_mut())
}

fn instructions(refs: &[Ref]) -> u64 {
    Batch { refs: refs.to_vec(), events: Vec::new() }.counts().0
}

#[test]
fn every_generator_repeats_and_says_how_long_it_is() {
    for name in NAMES {
        let text = small(name);
        let all = whole(&text);
        assert!(all.len() > Batch::TARGET, "{text}: {} words", all.len());
        assert_eq!(all, whole(&text), "{text}");
        if let Some(told) = open(&text).unwrap().info().instructions {
            assert_eq!(told, instructions(&all), "{text}");
        }
    }
}

#[test]
fn every_generator_can_be_entered_anywhere() {
    for name in NAMES {
        let text = small(name);
        let all = whole(&text);
        let total = instructions(&all);
        for asked in [0, 1, 1000, total / 3, total - 1, total, total + 5] {
            let mut source = open(&text).unwrap();
            let sought = source.skip_to(asked, &mut |_| true).unwrap().unwrap();
            assert!(sought.instructions <= asked && !sought.events.is_empty(), "{text} from {asked}");
            let after = rest(source.as_mut());
            let before = &all[..all.len() - after.len()];
            assert_eq!(instructions(before), sought.instructions, "{text} from {asked}");
            assert_eq!(all[before.len()..], after, "{text} from {asked}");
        }
    }
}

#[test]
fn parts_are_the_whole_in_whatever_order_they_run() {
    for name in NAMES {
        let text = small(name);
        for count in [2u64, 3, 7] {
            let part = |index: u64| format!("{text}&part={index}/{count}");
            let backwards: Vec<Vec<Ref>> = (0..count).rev().map(|i| whole(&part(i))).collect();
            let parts: Vec<&Vec<Ref>> = backwards.iter().rev().collect();
            let mut together: Vec<Ref> = parts.iter().flat_map(|p| p.iter().copied()).collect();
            let mut all = whole(&text);
            if together != all {
                // They take turns: the same references, each part's in the order of the whole.
                parts.iter().for_each(|p| assert!(is_within(p, &all), "{text}: not in the order of the whole"));
                together.sort_by_key(|r| r.bits());
                all.sort_by_key(|r| r.bits());
                assert_eq!(together.len(), all.len(), "{text} in {count}");
                assert!(together == all, "{text} in {count}");
            }
        }
    }
}

/// Whether `part` is `all` with some left out.
fn is_within(part: &[Ref], all: &[Ref]) -> bool {
    let mut left = all.iter();
    part.iter().all(|one| left.any(|other| other == one))
}

#[test]
fn what_memory_cannot_hold_is_an_error() {
    // 200 GiB are within what is allowed; whether they are to be had is the system's to say.
    let mut source = open("gen:svm?instances=26G&features=16&nonzeros=1&inner=1").unwrap();
    match source.next_batch(&mut Batch::default()) {
        Ok(more) => assert!(more),
        Err(error) => assert!(error.to_string().contains("must be kept in memory"), "{error}"),
    }
}
