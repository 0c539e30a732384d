//! The system calls of the guest's programs, read from the registers that its kernel saves, as they return.

use super::{
    numbers::{
        BRK, CLONE, CLONE3, CREAT, DUP, DUP2, DUP3, EXECVE, EXECVEAT, EXIT, EXIT_GROUP, FCNTL, FORK, MADVISE,
        MEMFD_CREATE, MMAP, MPROTECT, MREMAP, MUNMAP, OPEN, OPENAT, OPENAT2, PKEY_MPROTECT, SHMAT, SHMDT, SHMGET,
        VFORK,
    },
    world::{Coming, Inside, Process, World, stack_of},
};
use crate::calls::{CLONE_VFORK, CLONE_VM, MAP_ANONYMOUS, MREMAP_DONTUNMAP, SHM_RDONLY, advice, mapping_flags};
use mmulab_addr::{Prot, VirtAddr};
use mmulab_trace::{Backing, Event, MapFlags};
use std::collections::BTreeMap;

const CLONE_THREAD: u64 = 0x1_0000;
/// fcntl(2): F_DUPFD and F_DUPFD_CLOEXEC.
const DUPLICATES: [u64; 2] = [0, 1030];

/// A thread entered the kernel by a system call; its registers lie at `place`.
pub fn enter(world: &mut World, place: u64) {
    let Some((number, args)) = world.arch.call(&world.ram, world.root, place) else { return };
    let path = match number {
        OPEN | CREAT | EXECVE | MEMFD_CREATE => world.ram.text(world.root, args[0]),
        OPENAT | OPENAT2 | EXECVEAT => world.ram.text(world.root, args[1]),
        MMAP | MPROTECT | MUNMAP | BRK | MREMAP | MADVISE | DUP | DUP2 | DUP3 | FCNTL | PKEY_MPROTECT => None,
        SHMGET | SHMAT | SHMDT => None,
        CLONE | CLONE3 | FORK | VFORK | EXIT | EXIT_GROUP => None,
        _ => return,
    };
    let stack = stack_of(place);
    world.returns(stack);
    match number {
        CLONE | CLONE3 | FORK | VFORK => {
            let flags = match number {
                CLONE => args[0],
                CLONE3 => world.ram.u64(world.root, args[0]).unwrap_or_default(),
                VFORK => CLONE_VM | CLONE_VFORK,
                _ => 0,
            };
            if flags & CLONE_THREAD == 0 {
                let shares_memory = flags & CLONE_VM != 0;
                world.coming.push(Coming { maker: stack, shares_memory, became: None, guest: None });
            }
        }
        EXIT_GROUP => {
            if let Some(id) = world.acting() {
                world.tell_frames(id);
            }
        }
        EXIT => {
            // The last thread's way out is the other call, or its process's end.
            let id = world.acting();
            if let Some(id) = id
                && world.threads.values().filter(|t| t.process == id).count() > 1
            {
                world.emit(id, vec![Event::ExitThread]);
                world.threads.remove(&stack);
                return;
            }
        }
        _ => {}
    }
    if let Some(thread) = world.threads.get_mut(&stack) {
        thread.inside = Some(Inside { at: place, number, args, path });
    }
}

/// The kernel restores the registers at `place`, a program's, to go back to it.
pub fn leave(world: &mut World, place: u64) {
    let (root, stack) = (world.root, stack_of(place));
    world.returns(stack);
    let result = world.arch.result(&world.ram, root, place);
    let Some(thread) = world.threads.get_mut(&stack) else { return };
    let id = thread.process;
    let Some(inside) = thread.inside.take_if(|inside| inside.at == place) else { return };
    // Errors are the last page of numbers.
    let failed = (-4095..0).contains(&(result as i64));
    if matches!(inside.number, CLONE | CLONE3 | FORK | VFORK) {
        made(world, stack, failed, result as u32);
        return;
    }
    let Some(process) = world.processes.get_mut(&id).filter(|_| !failed) else { return };
    if inside.number == SHMGET {
        // One that is there already may be asked for by less than it has, or by nothing.
        let bytes = world.segments.entry(result).or_default();
        *bytes = inside.args[1].max(*bytes);
        return;
    }
    if let Some(event) = event(process, &world.segments, &inside, result) {
        world.emit(id, vec![event]);
    }
}

/// A thread learns of the process it made.
fn made(world: &mut World, maker: u64, failed: bool, guest: u32) {
    let Some(at) = world.coming.iter().position(|c| c.maker == maker && c.guest.is_none()) else { return };
    match world.coming[at].became {
        _ if failed => drop(world.coming.remove(at)),
        None => world.coming[at].guest = Some(guest),
        Some(id) => {
            world.coming.remove(at);
            if let Some(process) = world.processes.get_mut(&id) {
                process.guest = Some(guest);
            }
        }
    }
}

/// What files that show a segment of shared memory are called: by its number, since several may have one key.
pub fn segment(id: u64) -> String {
    format!("/SYSV#{id}")
}

/// What a call that succeeded did; `segments` gives the bytes of shared memory.
fn event(process: &mut Process, segments: &BTreeMap<u64, u64>, inside: &Inside, result: u64) -> Option<Event> {
    let [a, b, c, d, e, f] = inside.args;
    let prot = |bits: u64| Prot::from_bits((bits & 7) as u8);
    let va = VirtAddr::new;
    Some(match inside.number {
        OPEN | CREAT | OPENAT | OPENAT2 => {
            process.files.insert(result as i32, inside.path.clone()?);
            return None;
        }
        MEMFD_CREATE => {
            process.files.insert(result as i32, format!("/memfd:{}#{result}", inside.path.clone()?));
            return None;
        }
        DUP | DUP2 | DUP3 => return copied(&mut process.files, a, result),
        FCNTL if DUPLICATES.contains(&b) => return copied(&mut process.files, a, result),
        MMAP => {
            let file = process.files.get(&(e as i32)).filter(|path| *path != "/dev/zero");
            let backing = match file {
                Some(path) if d & MAP_ANONYMOUS == 0 => Backing::File { path: path.as_str().into(), offset: f },
                _ => Backing::Anon,
            };
            Event::Mmap { addr: va(result), len: b, prot: prot(c), flags: mapping_flags(d), backing }
        }
        MPROTECT | PKEY_MPROTECT => Event::Mprotect { addr: va(a), len: b, prot: prot(c) },
        MUNMAP => Event::Munmap { addr: va(a), len: b },
        BRK => {
            // The first asks where it is.
            let start = *process.heap.get_or_insert(result);
            Event::Brk { start: va(start), end: va(result) }
        }
        MREMAP => {
            Event::Mremap { old: va(a), old_len: b, new: va(result), new_len: c, keep_old: d & MREMAP_DONTUNMAP != 0 }
        }
        MADVISE => Event::Madvise { addr: va(a), len: b, advice: advice(c as i32) },
        SHMAT => {
            let Some(&len) = segments.get(&a).filter(|&&len| len > 0) else {
                let what = format!("shared memory attached at {result:#x}: its length is not known");
                return Some(Event::Lost { what: what.into() });
            };
            process.attached.insert(result, len);
            Event::Mmap {
                addr: va(result),
                len,
                prot: if c & SHM_RDONLY != 0 { Prot::R } else { Prot::RW },
                flags: MapFlags { shared: true, ..MapFlags::default() },
                backing: Backing::File { path: segment(a).into(), offset: 0 },
            }
        }
        SHMDT => Event::Munmap { addr: va(a), len: process.attached.remove(&a)? },
        _ => return None,
    })
}

fn copied(files: &mut BTreeMap<i32, String>, from: u64, to: u64) -> Option<Event> {
    match files.get(&(from as i32)).cloned() {
        Some(path) => files.insert(to as i32, path),
        None => files.remove(&(to as i32)),
    };
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: u64, args: [u64; 6], path: Option<&str>) -> Inside {
        Inside { at: 0, number, args, path: path.map(str::to_owned) }
    }

    #[test]
    fn mappings_name_the_files_that_were_opened() {
        let (mut process, none) = (Process::default(), BTreeMap::new());
        assert_eq!(event(&mut process, &none, &call(OPENAT, [0; 6], Some("/lib/x.so")), 3), None);
        assert_eq!(event(&mut process, &none, &call(DUP2, [3, 7, 0, 0, 0, 0], None), 7), None);
        let mapped = event(&mut process, &none, &call(MMAP, [0, 0x2000, 5, 2, 7, 0x1000], None), 0x7000_0000);
        let Some(Event::Mmap { addr, len, prot, backing, .. }) = mapped else { panic!("a mapping") };
        assert_eq!((addr.raw(), len, prot), (0x7000_0000, 0x2000, Prot::RX));
        assert_eq!(backing, Backing::File { path: "/lib/x.so".into(), offset: 0x1000 });
        let brk = |process: &mut Process, result| event(process, &none, &call(BRK, [0; 6], None), result);
        brk(&mut process, 0x5000);
        let grown = brk(&mut process, 0x9000);
        assert_eq!(grown, Some(Event::Brk { start: VirtAddr::new(0x5000), end: VirtAddr::new(0x9000) }));
    }

    #[test]
    fn shared_memory_is_attached_by_its_number_and_detached_whole() {
        let (mut process, segments) = (Process::default(), BTreeMap::from([(7, 0x2_0000)]));
        let mut told = |number, args| event(&mut process, &segments, &call(number, args, None), 0x7000_0000);
        let attached = told(SHMAT, [7, 0, SHM_RDONLY, 0, 0, 0]);
        let Some(Event::Mmap { addr, len, prot, flags, backing }) = attached else { panic!("a mapping") };
        assert_eq!((addr.raw(), len, prot, flags.shared), (0x7000_0000, 0x2_0000, Prot::R, true));
        assert_eq!(backing, Backing::File { path: segment(7).into(), offset: 0 });
        let detach = [0x7000_0000, 0, 0, 0, 0, 0];
        assert_eq!(told(SHMDT, detach), Some(Event::Munmap { addr: VirtAddr::new(0x7000_0000), len: 0x2_0000 }));
        assert_eq!(told(SHMDT, detach), None);
        assert!(matches!(told(SHMAT, [8, 0, 0, 0, 0, 0]), Some(Event::Lost { .. })), "nobody saw it made");
    }
}
