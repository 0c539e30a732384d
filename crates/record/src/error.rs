//! Errors of recording: a missing program, QEMU, plugin or kernel, a program that cannot be emulated, and failures of
//! the system. `is_mistake` separates wrong requests from failures during the recording.

use mmulab_trace::Isa;
use mmulab_trace::TraceError;
use std::path::PathBuf;
use thiserror::Error;

/// Why nothing could be recorded.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The command is empty.
    #[error("no program to record: name one")]
    NoCommand,
    /// Intervals that are no part of what they are in.
    #[error("{length} instructions of each {every} are no interval: give fewer than the whole, and at least one")]
    Intervals {
        /// Instructions of an interval.
        length: u64,
        /// Instructions from one to the next.
        every: u64,
    },
    /// The program does not exist.
    #[error("{0}: no such program here or in PATH")]
    NotFound(String),
    /// The program cannot be emulated.
    #[error("{program}: {why}")]
    NotEmulated {
        /// The program.
        program: PathBuf,
        /// Why.
        why: String,
    },
    /// QEMU is missing.
    #[error("{wanted} is not in PATH: install the package `qemu-user` (Debian, Ubuntu) or `qemu-user` of your system")]
    NoQemu {
        /// The binary looked for.
        wanted: String,
    },
    /// The plugin is missing.
    #[error("{0}: the recorder's plugin is not there; build it with `cargo build --release -p mmulab-record-plugin`")]
    NoPlugin(PathBuf),
    /// QEMU for systems is missing.
    #[error(
        "{0} is not in PATH: install the package `qemu-system-x86`, or for aarch64 `qemu-system-arm` (Debian, Ubuntu)"
    )]
    NoSystemQemu(&'static str),
    /// There is no guest of this instruction set.
    #[error("systems are recorded for x86-64 and aarch64, not for {0}")]
    NoSystem(Isa),
    /// A part of the recorder is missing.
    #[error("{file}: {what} is not there; build it with `make build`")]
    NoPart {
        /// Where it should be.
        file: PathBuf,
        /// Kind of the file.
        what: &'static str,
    },
    /// The guest's kernel is missing.
    #[error("{0}: no such kernel; name a vmlinuz of Linux for x86-64")]
    NoKernel(PathBuf),
    /// A word of a command cannot be passed to the guest.
    #[error("{0:?}: a guest's command has no zero byte, 0x1e or 0x1f in it")]
    OddWord(String),
    /// The guest did not come to the program.
    #[error("the guest did not begin to run {program}; its kernel's last words:{tail}")]
    GuestFailed {
        /// The program.
        program: PathBuf,
        /// The last lines of its console, each on a line of its own.
        tail: String,
    },
    /// The preloaded library is missing.
    #[error("{0}: a library that recorded programs preload is not there; build it with `make build`")]
    NoHeapLibrary(PathBuf),
    /// The dynamic linker would take the library's path for several.
    #[error("{0}: a library whose path has a blank, a colon or a comma cannot be preloaded; move mmulab elsewhere")]
    HeapLibraryPath(PathBuf),
    /// The program has no allocator that another library could stand before.
    #[error("{program}: its heap cannot be recorded: {why}")]
    HeapUnseen {
        /// The program.
        program: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// QEMU ended before the program began.
    #[error("QEMU did not start {program}: {said}")]
    QemuFailed {
        /// The program.
        program: PathBuf,
        /// QEMU's message, or its exit status.
        said: String,
    },
    /// The system refused.
    #[error("{what}: {error}")]
    Io {
        /// The attempted action.
        what: String,
        /// Why not.
        #[source]
        error: std::io::Error,
    },
    /// A scratch file cannot be read back.
    #[error("{0}")]
    Trace(#[from] TraceError),
}

impl RecordError {
    /// Whether the user asked for something impossible (rather than something going wrong on the way).
    pub fn is_mistake(&self) -> bool {
        matches!(
            self,
            Self::NoCommand
                | Self::Intervals { .. }
                | Self::NotFound(_)
                | Self::NotEmulated { .. }
                | Self::NoQemu { .. }
                | Self::NoPlugin(_)
                | Self::NoSystemQemu(_)
                | Self::NoSystem(_)
                | Self::NoPart { .. }
                | Self::NoKernel(_)
                | Self::OddWord(_)
                | Self::NoHeapLibrary(_)
                | Self::HeapLibraryPath(_)
                | Self::HeapUnseen { .. }
        )
    }

    pub(crate) fn io(what: impl Into<String>, error: std::io::Error) -> Self {
        Self::Io { what: what.into(), error }
    }
}
