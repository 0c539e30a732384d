//! Who asks for memory: the stack of a program at the moment when it asks for a large block. It is walked from the
//! registers that the preloaded library reports, by the unwind tables of the files that the program runs. The program
//! itself does nothing for it. Stacks of threads are named here, too.
//!
//! ```text
//! ASKED --walk the stack--> frames --+--> mmap or mremap of about that size meanwhile --> its name, at once
//!                                    '--> GIVEN, and it lies in none of these --> the block's name
//! FREED: a block with a mapping of its own takes the name with it; another one's name ends
//! ```
//!
//! All of this happens with `ORDER` held, so that no copy of the process finds the lock here closed.

use crate::{guest, memory_map::mappings, session, telling::tell};
use mmulab_addr::{Prot, VirtAddr};
use mmulab_elf::{Registers, Unwinder};
use mmulab_record::{
    Frame, Message,
    sites::{ASKED, FREED, GIVEN, REGISTERS},
};
use mmulab_trace::{Backing, Event, Isa};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    path::Path,
    sync::{Mutex, PoisonError},
};

/// Frames walked at most, and those of them that are reported, from the one that asked on.
const MOST_FRAMES: usize = 32;
const REPORTED: usize = 12;
/// Bytes that a mapping for a block may have more than the block: an eighth, and room for an allocator's records.
const MORE_BYTES: u64 = 64 << 10;
/// Files that pass requests for memory on, by the beginning of their names: the libraries of C and C++, and allocators.
const ALLOCATORS: [&str; 17] = [
    "libc.so",
    "libc-",
    "libc.musl",
    "ld-",
    "libpthread",
    "libstdc++",
    "libc++",
    "libgcc_s",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
    "libhoard",
    "libtbbmalloc",
    "libsnmalloc",
    "librpmalloc",
    "libmmulab_heap",
    OWN,
];
/// The preloaded library.
const OWN: &str = "libmmulab_sites";
/// mmap's flag for stacks, and clone's for threads (include/uapi/asm-generic/mman-common.h, uapi/linux/sched.h).
pub const MAP_STACK: u64 = 0x2_0000;
pub const CLONE_THREAD: u64 = 0x1_0000;

/// A request that is being served.
struct Asked {
    frames: Vec<Frame>,
    bytes: u64,
    stack_pointer: u64,
    /// Requests inside of it: an allocator's own.
    inner: u32,
    /// The mapping that was made for it: first address, and the one after the last.
    mapped: Option<(u64, u64)>,
}

thread_local! {
    static ASKED_NOW: RefCell<Option<Asked>> = const { RefCell::new(None) };
}

/// A part of a file that may run: first address, the one after the last, and where in which file it begins.
struct Code {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

/// Facts about the process.
#[derive(Default)]
struct Known {
    /// None: to be found anew.
    code: Option<Vec<Code>>,
    unwinders: BTreeMap<String, Option<Unwinder>>,
    /// Mappings that were made for one block each.
    blocks: BTreeMap<u64, u64>,
    /// Mappings for stacks.
    stacks: BTreeMap<u64, u64>,
    threads: u32,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

fn with_known<T>(act: impl FnOnce(&mut Known) -> T) -> T {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    act(known.get_or_insert_with(Known::default))
}

/// A call of the preloaded library's, by the thread at `index`.
pub fn on_call(index: u32, [kind, a, b, ..]: [u64; 6]) {
    match kind {
        ASKED => asked(a, b),
        GIVEN => given(index, a, b),
        FREED => freed(index, a, b),
        _ => {}
    }
}

fn asked(at: u64, bytes: u64) {
    let Some((registers, pc)) = registers(at) else { return };
    let Some(stack_pointer) = registers.stack_pointer() else { return };
    ASKED_NOW.with_borrow_mut(|now| match now {
        // Further down on the stack: inside of that request. Otherwise that one did not come to its end.
        Some(outer) if stack_pointer < outer.stack_pointer => outer.inner += 1,
        _ => {
            let frames = with_known(|known| known.walk(registers, pc));
            *now = Some(Asked { frames, bytes, stack_pointer, inner: 0, mapped: None });
        }
    });
}

fn given(index: u32, address: u64, bytes: u64) {
    let ended = ASKED_NOW.with_borrow_mut(|now| match now {
        Some(outer) if outer.inner > 0 => {
            outer.inner -= 1;
            None
        }
        _ => now.take(),
    });
    let Some(ended) = ended.filter(|_| address != 0) else { return };
    let end = address.saturating_add(bytes);
    match ended.mapped {
        Some((first, last)) if first <= address && end <= last => {
            with_known(|known| known.blocks.insert(first, last));
        }
        _ if ended.frames.is_empty() => {}
        _ => tell(index, &Message::Named { addr: address, len: bytes, frames: ended.frames }),
    }
}

fn freed(index: u32, address: u64, bytes: u64) {
    let has_own = with_known(|known| {
        let found = known.blocks.range(..=address).next_back().filter(|&(_, &end)| address < end).map(|(&at, _)| at);
        found.is_some_and(|at| known.blocks.remove(&at).is_some())
    });
    if !has_own {
        tell(index, &Message::Named { addr: address, len: bytes, frames: Vec::new() });
    }
}

/// A mapping changed as `event` says, by a call with these flags: the name that it has from now on, if it has one.
pub fn changed(event: &Event, flags: u64) -> Option<Message> {
    let (start, bytes, is_memory) = match event {
        Event::Mmap { addr, len, prot, backing, .. } => {
            let is_code = matches!(backing, Backing::File { .. }) && prot.has(Prot::X);
            with_known(|known| {
                if is_code {
                    known.code = None;
                }
                known.forget(addr.raw(), *len);
                if flags & MAP_STACK != 0 {
                    known.stacks.insert(addr.raw(), addr.raw().saturating_add(*len));
                }
            });
            (addr.raw(), *len, *backing == Backing::Anon)
        }
        Event::Mremap { old, old_len, new, new_len, .. } => {
            with_known(|known| {
                known.forget(old.raw(), *old_len);
                known.forget(new.raw(), *new_len);
            });
            (new.raw(), *new_len, true)
        }
        Event::Munmap { addr, len } => {
            with_known(|known| known.forget(addr.raw(), *len));
            return None;
        }
        _ => return None,
    };
    ASKED_NOW.with_borrow_mut(|now| {
        let asked = now.as_mut().filter(|asked| is_memory && !asked.frames.is_empty())?;
        let most = asked.bytes.saturating_add(asked.bytes / 8).saturating_add(MORE_BYTES);
        if bytes < asked.bytes || bytes > most {
            return None;
        }
        asked.mapped = Some((start, start.saturating_add(bytes)));
        Some(Message::Named { addr: start, len: bytes, frames: asked.frames.clone() })
    })
}

/// The thread at `index` starts another, whose stack is below `stack`: its name, if it is a mapping of its own.
pub fn thread_starts(index: u32, stack: u64) {
    let found = with_known(|known| {
        known.threads += 1;
        let below = stack.checked_sub(1)?;
        let (&start, &end) = known.stacks.range(..=below).next_back().filter(|&(_, &end)| below < end)?;
        Some((start, end - start, known.threads))
    });
    if let Some((start, len, number)) = found {
        let name = format!("[stack of thread {number}]").into();
        tell(index, &Message::Events(vec![Event::Name { addr: VirtAddr::new(start), len, name }]));
    }
}

/// DWARF's numbers of the registers that the library reports behind the program counter.
fn numbers(isa: Isa) -> &'static [u16] {
    match isa {
        Isa::X86_64 => &[7, 6, 3, 12, 13, 14, 15],
        Isa::Aarch64 => &[31, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30],
        Isa::Riscv64 => &[2, 8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27],
    }
}

/// The registers that lie at an address of the program, and the program counter.
fn registers(at: u64) -> Option<(Registers, u64)> {
    let isa = session::current()?.isa;
    let mut bytes = [0; 8 * REGISTERS];
    guest::read(at, &mut bytes).ok()?;
    let mut values = bytes.as_chunks::<8>().0.iter().map(|value| u64::from_le_bytes(*value));
    let pc = values.next()?;
    let mut registers = Registers::new(isa);
    numbers(isa).iter().zip(values).for_each(|(&number, value)| registers.set(number, value));
    Some((registers, pc))
}

fn read(at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    guest::read(at, &mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// Whether a file only passes requests on.
fn passes_on(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ALLOCATORS.iter().any(|start| name.starts_with(start))
}

impl Known {
    /// Memory on a range is not there any more.
    fn forget(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        if self.code.as_ref().is_some_and(|all| all.iter().any(|code| code.start < end && start < code.end)) {
            self.code = None;
        }
        for kept in [&mut self.blocks, &mut self.stacks] {
            // Ranges do not overlap: the last that begins before the end, and those before it.
            while let Some((&at, _)) = kept.range(..end).next_back().filter(|&(_, &last)| last > start) {
                kept.remove(&at);
            }
        }
    }

    /// The frames that asked, the innermost first: those of the libraries that pass requests on are left out. None if
    /// the library's own frame shows again behind others: then an allocator asks for memory that holds many objects.
    fn walk(&mut self, mut registers: Registers, mut pc: u64) -> Vec<Frame> {
        let mut frames: Vec<Frame> = Vec::new();
        let mut was_outside = false;
        for depth in 0..MOST_FRAMES {
            // A caller is named by its call, which ends where it goes on.
            let inside = if depth == 0 { pc } else { pc - 1 };
            let Some((path, offset)) = self.place(inside) else { break };
            let is_own = path.rsplit('/').next().is_some_and(|name| name.starts_with(OWN));
            if is_own && was_outside {
                return Vec::new();
            }
            was_outside |= !is_own;
            if !frames.is_empty() || !passes_on(&path) {
                frames.push(Frame { path: path.clone(), offset });
            }
            if frames.len() == REPORTED {
                break;
            }
            let unwinder = self.unwinders.entry(path).or_insert_with_key(|path| Unwinder::new(Path::new(path)).ok());
            let Some(unwinder) = unwinder else { break };
            let Some(address) = unwinder.address(offset) else { break };
            let Some((caller, goes_on)) = unwinder.caller(&registers, address, &mut read) else { break };
            (registers, pc) = (caller, goes_on);
        }
        frames
    }

    /// The file that has the code at an address of the program, and where.
    fn place(&mut self, address: u64) -> Option<(String, u64)> {
        let all = self.code.get_or_insert_with(|| {
            let base = session::base().unwrap_or_default();
            let runs = mappings().into_iter().filter(|m| m.prot.has(Prot::R) && m.path.starts_with('/'));
            runs.map(|m| Code {
                start: m.start.wrapping_sub(base),
                end: m.end.wrapping_sub(base),
                offset: m.offset,
                path: m.path,
            })
            .collect()
        });
        let found = all.iter().find(|code| (code.start..code.end).contains(&address))?;
        Some((found.path.clone(), address - found.start + found.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_that_pass_requests_on_are_told_by_their_names() {
        for path in ["/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/libstdc++.so.6", "/x/libjemalloc.so.2"] {
            assert!(passes_on(path), "{path}");
        }
        for path in ["/usr/bin/ls", "/usr/lib/libcrypto.so.3", "/usr/lib/libcares.so.2"] {
            assert!(!passes_on(path), "{path}");
        }
    }

    #[test]
    fn what_lay_on_a_range_is_forgotten() {
        let mut known = Known { blocks: BTreeMap::from([(0, 10), (10, 20), (30, 40), (50, 60)]), ..Known::default() };
        known.forget(15, 20);
        assert_eq!(known.blocks, BTreeMap::from([(0, 10), (50, 60)]));
        known.forget(60, 5);
        known.forget(45, 5);
        assert_eq!(known.blocks.len(), 2);
    }
}
