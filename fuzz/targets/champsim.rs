#![no_main]

use libfuzzer_sys::fuzz_target;
use mmulab_trace::ChampSimReader;

fuzz_target!(|data: &[u8]| {
    mmulab_fuzz::check(ChampSimReader::new(data, "fuzz".into()));
    mmulab_fuzz::summary(ChampSimReader::new(data, "fuzz".into()));
});
