#![no_main]

use libfuzzer_sys::fuzz_target;
use mmulab_trace::LackeyReader;

fuzz_target!(|data: &[u8]| {
    mmulab_fuzz::check(LackeyReader::new(data, "fuzz".into()));
    mmulab_fuzz::summary(LackeyReader::new(data, "fuzz".into()));
});
