//! How a program is recorded. QEMU runs it with a plugin, which writes the program's executions and accesses to shared
//! memory. The launcher here takes them from there and writes a trace.
//!
//! The plugin ([`mmulab-record-plugin`](../mmulab_record_plugin)) does as little as it can: the program waits for it.
//! Everything that can fail, or must outlive the program, is on this side. That is compression, the file, the order of
//! processes, and the remains of a dead process.

mod consumer;
mod door;
mod image;
mod jit;
mod launch;
mod names;
mod options;
mod output;
mod process;
mod report;
mod system;
mod watch;

pub mod arena;
pub mod elf;
/// How the preloaded library reports the heap.
pub mod heap;
/// How the preloaded library reports who asks for memory.
pub mod sites;
pub mod words;

mod error;
mod message;

pub use door::{Keys, ask};
pub use error::RecordError;
pub use launch::{Handed, command_line, pid_namespace, qemu_for, record};
pub use message::{Frame, Image, Message, Settings, SystemSettings};
pub use options::RecordOptions;
pub use process::{child_ended, is_alive};
pub use report::{Ended, Progress, RecordReport};
pub use system::{Memhog, SystemOptions, Thp};
