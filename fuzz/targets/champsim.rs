//! Fuzz target: the reader of ChampSim's traces.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mmulab_fuzz::champsim(data));
