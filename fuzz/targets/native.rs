//! A file as it is: headers, index, checksums.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mmulab_trace::{NativeReader, Source};
use std::io::Cursor;

fuzz_target!(|data: &[u8]| {
    let open = || NativeReader::new(Cursor::new(data.to_vec()), "fuzz".into());
    if let Ok(reader) = open() {
        mmulab_fuzz::check(reader);
    }
    if let Ok(mut reader) = open() {
        reader.verify(&mut |_| true);
        let _ = reader.seek(1000);
    }
});
