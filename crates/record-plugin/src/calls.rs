//! The system calls that change an address space, make processes or end them.

use crate::{
    exec, memory_map,
    order::ORDER,
    session, sites, slots,
    telling::{self, tell},
    thread,
};
use mmulab_addr::{PageOrder, Prot, VirtAddr};
use mmulab_record::{Image, Message, arena::Arena, child_ended, heap};
use mmulab_trace::{Advice, Backing, Event, Isa, MapFlags};
use std::{
    cell::Cell,
    collections::BTreeSet,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A system call that matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Mmap,
    Mprotect,
    Munmap,
    Brk,
    Mremap,
    Madvise,
    Shmat,
    Shmdt,
    Clone,
    Fork,
    Vfork,
    Execve,
    Execveat,
    Exit,
    ExitGroup,
}

/// Linux's numbers: arch/x86/entry/syscalls/syscall_64.tbl, and include/uapi/asm-generic/unistd.h for the others.
fn call_of(isa: Isa, number: i64) -> Option<Call> {
    Some(match (isa == Isa::X86_64, number) {
        (true, 9) | (false, 222) => Call::Mmap,
        // mprotect and pkey_mprotect begin alike.
        (true, 10 | 329) | (false, 226 | 288) => Call::Mprotect,
        (true, 11) | (false, 215) => Call::Munmap,
        (true, 12) | (false, 214) => Call::Brk,
        (true, 25) | (false, 216) => Call::Mremap,
        (true, 28) | (false, 233) => Call::Madvise,
        (true, 30) | (false, 196) => Call::Shmat,
        (true, 67) | (false, 197) => Call::Shmdt,
        (true, 56) | (false, 220) => Call::Clone,
        (true, 57) => Call::Fork,
        (true, 58) => Call::Vfork,
        (true, 59) | (false, 221) => Call::Execve,
        (true, 322) | (false, 281) => Call::Execveat,
        (true, 60) | (false, 93) => Call::Exit,
        (true, 231) | (false, 94) => Call::ExitGroup,
        _ => return None,
    })
}

// Linux's numbers, the same for the three instruction sets (include/uapi/linux/{mman,sched}.h, asm-generic/mman*.h).
const MAP_SHARED: u64 = 1;
pub const MAP_ANONYMOUS: u64 = 0x20;
const MAP_GROWSDOWN: u64 = 0x100;
const MAP_LOCKED: u64 = 0x2000;
const MAP_POPULATE: u64 = 0x8000;
const MAP_HUGETLB: u64 = 0x4_0000;
const MAP_HUGE_SHIFT: u32 = 26;
pub const MREMAP_DONTUNMAP: u64 = 4;
pub const CLONE_VM: u64 = 0x100;
pub const CLONE_VFORK: u64 = 0x4000;
pub const SHM_RDONLY: u64 = 0x1000;

thread_local! {
    /// The call the thread is in, with its arguments.
    static INSIDE: Cell<Option<(Call, [u64; 6])>> = const { Cell::new(None) };
}
/// The copy of this process that is being made.
static COPY: Mutex<Option<Image>> = Mutex::new(None);
/// Where the heap begins, once the program asked.
static BRK: AtomicU64 = AtomicU64::new(0);

/// Files whose mapping was told. What this process is a copy of told those it has already.
static TOLD: Mutex<BTreeSet<Arc<str>>> = Mutex::new(BTreeSet::new());

/// The thread at `index` enters a call.
pub fn enter(index: u32, number: i64, args: [u64; 6]) {
    let Some(session) = session::current() else { return };
    if number == heap::CALL {
        if let Some(event) = heap_event(args) {
            tell(index, &Message::Events(vec![event]));
        }
        return;
    }
    if number == mmulab_record::sites::CALL {
        ORDER.lock();
        sites::on_call(index, args);
        ORDER.unlock();
        return;
    }
    let Some(call) = call_of(session.isa, number) else { return };
    match call {
        Call::Clone if args[0] & sites::CLONE_THREAD != 0 => {
            ORDER.lock();
            sites::thread_starts(index, args[1]);
            ORDER.unlock();
            return;
        }
        Call::Clone if args[0] & CLONE_VM != 0 && args[0] & CLONE_VFORK == 0 => return,
        Call::Clone | Call::Fork | Call::Vfork => {
            ORDER.lock();
            fork(index, borrows(call, args[0]));
        }
        Call::Execve | Call::Execveat => {
            ORDER.lock();
            let [a, b, c, d, e, _] = args;
            // Comes back only if the program cannot be followed.
            match call {
                Call::Execve => exec::follow(index, None, a, b, c),
                _ => exec::follow(index, Some((a as i32, e as i32)), b, c, d),
            }
            ORDER.unlock();
        }
        Call::Exit if slots::live().count() > 1 => {
            tell(index, &Message::ExitThread);
            slots::retire(index);
            return;
        }
        Call::Exit | Call::ExitGroup => {
            tell(index, &Message::Exit { status: args[0] as i32 & 0xff });
            session.arena.leave(session::image().number);
            return;
        }
        _ => {
            ORDER.lock();
            if call == Call::Shmdt {
                // Afterwards nobody knows how long it was.
                let attached = memory_map::mappings().into_iter().find(|m| Some(m.start) == at_host(args[0]));
                DETACHING.set(attached.map_or(0, |m| m.end - m.start));
            }
        }
    }
    INSIDE.set(Some((call, args)));
}

/// The thread at `index` comes back from a call.
pub fn leave(index: u32, result: i64) {
    let Some((call, args)) = INSIDE.take() else { return };
    if matches!(call, Call::Clone | Call::Fork | Call::Vfork) {
        if result != 0 {
            let copy = COPY.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(child) = &copy {
                let child = child.clone();
                let message = match u32::try_from(result) {
                    Ok(host_pid) => Message::Forked { child, host_pid },
                    Err(_) => Message::ForkFailed { child },
                };
                tell(index, &message);
            }
            ORDER.unlock();
            if let (Some(child), Ok(host_pid), true) = (copy, u32::try_from(result), borrows(call, args[0])) {
                await_vfork(&child, host_pid);
            }
        }
        return;
    }
    if matches!(call, Call::Execve | Call::Execveat) {
        // A program that is executed does not come back.
        telling::tell_surely(index, &Message::Stayed);
        return;
    }
    // Errors are the last page of numbers.
    let failed = (-4095..0).contains(&result);
    if !failed && let Some(event) = event(call, args, result as u64) {
        let image = if call == Call::Mmap { image_of(&event, args[4] as i32) } else { None };
        let gate = gate_moved(&event);
        let named = sites::changed(&event, if call == Call::Mmap { args[3] } else { 0 });
        tell(index, &Message::Events(image.into_iter().chain([event]).collect()));
        named.into_iter().for_each(|named| tell(index, &named));
        gate.into_iter().for_each(thread::hold);
    }
    ORDER.unlock();
}

/// Whether `event` maps the gate (true) or unmaps it (false).
fn gate_moved(event: &Event) -> Option<bool> {
    let gate = VirtAddr::new(session::current()?.settings.gate?);
    match event {
        Event::Mmap { addr, .. } if *addr == gate => Some(true),
        Event::Munmap { addr, .. } if *addr == gate => Some(false),
        _ => None,
    }
}

/// Where QEMU has the program's `address`.
fn at_host(address: u64) -> Option<u64> {
    session::base().map(|base| base.wrapping_add(address))
}

/// What a call that succeeded did.
fn event(call: Call, [a, b, c, d, e, f]: [u64; 6], result: u64) -> Option<Event> {
    let prot = |bits: u64| Prot::from_bits((bits & 7) as u8);
    let at = VirtAddr::new;
    Some(match call {
        Call::Mmap => {
            let (flags, backing) = mapping(d, e as i32, f);
            Event::Mmap { addr: at(result), len: b, prot: prot(c), flags, backing }
        }
        Call::Mprotect => Event::Mprotect { addr: at(a), len: b, prot: prot(c) },
        Call::Munmap => Event::Munmap { addr: at(a), len: b },
        Call::Brk => {
            // The first asks where it is.
            let start = match BRK.compare_exchange(0, result, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => result,
                Err(start) => start,
            };
            Event::Brk { start: at(start), end: at(result) }
        }
        Call::Mremap => {
            Event::Mremap { old: at(a), old_len: b, new: at(result), new_len: c, keep_old: d & MREMAP_DONTUNMAP != 0 }
        }
        Call::Madvise => Event::Madvise { addr: at(a), len: b, advice: advice(c as i32) },
        Call::Shmat => Event::Mmap {
            addr: at(result),
            len: segment_bytes(a as i32)?,
            prot: if c & SHM_RDONLY != 0 { Prot::R } else { Prot::RW },
            flags: MapFlags { shared: true, ..MapFlags::default() },
            backing: Backing::File { path: format!("/SYSV#{a}").into(), offset: 0 },
        },
        Call::Shmdt => Event::Munmap { addr: at(a), len: Some(DETACHING.take()).filter(|&bytes| bytes > 0)? },
        Call::Clone | Call::Fork | Call::Vfork | Call::Execve | Call::Execveat | Call::Exit | Call::ExitGroup => {
            return None;
        }
    })
}

/// What the preloaded library tells.
fn heap_event([kind, address, bytes, align, ..]: [u64; 6]) -> Option<Event> {
    let addr = VirtAddr::new(address);
    match kind {
        heap::MALLOC => Some(Event::Malloc { addr, len: bytes, align }),
        heap::FREE => Some(Event::Free { addr }),
        _ => None,
    }
}

/// What a mapping shows, and how.
fn mapping(flags: u64, fd: i32, offset: u64) -> (MapFlags, Backing) {
    let backing = if flags & MAP_ANONYMOUS != 0 { None } else { file(fd) };
    (mapping_flags(flags), backing.map_or(Backing::Anon, |path| Backing::File { path: path.into(), offset }))
}

/// mmap's flags.
pub fn mapping_flags(flags: u64) -> MapFlags {
    let size = flags >> MAP_HUGE_SHIFT & 0x3f;
    let hugetlb = (flags & MAP_HUGETLB != 0).then(|| {
        // No size named: the usual one, 2 MB.
        if size == 0 { PageOrder::P2M } else { PageOrder::of_bytes(1 << size).unwrap_or(PageOrder::P2M) }
    });
    MapFlags {
        shared: flags & MAP_SHARED != 0,
        grows_down: flags & MAP_GROWSDOWN != 0,
        populate: flags & (MAP_POPULATE | MAP_LOCKED) != 0,
        hugetlb,
        ..MapFlags::default()
    }
}

/// What is told of the ELF file that `event` maps from `fd`, the first time it is mapped.
fn image_of(event: &Event, fd: i32) -> Option<Event> {
    let Event::Mmap { backing: Backing::File { path, .. }, .. } = event else { return None };
    if !TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(path)) {
        return None;
    }
    // Through the descriptor: the file may have no name any more. Most files that are mapped are no ELF files.
    let file = mmulab_elf::read(Path::new(&format!("/proc/self/fd/{fd}"))).ok()?;
    (!file.segments.is_empty()).then(|| file.told(path))
}

/// The name of the file that `fd` is open on; none for memory of no file.
fn file(fd: i32) -> Option<String> {
    let link = format!("/proc/self/fd/{fd}");
    let Ok(path) = std::fs::read_link(&link) else { return nameless(fd) };
    let path = path.display().to_string();
    if path == "/dev/zero" {
        return None;
    }
    // Files without a name of their own are told apart by their inode.
    if path.ends_with(" (deleted)") || path.starts_with("/memfd:") {
        let inode = std::fs::metadata(&link).map_or(0, |m| m.ino());
        return Some(format!("{}#{inode}", path.trim_end_matches(" (deleted)")));
    }
    Some(path)
}

/// A name for the file that `fd` is open on, where the system shows none: within a root directory without /proc.
fn nameless(fd: i32) -> Option<String> {
    // SAFETY: the structure is plain numbers, and outlives the call.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        let open = libc::fstat(fd, &raw mut found) == 0;
        // /dev/zero is the one device whose mappings are memory of no file.
        let regular = open && found.st_mode & libc::S_IFMT == libc::S_IFREG;
        regular.then(|| format!("file#{}:{}", found.st_dev, found.st_ino))
    }
}

/// Linux's MADV_*.
pub fn advice(number: i32) -> Advice {
    match number {
        3 => Advice::Willneed,
        4 => Advice::Dontneed,
        8 => Advice::Free,
        14 => Advice::Hugepage,
        15 => Advice::Nohugepage,
        25 => Advice::Collapse,
        other => Advice::Other(other),
    }
}

/// The length of a System V shared memory segment.
fn segment_bytes(id: i32) -> Option<u64> {
    // SAFETY: the structure is plain numbers, and outlives the call.
    unsafe {
        let mut found: libc::shmid_ds = std::mem::zeroed();
        (libc::shmctl(id, libc::IPC_STAT, &raw mut found) == 0).then_some(found.shm_segsz as u64)
    }
}

thread_local! {
    /// The length of what the thread is about to detach.
    static DETACHING: Cell<u64> = const { Cell::new(0) };
}

/// Whether the new process is to use its maker's memory until it runs another program.
fn borrows(call: Call, flags: u64) -> bool {
    call == Call::Vfork || call == Call::Clone && flags & CLONE_VM != 0
}

/// Waits as Linux has the maker wait. QEMU gives the new process a copy of the memory and lets both run. So the maker
/// could change, in the trace, memory that the other still uses.
fn await_vfork(child: &Image, host_pid: u32) {
    let Some(session) = session::current() else { return };
    while !session.arena.wait_for_leaving(child.number, Duration::from_millis(10)) && !child_ended(host_pid) {}
}

/// The process is about to copy itself.
fn fork(index: u32, shares_memory: bool) {
    let Some(arena) = session::arena() else { return };
    let header = arena.header();
    let child = Image {
        number: header.next_image.fetch_add(1, Ordering::AcqRel),
        pid: header.next_pid.fetch_add(1, Ordering::AcqRel),
        tid: header.next_tid.fetch_add(1, Ordering::AcqRel),
    };
    tell(index, &Message::Fork { child: child.clone(), shares_memory });
    *COPY.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
}

/// This process is the copy. Nothing of the program ran in it yet.
pub extern "C" fn in_copy() {
    let copy = COPY.lock().unwrap_or_else(PoisonError::into_inner).take();
    // Forks of QEMU's own are nothing of ours.
    if let Some(image) = copy {
        slots::forget_all();
        ORDER.unlock();
        INSIDE.set(None);
        // Without a slot nothing is recorded; the launcher sees the process end.
        if telling::become_image(&image).is_err() {
            session::arena().into_iter().for_each(Arena::count_unseen);
        }
    }
}
