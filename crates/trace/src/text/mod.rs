//! The text form (`.mmtx`): one event a line, for examples, tests and people. Specified in
//! `docs/formats/text-traces.md`.

mod code;
mod parse;
mod read;
mod warps;
mod words;
mod write;

pub use read::TextReader;
pub use write::{TextWriter, line_of_event, write_batch, write_description};

pub(crate) use parse::begins_an_event;
