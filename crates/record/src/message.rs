//! JSON structures in the memory that the launcher shares with recorded processes. `Settings` goes from the launcher
//! to the plugin. A `Message` goes the other way and carries the rare events: mappings, fork, exec, exit.

use mmulab_addr::PageOrder;
use mmulab_trace::{Description, Event, Isa};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Settings for every recorded process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    /// Metadata of the trace.
    pub description: Description,
    /// The QEMU for programs of `description.isa`; another one is looked for in PATH.
    pub qemu: Option<PathBuf>,
    /// QEMU's arguments before the plugin's and the program's, for programs of `description.isa`.
    pub qemu_args: Vec<String>,
    /// The plugin.
    pub plugin: PathBuf,
    /// The name of the socket at which recorded processes get files: see [`crate::ask`].
    pub door: String,
    /// The launcher's namespace of process numbers, as its inode; 0 if it is not known.
    pub pid_namespace: u64,
    /// The page that holds recording up while it is mapped.
    pub gate: Option<u64>,
    /// Of a whole system: what is needed to follow it.
    pub system: Option<SystemSettings>,
}

/// Settings for the plugin of a whole system.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SystemSettings {
    /// The socket of QEMU's monitor.
    pub monitor: PathBuf,
    /// Whether the kernel's references are recorded, too.
    pub with_kernel: bool,
    /// The size of its kernel's base pages, and of its page tables.
    pub base_page: PageOrder,
}

/// One program image: a process from its start, or from an exec on, to its end or its next exec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its number: its dictionary's in the trace.
    pub number: u32,
    /// Its process.
    pub pid: u32,
    /// Its first thread.
    pub tid: u32,
}

/// A place in the code of a file: within a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// The file.
    pub path: String,
    /// Where in the file.
    pub offset: u64,
}

/// Messages of recorded processes to the launcher, besides words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// An image begins to run, in the system's process `host_pid`.
    Began {
        /// Which.
        image: Image,
        /// The system's number of its process.
        host_pid: u32,
        /// The slot of its blocks.
        blocks: u32,
        /// Its instruction set.
        isa: Isa,
    },
    /// Events of the address space, in order, by the sending thread.
    Events(Vec<Event>),
    /// A place in the program asked for memory that it has now.
    Named {
        /// Where the memory is.
        addr: u64,
        /// Bytes.
        len: u64,
        /// The place, and its callers; none: the memory has no name any more.
        frames: Vec<Frame>,
    },
    /// The process makes another, a copy of itself.
    Fork {
        /// The copy.
        child: Image,
        /// Whether it was to share the memory.
        shares_memory: bool,
    },
    /// It did.
    Forked {
        /// The copy.
        child: Image,
        /// The system's number of its process.
        host_pid: u32,
    },
    /// It could not.
    ForkFailed {
        /// The copy that is not.
        child: Image,
    },
    /// The process runs another program from here on, as image `next`.
    Exec {
        /// The image to come.
        next: Image,
        /// The program.
        path: String,
    },
    /// It could not.
    ExecFailed {
        /// The image that is not.
        next: Image,
    },
    /// The process is about to run a program outside the emulator.
    Escaped {
        /// The program that it runs, and the reason.
        what: String,
    },
    /// That program could not be executed: the process goes on as before.
    Stayed,
    /// The CPU of a system that says so runs this process and thread from here on.
    Runs {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
    },
    /// The part of a system that was to be recorded is over.
    Over {
        /// The exit status of the program that was named.
        status: i32,
    },
    /// The thread ends.
    ExitThread,
    /// The process ends by itself.
    Exit {
        /// Its exit status.
        status: i32,
    },
}
