//! The streams of a chunk whose checksum holds: what the checksum keeps the other target from.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: (u32, [&[u8]; 6])| mmulab_fuzz::native_streams(data.0, data.1));
