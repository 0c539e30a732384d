//! How fast native traces decode: `cargo bench -p mmulab-trace -- [/PATH/TO/FILE.mmt]...`. Without a file: the shipped
//! recording of a compiler, and a trace made here whose blocks and addresses are harder to foresee than a program's.

use mmulab_addr::VirtAddr;
use mmulab_trace::{Batch, Description, EndInfo, NativeReader, NativeWriter, Source};
use std::{
    io::Cursor,
    path::Path,
    time::{Duration, Instant},
};

/// Each measurement is repeated, and the best one told: what else runs on the machine only slows it down.
const ROUNDS: usize = 3;

fn main() {
    // cargo adds --bench.
    let mut files: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    println!("{:<28} {:>12} {:>16}", "trace", "bytes/instr", "refs/s");
    if files.is_empty() {
        files.push(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/cc1-small.mmt").into());
        let trace = made();
        let size = trace.len() as u64;
        measure("made here", size, || NativeReader::new(Cursor::new(trace.clone()), "made here".into()));
    }
    for file in files {
        let path = Path::new(&file);
        let size = std::fs::metadata(path).map_or(0, |m| m.len());
        measure(&file, size, || NativeReader::open(path));
    }
}

fn measure<E: std::fmt::Display>(name: &str, size: u64, open: impl Fn() -> Result<NativeReader, E>) {
    let reader = || open().unwrap_or_else(|e| panic!("{e}"));
    let info = reader().info().clone();
    let (instructions, references) = (info.instructions.unwrap_or(0), info.references.unwrap_or(0));
    let best = (0..ROUNDS).map(|_| drain(&mut reader())).min().unwrap_or_default();
    println!(
        "{:<28} {:>12.3} {:>14.0} M",
        name.rsplit('/').next().unwrap_or(name),
        size as f64 / instructions.max(1) as f64,
        references as f64 / best.as_secs_f64() / 1e6,
    );
}

/// The time it took this thread to take every batch: that of others on the same core does not count.
fn drain(source: &mut impl Source) -> Duration {
    let (start, before, mut batch) = (Instant::now(), time_on_cpu(), Batch::default());
    while source.next_batch(&mut batch).unwrap_or_else(|e| panic!("{e}")) {
        std::hint::black_box(&batch);
    }
    time_on_cpu().zip(before).map_or(start.elapsed(), |(after, before)| after - before)
}

/// How long this thread has run: the first number of schedstat (Linux, Documentation/scheduler/sched-stats.rst).
fn time_on_cpu() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// A trace of 40 million references.
fn made() -> Vec<u8> {
    let mut writer = NativeWriter::new(Vec::new(), &Description::default()).expect("memory takes all");
    // Knuth's MMIX generator: the bench has no other use for random numbers.
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut batch = Batch::default();
    let (mut references, mut block) = (0u64, 0);
    while references < 40_000_000 {
        batch.clear();
        while !batch.is_full() {
            // Of eight steps seven go where they went before.
            block = if random(8) == 0 { random(20_000) } else { (block * 7 + 13) % 20_000 };
            batch.push_block(VirtAddr::new(0x40_0000 + block * 40), 20, 1 + (block % 7) as u32);
            for access in 0..block % 4 {
                let fixed = 0x7fff_0000_0000 + (block % 61) * 8 + access * 16;
                let address = if random(10) < 7 { fixed } else { 0x10_0000_0000 + random(1 << 22) * 8 };
                batch.push_data(VirtAddr::new(address), 8, access == 1);
            }
        }
        references += batch.counts().1;
        writer.push_batch(&batch).expect("memory takes all");
    }
    writer.finish(EndInfo::default()).expect("memory takes all")
}
