#![no_main]

use libfuzzer_sys::fuzz_target;
use mmulab_trace::{AccelSimReader, WarpShape};
use std::io::Cursor;

fuzz_target!(|data: &[u8]| {
    let reader = || AccelSimReader::new(Box::new(Cursor::new(data.to_vec())), "fuzz".into(), WarpShape::default());
    mmulab_fuzz::check(reader());
    mmulab_fuzz::summary(reader());
});
