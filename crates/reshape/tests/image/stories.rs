//! Files and what programs do with them, drawn at random.

use crate::model::*;
use mmulab_addr::{Access, BASE_BYTES, Pid, Prot, Tid, VirtAddr};
use mmulab_elf::{Linker, Part, layout};
use mmulab_trace::{Advice, Backing, Event, MapFlags, Ref};
use proptest::prelude::*;
use std::collections::BTreeSet;

pub fn linker() -> impl Strategy<Value = Linker> {
    prop_oneof![Just(Linker::Lld), Just(Linker::Old), Just(Linker::GnuSeparateCode)]
}

/// Files of read-only data, code, more of both, and data with zeroes behind.
pub fn file(name: &'static str, at: u64) -> impl Strategy<Value = File> {
    let part = |flags: u32, zeroes: u64| {
        (1u64..5 * BASE_BYTES, 0..=zeroes, 0u32..7).prop_map(move |(file_bytes, more, align)| Part {
            file_bytes,
            bytes: file_bytes + more,
            flags,
            align: 1 << align,
        })
    };
    let parts = (part(4, 0), part(5, 0), prop::option::of(part(4, 0)), part(6, 3 * BASE_BYTES));
    (parts, linker(), 0u8..4, 0u64..600).prop_map(move |((first, code, more, data), linker, order, page)| {
        let parts: Vec<Part> = [first, code].into_iter().chain(more).chain([data]).collect();
        let placed = layout(&parts, linker, BASE_BYTES << order).unwrap();
        let segments = placed.into_iter().map(|p| p.segment).collect();
        File { path: name.into(), segments, bias: at + page * BASE_BYTES }
    })
}

/// What is done after loading.
#[derive(Clone, Debug)]
pub enum Then {
    /// The first pages of the data become read-only.
    Protect(u64),
    /// Some pages go.
    Unmap(u64, u64),
    /// All of it goes.
    Unload,
    /// Pages get other contents at the same place: another file's, or none.
    Replace(u64, u64, bool),
    Advise(u64, u64, Advice),
    Fork,
}

pub fn then() -> impl Strategy<Value = Then> {
    prop_oneof![
        (1u64..4).prop_map(Then::Protect),
        (0u64..16, 1u64..6).prop_map(|(at, n)| Then::Unmap(at, n)),
        Just(Then::Unload),
        (0u64..16, 1u64..6, any::<bool>()).prop_map(|(at, n, file)| Then::Replace(at, n, file)),
        (0u64..16, 1u64..9, prop_oneof![Just(Advice::Dontneed), Just(Advice::Hugepage)])
            .prop_map(|(at, n, advice)| Then::Advise(at, n, advice)),
        Just(Then::Fork),
    ]
}

pub fn done(then: &Then, file: &File) -> Event {
    let range = |at: u64, n: u64| (VirtAddr::new(file.bias + at * BASE_BYTES), n * BASE_BYTES);
    match then {
        Then::Protect(n) => {
            let data = file.segments.last().unwrap();
            Event::Mprotect { addr: VirtAddr::new(down(file.bias + data.address)), len: n * BASE_BYTES, prot: Prot::R }
        }
        Then::Unmap(at, n) => {
            let (addr, len) = range(*at, *n);
            Event::Munmap { addr, len }
        }
        Then::Unload => Event::Munmap { addr: VirtAddr::new(file.bias), len: file.end() - file.bias },
        Then::Replace(at, n, file) => {
            let (addr, len) = range(*at, *n);
            let backing = match file {
                true => Backing::File { path: "/other".into(), offset: 0x7000 },
                false => Backing::Anon,
            };
            Event::Mmap { addr, len, prot: Prot::RW, flags: MapFlags::default(), backing }
        }
        Then::Advise(at, n, advice) => {
            let (addr, len) = range(*at, *n);
            Event::Madvise { addr, len, advice: *advice }
        }
        Then::Fork => Event::Fork { child: Pid(2), shares_memory: false },
    }
}

/// A reference to each interesting byte of each mapped page.
pub fn touch(memory: &Memory, files: &[File], out: &mut Vec<Word>) {
    let mut bytes: BTreeSet<u64> = BTreeSet::new();
    for &page in memory.0.keys() {
        bytes.extend([0, 1, 700, 2048, 4095].map(|at| page * BASE_BYTES + at));
    }
    for (file, s) in files.iter().flat_map(|f| f.segments.iter().map(move |s| (f, s))) {
        let start = file.bias + s.address;
        bytes.extend([start, start + s.file_bytes, start + s.file_bytes.saturating_sub(1), start + s.bytes - 1]);
    }
    for va in bytes.into_iter().map(VirtAddr::new) {
        let Some((prot, _)) = memory.at(va) else { continue };
        if prot.allows(Access::Write) {
            out.push(Word::Ref(Ref::write(va)));
        } else if prot.allows(Access::Fetch) {
            out.push(Word::Ref(Ref::fetch(va, 3)));
        } else if prot.allows(Access::Read) {
            out.push(Word::Ref(Ref::read(va)));
        }
    }
}

pub fn story(files: &[File], over: &[bool], then: &[(usize, Then)]) -> Vec<Word> {
    let other = |addr: u64| Event::Mmap {
        addr: VirtAddr::new(addr),
        len: 5 * BASE_BYTES,
        prot: Prot::RW,
        flags: MapFlags::default(),
        backing: Backing::Anon,
    };
    let mut memory = Memory::default();
    let mut out = Vec::new();
    let say = |event: Event, out: &mut Vec<Word>, memory: &mut Memory| {
        memory.apply(&event);
        out.push(Word::Event(event));
    };
    say(other(0x7000_0000), &mut out, &mut memory);
    for (file, &over) in files.iter().zip(over) {
        for event in file.load(over) {
            say(event, &mut out, &mut memory);
        }
        touch(&memory, files, &mut out);
    }
    for (which, then) in then {
        let file = &files[which % files.len()];
        say(done(then, file), &mut out, &mut memory);
        if matches!(then, Then::Fork) {
            say(Event::Switch { pid: Pid(2), tid: Tid(2) }, &mut out, &mut memory);
        }
        touch(&memory, files, &mut out);
    }
    out
}
