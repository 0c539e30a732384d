//! What this process knows of the recording: who it is, and whom to tell.

use crate::{api::Api, memory_map::Mapping};
use mmulab_record::{
    Image, Message, Settings,
    arena::{Arena, MESSAGE_BYTES},
};
use mmulab_trace::Isa;
use std::{
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

/// What does not change while a program image runs.
pub struct Session {
    pub arena: Arena,
    pub arena_path: String,
    pub settings: Settings,
    pub api: Api,
    pub isa: Isa,
    /// The program's file.
    pub program: PathBuf,
    /// The program's descriptor, where it was started by one: closed when QEMU has loaded it.
    pub program_fd: Mutex<Option<OwnedFd>>,
    /// Memory that was mapped before the program was loaded: QEMU's own.
    pub before: Vec<Mapping>,
}

static SESSION: OnceLock<Session> = OnceLock::new();
static IMAGE: AtomicU32 = AtomicU32::new(0);
static PID: AtomicU32 = AtomicU32::new(0);
/// The number of the process's first thread, until it is taken; then 0.
static FIRST_TID: AtomicU32 = AtomicU32::new(0);
/// Where QEMU has the program's address 0; odd (so none) until a block tells.
static BASE: AtomicU64 = AtomicU64::new(1);

/// The session, once there is one.
pub fn current() -> Option<&'static Session> {
    SESSION.get()
}

/// The shared memory.
pub fn arena() -> Option<&'static Arena> {
    SESSION.get().map(|s| &s.arena)
}

/// The session from here on, unless there is one.
pub fn set(session: Session) -> &'static Session {
    SESSION.get_or_init(|| session)
}

/// From here on this process is `image`.
pub fn set_image(image: &Image) {
    IMAGE.store(image.number, Ordering::Release);
    PID.store(image.pid, Ordering::Release);
    FIRST_TID.store(image.tid, Ordering::Release);
}

/// The image this process is.
pub fn image() -> Image {
    // A thread is told apart by its slot, so the first one's number is not kept.
    Image { number: IMAGE.load(Ordering::Acquire), pid: PID.load(Ordering::Acquire), tid: 0 }
}

/// The number of the next new thread.
pub fn next_tid() -> u32 {
    match FIRST_TID.swap(0, Ordering::AcqRel) {
        0 => arena().map_or(0, |a| a.header().next_tid.fetch_add(1, Ordering::AcqRel)),
        first => first,
    }
}

/// Remembers where QEMU has the program's address 0.
pub fn set_base(base: u64) {
    BASE.store(base, Ordering::Release);
}

/// Where QEMU has the program's address 0.
pub fn base() -> Option<u64> {
    Some(BASE.load(Ordering::Acquire)).filter(|base| base & 1 == 0)
}

/// Hands a message over, as the thread in `slot`. Many events go as several messages.
pub fn say(slot: u32, message: &Message) {
    let (Some(arena), Ok(bytes)) = (arena(), serde_json::to_vec(message)) else { return };
    match message {
        Message::Events(events) if bytes.len() > MESSAGE_BYTES && events.len() > 1 => {
            let (first, rest) = events.split_at(events.len() / 2);
            say(slot, &Message::Events(first.to_vec()));
            say(slot, &Message::Events(rest.to_vec()));
        }
        // What cannot be given is counted there.
        _ => drop(arena.give_message(slot, &bytes)),
    }
}
