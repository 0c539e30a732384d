//! A file as it is: headers, index, checksums.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mmulab_fuzz::native(data));
