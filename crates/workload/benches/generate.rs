//! References a second that each generator gives on one core: `cargo bench -p mmulab-workload -- [NAME|gen:...]...`. A
//! name alone has the keys that this benchmark gives it. `--references=N` sets how many references a measurement takes
//! at least, so that `scripts/count_instructions.py` can take the difference of two runs.

use mmulab_trace::Batch;
use std::time::{Duration, Instant};

/// References that a measurement takes at least, unless `--references=N` says otherwise. What is done once then
/// weighs little.
const ENOUGH: u64 = 20_000_000;
/// Each measurement is repeated, and the best one told: what else runs on the machine only slows it down.
const ROUNDS: usize = 3;
/// Keys that make a generator large enough to be measured; others have their defaults.
const LARGER: &[(&str, &str)] = &[
    ("gups", "footprint=8G&updates=100M"),
    ("sequential", "footprint=8G&references=100M"),
    ("stride", "footprint=8G&references=100M"),
    ("zipf", "footprint=8G&references=100M"),
    ("pointer-chase", "footprint=8G&references=100M"),
    ("sparse", "footprint=8G&references=100M"),
    ("btree", "elements=400M&lookups=100M"),
    ("hashjoin", "inner=1073741824&outer=1G&build=0"),
    ("xsbench", "size=XL&particles=1M"),
    ("ycsb", "workload=A&records=100M&operations=100M"),
    ("tpcc", "warehouses=1000&transactions=10M"),
    ("code-chain", "rounds=1M"),
    ("bfs", "scale=20&searches=10"),
    ("pagerank", "scale=20&iterations=10"),
    ("graphchi", "scale=18&iterations=10"),
    ("svm", "instances=1M&features=1M"),
    ("canneal", "elements=4194304&swaps=15000"),
    ("streamcluster", "points=200000"),
    ("freqmine", "transactions=50000&items=10000"),
    ("astar", "width=2048&searches=100"),
    ("events", "modules=1M&messages=1M&events=100M"),
    ("mcf", "nodes=1M&arcs=10M&pivots=100k"),
];

fn main() {
    let (mut asked, mut enough) = (Vec::new(), ENOUGH);
    for word in std::env::args().skip(1) {
        match word.strip_prefix("--references=") {
            Some(count) => enough = count.parse().expect("--references is a number"),
            // Cargo adds --bench.
            None if word.starts_with('-') => {}
            None if word.contains(':') => asked.push(word),
            None => asked.push(larger(&word)),
        }
    }
    if asked.is_empty() {
        asked = mmulab_workload::NAMES.iter().map(|name| larger(name)).collect();
    }
    println!("{:<60} {:>12}", "generator", "refs/s");
    for text in asked {
        let (references, time) = (0..ROUNDS).map(|_| measure(&text, enough)).min_by_key(|m| m.1).unwrap_or_default();
        println!("{text:<60} {:>10.0} M", references as f64 / time.as_secs_f64() / 1e6);
    }
}

fn larger(name: &str) -> String {
    let keys = LARGER.iter().find(|(of, _)| *of == name).map_or("", |(_, keys)| keys);
    format!("gen:{name}?{keys}")
}

/// References given, and the time this thread took; what is made ready before the first batch is left out.
fn measure(text: &str, enough: u64) -> (u64, Duration) {
    let mut source = mmulab_workload::open(text).unwrap_or_else(|e| panic!("{e}"));
    let (mut batch, mut references, mut spent) = (Batch::default(), 0, Duration::ZERO);
    let mut next = |batch: &mut Batch| source.next_batch(batch).unwrap_or_else(|e| panic!("{e}"));
    next(&mut batch);
    while references < enough {
        let (start, before) = (Instant::now(), time_on_cpu());
        let more = next(&mut batch);
        spent += time_on_cpu().zip(before).map_or(start.elapsed(), |(after, before)| after - before);
        references += batch.counts().1;
        if !more {
            break;
        }
    }
    (references, spent)
}

/// How long this thread has run: the first number of schedstat (Linux, Documentation/scheduler/sched-stats.rst).
fn time_on_cpu() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
