//! The streams of a chunk whose checksum holds: what the checksum keeps the other target from.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mmulab_trace::{Description, NativeReader};
use std::io::Cursor;

fuzz_target!(|data: (u32, [&[u8]; 6])| {
    let (codes, streams) = data;
    let mut file = Description::default().to_bytes();
    file.extend(mmulab_trace::sealed_chunk(codes, streams));
    if let Ok(reader) = NativeReader::new(Cursor::new(file), "fuzz".into()) {
        mmulab_fuzz::check(reader);
    }
});
