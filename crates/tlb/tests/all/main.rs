//! The tests of this crate's interface, in one program: the compiler makes its generic code once, not once a file.

mod common;
mod designs;
mod mirror_log;
mod mix;
mod model;
mod rules;
mod zen;
