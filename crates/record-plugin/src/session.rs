//! What this process knows of the recording: who it is, and whom to tell.

use crate::{api::Api, blocks, initial, thread};
use mmulab_record::{
    Image, Message, Settings,
    arena::{Arena, MESSAGE_BYTES},
    ask, pid_namespace,
};
use mmulab_trace::Isa;
use std::{
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
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
    pub before: Vec<initial::Mapping>,
}

static SESSION: OnceLock<Session> = OnceLock::new();
static IMAGE: AtomicU32 = AtomicU32::new(0);
static PID: AtomicU32 = AtomicU32::new(0);
/// The number of the process's first thread, until it is taken; then 0.
static FIRST_TID: AtomicU32 = AtomicU32::new(0);
static BEGUN: AtomicBool = AtomicBool::new(false);
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

/// Starts recording this process as `image`.
pub fn start(session: Session, image: &Image) -> Result<(), String> {
    let session = SESSION.get_or_init(|| session);
    thread::start(session.arena.words());
    become_image(image)
}

/// From here on this process is `image`: after its start, and in the copy that a fork made.
pub fn become_image(image: &Image) -> Result<(), String> {
    let session = current().ok_or("nothing is being recorded")?;
    IMAGE.store(image.number, Ordering::Release);
    PID.store(image.pid, Ordering::Release);
    FIRST_TID.store(image.tid, Ordering::Release);
    let blocks = session.arena.new_slot(image.number, 0).ok_or("there are too many threads")?;
    blocks::write_to(blocks);
    let began = Message::Began { image: image.clone(), host_pid: host_pid(session), blocks, isa: session.isa };
    say(blocks, &began);
    Ok(())
}

/// This process's number, as the launcher has it: 0, which is none, if that cannot be found out.
fn host_pid(session: &Session) -> u32 {
    let (own, theirs) = (pid_namespace(), session.settings.pid_namespace);
    // Where one is not known (without /proc), they are taken for the same.
    if own == theirs || own == 0 || theirs == 0 {
        return std::process::id();
    }
    ask(&session.settings.door).map_or(0, |keys| keys.pid)
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

/// What is mapped is told by others, when there is anything to tell.
pub fn told_already() {
    BEGUN.store(true, Ordering::Release);
}

/// Tells what was mapped when the program began, before anything else is told. `index`: the first thread.
pub fn begin(index: u32) {
    if BEGUN.swap(true, Ordering::AcqRel) {
        return;
    }
    if let (Some(session), Some(number)) = (current(), thread::number(index)) {
        let (events, missing) = initial::events(session, base().unwrap_or(0), thread::first_access(index));
        say(number, &Message::Events(events));
        missing.iter().for_each(|what| lose(what));
        session.program_fd.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
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

/// Tells it as the thread at `index`, or, if that is not recorded, has the process counted as one that was not seen.
pub fn tell_surely(index: u32, message: &Message) {
    match thread::number(index) {
        Some(_) => tell(index, message),
        None => arena().into_iter().for_each(Arena::count_unseen),
    }
}

/// Tells, as the thread at `index`, what it did: after everything that all threads did before.
pub fn tell(index: u32, message: &Message) {
    begin(index);
    thread::publish_all(index);
    if let Some(number) = thread::number(index) {
        say(number, message);
    }
}

/// Tells that something could not be recorded.
pub fn lose(what: &str) {
    let lost = Message::Events(vec![mmulab_trace::Event::Lost { what: what.into() }]);
    // Any thread may say so; the first is always there.
    if let Some(number) = thread::live().next().and_then(thread::number) {
        say(number, &lost);
    }
}
