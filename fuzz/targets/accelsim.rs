//! Fuzz target: the reader of Accel-Sim's traces.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mmulab_fuzz::accelsim(data));
