//! Fuzz target: the reader of the text of DynamoRIO's drmemtrace.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mmulab_fuzz::drmemtrace(data));
