//! How fast native traces decode: `cargo bench -p mmulab-trace -- [FILE.mmt]...`. Without a file, a trace is made here
//! that has the mix of a compiler: blocks with a few accesses, most of them where their place in the code was before.

use mmulab_addr::VirtAddr;
use mmulab_trace::{Batch, Decoded, Description, EndInfo, NativeReader, NativeWriter, Source};
use std::{
    io::Cursor,
    path::Path,
    time::{Duration, Instant},
};

/// Each measurement is repeated, and the best one told: what else runs on the machine only slows it down.
const ROUNDS: usize = 3;

fn main() {
    // cargo adds --bench.
    let files: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    println!("{:<28} {:>12} {:>14} {:>14} {:>14}", "trace", "bytes/instr", "alone refs/s", "words/s", "Decoded refs/s");
    if files.is_empty() {
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
    let alone = (0..ROUNDS).map(|_| drain(&mut reader())).min().unwrap_or_default();
    let threaded = (0..ROUNDS).map(|_| drain(&mut Decoded::new(reader()))).min().unwrap_or_default();
    let rate = |count: u64, time: Duration| count as f64 / time.as_secs_f64() / 1e6;
    println!(
        "{:<28} {:>12.3} {:>12.0} M {:>12.0} M {:>12.0} M",
        name.rsplit('/').next().unwrap_or(name),
        size as f64 / instructions.max(1) as f64,
        rate(references, alone.0),
        rate(alone.1, alone.0),
        rate(references, threaded.0),
    );
}

/// The time to take every batch, and the words in them.
fn drain(source: &mut impl Source) -> (Duration, u64) {
    let (start, mut batch, mut words) = (Instant::now(), Batch::default(), 0);
    while source.next_batch(&mut batch).unwrap_or_else(|e| panic!("{e}")) {
        words += std::hint::black_box(&batch).refs.len() as u64;
    }
    (start.elapsed(), words)
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
