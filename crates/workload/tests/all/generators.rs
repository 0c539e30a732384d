//! What holds for every generator: it repeats, it can be entered anywhere, and its parts are the whole.

use mmulab_trace::{Batch, Event, Item, Ref, Source};
use mmulab_workload::{NAMES, open};

/// Keys that make a generator small enough for a test, yet larger than a batch.
fn small(name: &str) -> String {
    let keys = match name {
        "gups" => "footprint=1M&updates=20000",
        "sequential" | "stride" | "zipf" | "sparse" => "footprint=1M&references=20000",
        "first-touch" => "footprint=128M&touches=20000",
        "pointer-chase" => "footprint=1000K&references=20000",
        "btree" => "elements=5000&lookups=2000",
        "hashjoin" => "inner=4096&outer=3000",
        "xsbench" => "gridpoints=50&particles=10",
        "ycsb" => "workload=D&records=500&operations=2000",
        "tpcc" => "transactions=300",
        "bfs" => "scale=9",
        "friendster" => "scale=11&neighbours=16&most=60",
        "pagerank" | "graphchi" => "scale=8",
        "code-chain" => "rounds=500",
        "svm" => "instances=400&features=1000",
        "canneal" => "elements=1024&swaps=50",
        "streamcluster" => "points=100&dimensions=16",
        "freqmine" => "transactions=300&items=100",
        "astar" => "width=64",
        "events" => "modules=100&messages=100&events=1000",
        "mcf" => "nodes=300&arcs=3000&pivots=50",
        other => panic!("say which keys make {other} small enough for a test"),
    };
    format!("gen:{name}?{keys}")
}

/// A word and the thread that does it.
type Done = (u32, Ref);

fn rest(source: &mut dyn Source) -> Vec<Done> {
    let (mut all, mut batch, mut acting) = (Vec::new(), Batch::default(), 1);
    while source.next_batch(&mut batch).unwrap() {
        for word in &batch.refs {
            match word.item() {
                Item::Event(i) => {
                    if let Event::Switch { tid, .. } = batch.events[i] {
                        acting = tid.0;
                    }
                }
                _ => all.push((acting, *word)),
            }
        }
    }
    all
}

fn whole(text: &str) -> Vec<Done> {
    rest(open(text).unwrap().as_mut())
}

fn instructions(done: &[Done]) -> u64 {
    Batch { refs: done.iter().map(|(_, word)| *word).collect(), ..Batch::default() }.counts().0
}

/// A generator as it is, with its beginning, and with threads, if it can have them.
fn manners(name: &str) -> Vec<String> {
    let text = small(name);
    // Filling is two words a row: less is enough. The tables of TPC-C have ten million of them.
    let less = text.replace("footprint=1M", "footprint=64K").replace("footprint=1000K", "footprint=64000");
    let all = [text.clone(), format!("{text}&threads=3&quantum=5")].into_iter();
    let filled = ["&init=true", "&init=true&threads=2"].map(|more| format!("{less}{more}"));
    all.chain(filled.into_iter().filter(|_| name != "tpcc")).filter(|text| open(text).is_ok()).collect()
}

/// Whether threads can share the work of the generator called `name`.
fn is_shared(name: &str) -> bool {
    open(&format!("{}&threads=3", small(name))).is_ok()
}

#[test]
fn threads_take_the_rounds_in_turn() {
    let shared: Vec<_> = NAMES.iter().filter(|name| is_shared(name)).copied().collect();
    let intervals = ["gups", "sequential", "stride", "first-touch", "zipf", "sparse", "btree", "hashjoin", "xsbench"];
    let turns = ["ycsb", "tpcc", "bfs", "friendster", "pagerank", "graphchi", "canneal", "streamcluster"];
    assert!(NAMES.iter().all(|n| shared.contains(n) == (intervals.contains(n) || turns.contains(n))), "{shared:?}");
    for name in shared {
        let of = |done: &[Done], tid: u32| -> Vec<Ref> { done.iter().filter(|d| d.0 == tid).map(|d| d.1).collect() };
        let threads = whole(&format!("{}&threads=3&quantum=5", small(name)));
        let sizes: Vec<usize> = (1..=3).map(|tid| of(&threads, tid).len()).collect();
        assert!(sizes.iter().all(|n| n * 6 > threads.len()), "{name}: {sizes:?}");
        // Some algorithms do all in another order: the same work.
        let sorted = |done: &[Done]| {
            let mut bits: Vec<u64> = done.iter().map(|d| d.1.bits()).collect();
            bits.sort_unstable();
            bits
        };
        assert!(sorted(&whole(&small(name))) == sorted(&threads), "{name}");
        // Where threads have intervals of all, each does what that part does.
        if ["gups", "btree", "xsbench", "ycsb"].contains(&name) && !small(name).contains("workload=D") {
            for tid in 1..=3 {
                let part = whole(&format!("{}&part={}/3", small(name), tid - 1));
                assert!(of(&threads, tid) == of(&part, 1), "{name}, thread {tid}");
            }
        }
    }
}

#[test]
fn every_generator_repeats_and_says_how_long_it_is() {
    for text in NAMES.iter().flat_map(|name| manners(name)) {
        let all = whole(&text);
        assert!(all.len() > Batch::TARGET, "{text}: {} words", all.len());
        assert_eq!(all, whole(&text), "{text}");
        if let Some(told) = open(&text).unwrap().info().instructions {
            assert_eq!(told, instructions(&all), "{text}");
        }
    }
}

#[test]
fn parts_are_the_whole_in_whatever_order_they_run() {
    for text in NAMES.iter().flat_map(|name| manners(name)) {
        for count in if text.contains("init") || text.contains("threads") { &[3u64][..] } else { &[2, 3, 7] } {
            let part = |index: u64| format!("{text}&part={index}/{count}");
            let backwards: Vec<Vec<Done>> = (0..*count).rev().map(|i| whole(&part(i))).collect();
            let parts: Vec<&Vec<Done>> = backwards.iter().rev().collect();
            let mut together: Vec<Done> = parts.iter().flat_map(|p| p.iter().copied()).collect();
            let mut all = whole(&text);
            if together != all {
                // They take turns: the same references, each part's in the order of the whole.
                parts.iter().for_each(|p| assert!(is_within(p, &all), "{text}: not in the order of the whole"));
                together.sort_by_key(|(tid, r)| (*tid, r.bits()));
                all.sort_by_key(|(tid, r)| (*tid, r.bits()));
                assert_eq!(together.len(), all.len(), "{text} in {count}");
                assert!(together == all, "{text} in {count}");
            }
        }
    }
}

/// Whether `part` is `all` with some left out.
fn is_within(part: &[Done], all: &[Done]) -> bool {
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
