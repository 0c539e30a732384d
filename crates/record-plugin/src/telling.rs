//! What this process tells the launcher: which image it is, and what its threads did besides running, each after all
//! that threads did before.

use crate::{
    blocks,
    initial::begin,
    session::{self, Session, say},
    slots, thread,
};
use mmulab_record::{Image, Message, arena::Arena, ask, pid_namespace};

/// Starts recording this process as `image`.
pub fn start(session: Session, image: &Image) -> Result<(), String> {
    let session = session::set(session);
    thread::start(session.arena.words());
    become_image(image)
}

/// From here on this process is `image`: after its start, and in the copy that a fork made.
pub fn become_image(image: &Image) -> Result<(), String> {
    let session = session::current().ok_or("nothing is being recorded")?;
    session::set_image(image);
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

/// Tells it as the thread at `index`, or, if that is not recorded, has the process counted as one that was not seen.
pub fn tell_surely(index: u32, message: &Message) {
    match slots::number(index) {
        Some(_) => tell(index, message),
        None => session::arena().into_iter().for_each(Arena::count_unseen),
    }
}

/// Tells, as the thread at `index`, what it did: after everything that all threads did before.
pub fn tell(index: u32, message: &Message) {
    begin(index);
    thread::publish_all(index);
    if let Some(number) = slots::number(index) {
        say(number, message);
    }
}
