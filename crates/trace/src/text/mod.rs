//! The text form (`.mmtx`): one event a line, for examples, tests and people. Specified in `docs/text-traces.md`.

mod parse;
mod write;

pub use parse::TextReader;
pub use write::{line_of_event, write_batch};
