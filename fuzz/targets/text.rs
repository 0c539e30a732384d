//! Fuzz target: the reader of text traces.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mmulab_fuzz::text(data));
