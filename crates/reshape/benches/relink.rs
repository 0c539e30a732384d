//! What it costs to tell a recording as linked anew: `cargo bench -p mmulab-reshape`. Decoding alone, and with its
//! files laid out anew, over the shipped recording of a compiler, on one core.

mod cpu;

use mmulab_addr::PageOrder;
use mmulab_reshape::{ImageDesc, ReshapeDesc, reshape};
use mmulab_trace::{Batch, Source, open_file};
use std::{path::Path, time::Duration};

/// Each measurement is repeated, and the best one told: what else runs on the machine only slows it down.
const ROUNDS: usize = 7;

fn main() {
    let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/cc1-small.mmt"));
    let image = ImageDesc { max_page_size: Some(PageOrder::P2M), ..ImageDesc::default() };
    let mut anew = ReshapeDesc::default();
    anew.image.replace(image);
    let as_it_was = measure(file, &ReshapeDesc::default());
    let linked = measure(file, &anew);
    println!("as it was recorded {as_it_was:>7.0} M refs/s");
    println!("linked anew        {linked:>7.0} M refs/s, {:.2} of that", linked / as_it_was);
}

fn measure(file: &Path, desc: &ReshapeDesc) -> f64 {
    let round = |_| {
        let source = open_file(file).unwrap_or_else(|e| panic!("{e}"));
        let references = source.info().references.unwrap_or(0);
        let mut source = reshape(desc, source).unwrap_or_else(|e| panic!("{e}"));
        (references, drain(source.as_mut()))
    };
    let (references, best) = (0..ROUNDS).map(round).min_by_key(|&(_, took)| took).unwrap_or_default();
    references as f64 / best.as_secs_f64() / 1e6
}

/// The time it took this thread to take every batch.
fn drain(source: &mut dyn Source) -> Duration {
    cpu::time_of(|| {
        let mut batch = Batch::default();
        while source.next_batch(&mut batch).unwrap_or_else(|e| panic!("{e}")) {
            std::hint::black_box(&batch);
        }
    })
}
