#![no_main]

use libfuzzer_sys::fuzz_target;
use mmulab_trace::TextReader;

fuzz_target!(|data: &[u8]| {
    mmulab_fuzz::check(TextReader::new(data, "fuzz".into()));
    mmulab_fuzz::summary(TextReader::new(data, "fuzz".into()));
});
