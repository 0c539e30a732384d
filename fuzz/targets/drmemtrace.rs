#![no_main]

use libfuzzer_sys::fuzz_target;
use mmulab_trace::DrmemtraceReader;

fuzz_target!(|data: &[u8]| {
    mmulab_fuzz::check(DrmemtraceReader::new(data, "fuzz".into()));
    mmulab_fuzz::summary(DrmemtraceReader::new(data, "fuzz".into()));
});
