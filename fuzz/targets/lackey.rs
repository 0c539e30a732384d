//! Fuzz target: the reader of Valgrind lackey's output.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mmulab_fuzz::lackey(data));
