//! What is mapped when a program begins: its file, its interpreter and its stack. QEMU loads them itself, without
//! system calls a plugin could see, so they are found in the process's own memory map.

use crate::{
    memory_map::{Mapping, mappings},
    session::{self, Session, say},
    slots,
};
use mmulab_addr::{BASE_BYTES, Prot, VirtAddr};
use mmulab_elf::Segment;
use mmulab_record::{Message, arena::BUFFER_WORDS, words};
use mmulab_trace::{Backing, Event, ImageSegment, MapFlags};
use std::{
    path::{Path, PathBuf},
    sync::{
        PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Whether that was told.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// The stack's size where the system sets no limit (QEMU's TARGET_DEFAULT_STACK_SIZE, Linux's usual limit).
const USUAL_STACK: u64 = 8 << 20;

/// The most that QEMU maps for a program beside its files and its stack, in pages. It is two tables of at most a page
/// each, or a page of code. Memory behind them is the program's, which begins to map.
const EMULATORS_MAX: u64 = 2;

/// What is mapped is told by others, when there is anything to tell.
pub fn told_already() {
    BEGUN.store(true, Ordering::Release);
}

/// Tells what was mapped when the program began, before anything else is told. `index`: the first thread.
pub fn begin(index: u32) {
    if BEGUN.swap(true, Ordering::AcqRel) {
        return;
    }
    if let (Some(session), Some(number)) = (session::current(), slots::number(index)) {
        let (events, missing) = events(session, session::base().unwrap_or(0), first_access(index));
        say(number, &Message::Events(events));
        missing.iter().for_each(|what| slots::lose(what));
        session.program_fd.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The first address accessed by the thread at `index` among the words it still holds.
fn first_access(index: u32) -> Option<u64> {
    let (arena, number) = (session::arena()?, slots::number(index)?);
    let next = arena.slot(number).next.load(Ordering::Relaxed);
    let words = arena.range(next / BUFFER_WORDS * BUFFER_WORDS, (next % BUFFER_WORDS) as u32);
    let is_access = |word: &&u64| !matches!(*word & words::KIND, words::BLOCK | words::NOTE);
    words.iter().find(is_access).map(|&word| words::address(word))
}

/// The size of a page, in bytes, as the program sees it.
#[derive(Clone, Copy)]
struct Pages(u64);

impl Pages {
    /// The value of QEMU's `-p`; else this computer's.
    fn of(qemu_args: &[String]) -> Self {
        let given = value_of(qemu_args, "-p").and_then(|bytes| bytes.parse().ok());
        Self(given.filter(|bytes: &u64| bytes.is_power_of_two()).unwrap_or(BASE_BYTES))
    }

    fn down(self, address: u64) -> u64 {
        address & !(self.0 - 1)
    }

    fn up(self, address: u64) -> u64 {
        address.next_multiple_of(self.0)
    }
}

/// The value of an option of QEMU's.
fn value_of<'a>(qemu_args: &'a [String], option: &str) -> Option<&'a String> {
    let at = qemu_args.iter().position(|a| a == option)?;
    qemu_args.get(at + 1)
}

/// The events that map what is there, and what was not found. `base`: where QEMU has the program's address 0;
/// `on_stack`: an address on the stack.
fn events(session: &Session, base: u64, on_stack: Option<u64>) -> (Vec<Event>, Vec<String>) {
    let (mut events, mut missing) = (Vec::new(), Vec::new());
    let pages = Pages::of(&session.settings.qemu_args);
    let now: Vec<Mapping> = mappings().into_iter().filter(|m| !session.before.contains(m)).collect();
    let mut interpreter = load(&session.program, &now, (base, pages), &mut events, &mut missing);
    if let Some(path) = interpreter.take() {
        load(&in_sysroot(session, &path), &now, (base, pages), &mut events, &mut missing);
    }
    match on_stack.and_then(|address| stack(address, &now, base, pages)) {
        Some(event) => events.push(event),
        None => missing.push("the stack: it was not found in the memory map".into()),
    }
    events.extend(last_end(&events).into_iter().flat_map(|end| emulators(end, &now, base, pages)));
    (events, missing)
}

/// Where QEMU looks for an interpreter first: under `-L`.
fn in_sysroot(session: &Session, path: &Path) -> PathBuf {
    let root = value_of(&session.settings.qemu_args, "-L");
    let inside = root.map(|root| Path::new(root).join(path.strip_prefix("/").unwrap_or(path)));
    inside.filter(|path| path.exists()).unwrap_or_else(|| path.to_path_buf())
}

/// Tells how the ELF file at `path` is mapped; its interpreter, if it has one.
fn load(
    path: &Path,
    now: &[Mapping],
    (base, pages): (u64, Pages),
    events: &mut Vec<Event>,
    missing: &mut Vec<String>,
) -> Option<PathBuf> {
    let file = match mmulab_elf::read(path) {
        Ok(file) => file,
        Err(error) => {
            missing.push(format!("{}: its segments cannot be read: {error}", path.display()));
            return None;
        }
    };
    // Through a descriptor, a file that has no name (any more) is still called what the memory map calls it.
    let real = std::fs::canonicalize(path).or_else(|_| std::fs::read_link(path));
    let real = real.unwrap_or_else(|_| path.to_path_buf()).display().to_string();
    let Some(bias) = bias(&file.segments, &real, now, base) else {
        missing.push(format!("{real}: it was not found in the memory map"));
        return file.interpreter;
    };
    events.push(file.told(&real));
    events.extend(file.segments.iter().flat_map(|segment| segment_events(segment, bias, &real, pages)));
    file.interpreter
}

/// How far the file's segments are from the addresses it names.
fn bias(segments: &[Segment], path: &str, now: &[Mapping], base: u64) -> Option<u64> {
    let Some(found) = now.iter().find(|m| m.path == path) else {
        // If the program sees larger pages than this computer has, QEMU reads parts of pages into memory of its own. A
        // program that is linked to an address lies there.
        let first = segments.first()?.address;
        return now.iter().any(|m| (m.start..m.end).contains(&(first + base)) && m.path.is_empty()).then_some(0);
    };
    // As this computer maps it, whatever the program sees.
    let host = Pages(BASE_BYTES);
    let segment = segments.iter().find(|s| host.down(s.offset) == found.offset)?;
    Some((found.start - base).wrapping_sub(host.down(segment.address)))
}

/// A segment: its part of the file, and zeroed memory after it.
fn segment_events(segment: &Segment, bias: u64, path: &str, pages: Pages) -> Vec<Event> {
    let address = segment.address.wrapping_add(bias);
    let (start, file_end) = (pages.down(address), pages.up(address + segment.file_bytes));
    let end = pages.up(address + segment.bytes);
    let prot = ImageSegment::from(segment).prot;
    let map = |addr: u64, end: u64, backing| Event::Mmap {
        addr: VirtAddr::new(addr),
        len: end - addr,
        prot,
        flags: MapFlags::default(),
        backing,
    };
    let mut events = Vec::new();
    if file_end > start && segment.file_bytes > 0 {
        events.push(map(start, file_end, Backing::File { path: path.into(), offset: pages.down(segment.offset) }));
    }
    if end > file_end {
        events.push(map(file_end, end, Backing::Anon));
    }
    events
}

/// The stack as Linux has it at a program's start: what is in use, growing down.
fn stack(address: u64, now: &[Mapping], base: u64, pages: Pages) -> Option<Event> {
    let found = now.iter().find(|m| (m.start..m.end).contains(&(address + base)))?;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
    let size = if known && limit.rlim_cur != libc::RLIM_INFINITY { limit.rlim_cur } else { USUAL_STACK };
    // QEMU maps it whole, with a guard below; what is above may be another mapping's. If the guard is less than a page
    // that the program sees, it lies in the mapping.
    let guard = if pages.0 > BASE_BYTES { pages.0 } else { 0 };
    let top = found.end.min(found.start.saturating_add(pages.up(size) + guard)) - base;
    let start = pages.down(address);
    Some(Event::Mmap {
        addr: VirtAddr::new(start),
        len: top.checked_sub(start)?,
        prot: Prot::RW,
        flags: MapFlags { grows_down: true, label: Some("[stack]".into()), ..MapFlags::default() },
        backing: Backing::Anon,
    })
}

/// Where the mapping that QEMU made last ends: the interpreter's, or the stack if there is none.
fn last_end(events: &[Event]) -> Option<u64> {
    let mapped = |e: &Event| match e {
        Event::Mmap { addr, len, .. } => Some(addr.raw() + len),
        _ => None,
    };
    // QEMU lays out the program, the stack, then the interpreter, each in the first gap above the one before. Programs
    // linked to an address lie wherever that is.
    events.iter().filter_map(mapped).max()
}

/// Pages that a system with a real kernel does not have: QEMU maps them for the program, behind all else, before it
/// begins. For x86-64 they are the descriptor tables (`linux-user/i386/cpu_loop.c`), from which every return from a
/// signal loads segments; for others the code that a signal's handler returns to (`setup_sigtramp`).
fn emulators(from: u64, now: &[Mapping], base: u64, pages: Pages) -> Vec<Event> {
    let (mut events, mut at) = (Vec::new(), from);
    while let Some(found) = now.iter().find(|m| (m.start..m.end).contains(&(at + base)) && m.path.is_empty()) {
        let end = (found.end - base).min(from + EMULATORS_MAX * pages.0);
        if end <= at {
            break;
        }
        events.push(Event::Mmap {
            addr: VirtAddr::new(at),
            len: end - at,
            prot: found.prot,
            flags: MapFlags { label: Some("[emulator]".into()), ..MapFlags::default() },
            backing: Backing::Anon,
        });
        at = end;
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_map::parse;

    #[test]
    fn pages_of_the_emulator_follow_what_was_mapped_last() {
        let lines =
            ["1000-2000 r-xp 00000000 fe:00 1 /lib/ld.so", "2000-9000 rw-p 00000000 00:00 0", "b000-c000 rw-p 0 0:0 0"];
        let now: Vec<Mapping> = lines.iter().filter_map(|line| parse(line)).collect();
        let found = |from| -> Vec<(u64, u64, Prot)> {
            let told = emulators(from, &now, 0, Pages(BASE_BYTES)).into_iter();
            told.filter_map(|e| match e {
                Event::Mmap { addr, len, prot, .. } => Some((addr.raw(), len, prot)),
                _ => None,
            })
            .collect()
        };
        assert_eq!(found(0x2000), [(0x2000, 0x2000, Prot::RW)], "two pages, and not what the program maps behind");
        assert_eq!(found(0x8000), [(0x8000, 0x1000, Prot::RW)]);
        assert_eq!(found(0x9000), [], "nothing is there");
        assert_eq!(found(0x1000), [], "a file's pages are told");
    }

    #[test]
    fn a_segment_is_its_file_part_and_zeroes() {
        let segment =
            Segment { address: 0x3e10, bytes: 0x3000, offset: 0x2e10, file_bytes: 0x300, flags: 6, align: 0x1000 };
        let ranges = |pages| -> Vec<_> {
            let events = segment_events(&segment, 0x55_0000_0000, "/bin/x", pages).into_iter();
            let mapped = events.map(|e| match e {
                Event::Mmap { addr, len, prot, backing, .. } => (addr.raw(), len, prot, backing),
                _ => unreachable!("only mappings"),
            });
            mapped.collect()
        };
        let file = |offset| Backing::File { path: "/bin/x".into(), offset };
        assert_eq!(
            ranges(Pages(BASE_BYTES)),
            [(0x55_0000_3000, 0x2000, Prot::RW, file(0x2000)), (0x55_0000_5000, 0x2000, Prot::RW, Backing::Anon)]
        );
        // With pages of 16K its zeroes end in the page that its file part begins in.
        let large = Pages::of(&["-p".into(), "16384".into()]);
        assert_eq!(ranges(large), [(0x55_0000_0000, 0x8000, Prot::RW, file(0))]);
    }
}
