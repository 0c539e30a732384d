//! Programs linked anew, against a model that knows of every page what is mapped there and of every byte which byte of which
//! segment it is.

use mmulab_addr::{Access, BASE_BYTES, PageOrder, Pid, Prot, Tid, VirtAddr};
use mmulab_elf::{Linker, Part, Segment, layout};
use mmulab_reshape::{ImageDesc, ReshapeDesc, reshape};
use mmulab_trace::{Advice, Backing, Batch, Event, ImageSegment, Item, MapFlags, Ref, Source, TraceError, TraceInfo};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A trace made of words.
struct Given {
    info: TraceInfo,
    batches: std::vec::IntoIter<Batch>,
}

impl Given {
    fn new(words: &[Word], at_once: usize) -> Self {
        let batch = |words: &[Word]| {
            let mut batch = Batch::default();
            for word in words {
                match word {
                    Word::Ref(word) => batch.refs.push(*word),
                    Word::Event(event) => batch.push_event(event.clone()),
                }
            }
            batch
        };
        let batches: Vec<Batch> = words.chunks(at_once).map(batch).collect();
        let info = TraceInfo { has_address_space: true, name: "given".into(), ..TraceInfo::default() };
        Self { info, batches: batches.into_iter() }
    }
}

impl Source for Given {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        *batch = self.batches.next().unwrap_or_default();
        Ok(!batch.refs.is_empty())
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Word {
    Ref(Ref),
    Event(Event),
}

fn words(source: &mut dyn Source) -> Result<Vec<Word>, TraceError> {
    let (mut out, mut batch) = (Vec::new(), Batch::default());
    loop {
        let more = source.next_batch(&mut batch);
        out.extend(batch.refs.iter().map(|word| match word.item() {
            Item::Event(index) => Word::Event(batch.events[index].clone()),
            _ => Word::Ref(*word),
        }));
        if !more? {
            return Ok(out);
        }
    }
}

/// Files laid out as `image` says, and nothing else.
fn only(image: ImageDesc) -> ReshapeDesc {
    let mut desc = ReshapeDesc::default();
    desc.image.replace(image);
    desc
}

fn linked_anew(words_in: &[Word], linker: Linker, order: u8, at_once: usize) -> Result<Vec<Word>, String> {
    let image = ImageDesc { linker, max_page_size: Some(PageOrder::new(order)), window: None };
    let mut source = reshape(&only(image), Box::new(Given::new(words_in, at_once))).map_err(|e| e.to_string())?;
    words(source.as_mut()).map_err(|e| e.to_string())
}

/// What is mapped, page by page.
#[derive(Clone, Default)]
struct Memory(BTreeMap<u64, (Prot, Backing)>);

impl Memory {
    fn pages(addr: VirtAddr, len: u64) -> std::ops::Range<u64> {
        addr.raw() / BASE_BYTES..(addr.raw() + len).div_ceil(BASE_BYTES)
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Mmap { addr, len, prot, backing, .. } => {
                for (index, page) in Self::pages(*addr, *len).enumerate() {
                    let backing = match backing {
                        Backing::Anon => Backing::Anon,
                        Backing::File { path, offset } => {
                            Backing::File { path: path.clone(), offset: offset + index as u64 * BASE_BYTES }
                        }
                    };
                    self.0.insert(page, (*prot, backing));
                }
            }
            Event::Munmap { addr, len } => Self::pages(*addr, *len).for_each(|page| drop(self.0.remove(&page))),
            Event::Mprotect { addr, len, prot } => {
                for page in Self::pages(*addr, *len) {
                    self.0.entry(page).and_modify(|(old, _)| *old = *prot);
                }
            }
            _ => {}
        }
    }

    fn at(&self, va: VirtAddr) -> Option<&(Prot, Backing)> {
        self.0.get(&(va.raw() / BASE_BYTES))
    }
}

/// A file as it was linked, and where it was loaded.
#[derive(Clone, Debug)]
struct File {
    path: Arc<str>,
    segments: Vec<Segment>,
    bias: u64,
}

impl File {
    fn told(&self) -> Event {
        let segments = self.segments.iter().map(ImageSegment::from).collect();
        Event::Image { path: self.path.clone(), segments }
    }

    fn map(&self, addr: u64, end: u64, prot: Prot, offset: Option<u64>) -> Event {
        let backing = match offset {
            Some(offset) => Backing::File { path: self.path.clone(), offset },
            None => Backing::Anon,
        };
        let flags = MapFlags::default();
        Event::Mmap { addr: VirtAddr::new(addr), len: end - addr, prot, flags, backing }
    }

    /// As the system loads it; as ld.so does with `over`: the whole place first, the other segments over it.
    fn load(&self, over: bool) -> Vec<Event> {
        let mut events = vec![self.told()];
        let end_of = |s: &Segment| up(self.bias + s.address + s.bytes);
        for (index, s) in self.segments.iter().enumerate() {
            let address = self.bias + s.address;
            let prot = ImageSegment::from(s).prot;
            let (start, file_end) = (down(address), up(address + s.file_bytes));
            if s.file_bytes > 0 || index == 0 {
                let end = if over && index == 0 { end_of(self.segments.last().unwrap()) } else { file_end };
                events.push(self.map(start, end, prot, Some(down(s.offset))));
            }
            let from = if s.file_bytes > 0 { file_end } else { start };
            if end_of(s) > from {
                events.push(self.map(from, end_of(s), prot, None));
            }
        }
        if over {
            // ld.so takes all rights from what lies between.
            for pair in self.segments.windows(2) {
                let (from, to) = (end_of(&pair[0]), down(self.bias + pair[1].address));
                if from < to {
                    events.push(Event::Mprotect { addr: VirtAddr::new(from), len: to - from, prot: Prot::NONE });
                }
            }
        }
        events
    }

    fn end(&self) -> u64 {
        self.segments.last().map_or(0, |s| up(self.bias + s.address + s.bytes))
    }

    /// Which byte of which segment is at `va`; programs use what is left of the page in which the last one ends.
    fn byte(&self, va: VirtAddr) -> Option<(usize, u64)> {
        let last = self.segments.len() - 1;
        self.segments.iter().enumerate().find_map(|(index, s)| {
            let start = self.bias + s.address;
            let end = if index == last { self.end() } else { start + s.bytes };
            (start..end).contains(&va.raw()).then(|| (index, va.raw() - start))
        })
    }
}

fn down(address: u64) -> u64 {
    address & !(BASE_BYTES - 1)
}

fn up(address: u64) -> u64 {
    address.next_multiple_of(BASE_BYTES)
}

fn linker() -> impl Strategy<Value = Linker> {
    prop_oneof![Just(Linker::Lld), Just(Linker::Old), Just(Linker::GnuSeparateCode)]
}

/// Files of read-only data, code, more of both, and data with zeroes behind.
fn file(name: &'static str, at: u64) -> impl Strategy<Value = File> {
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
enum Then {
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

fn then() -> impl Strategy<Value = Then> {
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

fn done(then: &Then, file: &File) -> Event {
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
fn touch(memory: &Memory, files: &[File], out: &mut Vec<Word>) {
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

fn story(files: &[File], over: &[bool], then: &[(usize, Then)]) -> Vec<Word> {
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Every reference finds the byte it found, with the rights it had; what is of no file stays where it was.
    #[test]
    fn every_byte_is_found_again(
        one in file("/bin/one", 0x40_0000),
        two in file("/lib/two", 0x2000_0000),
        over in any::<[bool; 2]>(),
        then in prop::collection::vec((0usize..2, then()), 0..5),
        linker in linker(),
        order in 0u8..10,
        at_once in 1usize..200,
    ) {
        let files = [one, two];
        let said = story(&files, &over, &then);
        let told = linked_anew(&said, linker, order, at_once).unwrap();
        let max = BASE_BYTES << order;
        let placed: Vec<Vec<Segment>> = files.iter().map(|f| {
            let parts: Vec<Part> = f.segments.iter().map(Part::from).collect();
            layout(&parts, linker, max).unwrap().into_iter().map(|p| p.segment).collect()
        }).collect();

        let (mut before, mut after) = (Memory::default(), Memory::default());
        let mut told = told.into_iter();
        let mut moved: BTreeMap<u64, u64> = BTreeMap::new();
        for word in &said {
            let old = match word {
                Word::Ref(old) => *old,
                Word::Event(event) => {
                    before.apply(event);
                    moved.clear();
                    continue;
                }
            };
            let new = loop {
                match told.next().expect("as many references as before") {
                    Word::Ref(new) => break new,
                    Word::Event(event) => after.apply(&event),
                }
            };
            prop_assert_eq!((old.is_fetch(), old.is_write(), old.instructions()),
                            (new.is_fetch(), new.is_write(), new.instructions()));
            let (was, is) = (old.va(), new.va());
            let (prot, backing) = before.at(was).expect("only mapped pages are touched").clone();
            let Some((now, shows)) = after.at(is).cloned() else {
                return Err(TestCaseError::fail(format!("{was} became {is}, where nothing is mapped")));
            };
            prop_assert!(now.has(prot), "{} may {:?}, at {} {:?}", was, prot, is, now);
            // Which byte of which file it was.
            let file = files.iter().position(|f| (f.bias..f.end()).contains(&was.raw()));
            let other = matches!(&backing, Backing::File { path, .. } if &**path == "/other");
            let Some(file) = file.filter(|_| !other) else {
                prop_assert_eq!((was, prot, backing), (is, now, shows));
                continue;
            };
            let Some((segment, at)) = files[file].byte(was) else { continue };
            let s = placed[file][segment];
            let replaced = backing == Backing::Anon && at < s.file_bytes;
            if replaced || was == is {
                prop_assert_eq!((was, prot, backing), (is, now, shows));
                continue;
            }
            prop_assert_eq!(is.raw() % max % BASE_BYTES, (s.address + at) % BASE_BYTES);
            match shows {
                Backing::File { path, offset } => {
                    prop_assert_eq!(&path, &files[file].path);
                    prop_assert_eq!(offset + is.raw() % BASE_BYTES, s.offset + at, "{} is {}", was, is);
                }
                Backing::Anon => prop_assert!(at >= s.file_bytes, "{} lost its file", was),
            }
            // The load address honours maxpagesize, and is one for the whole file.
            let base = is.raw().wrapping_sub(s.address + at);
            prop_assert_eq!(base.wrapping_sub(placed[file][0].address) % max, 0);
            if let Some(other) = moved.insert(is.raw(), was.raw()) {
                prop_assert_eq!(other, was.raw());
            }
        }
        for word in told {
            prop_assert!(matches!(word, Word::Event(_)));
        }
    }

    /// What the linker laid out as it would again, at an address that honours its maxpagesize, is told as it was.
    #[test]
    fn what_is_linked_alike_stays(one in file("/bin/one", 0x40_0000), over in any::<bool>(), at_once in 1usize..50) {
        let parts: Vec<Part> = one.segments.iter().map(Part::from).collect();
        let segments = layout(&parts, Linker::Lld, BASE_BYTES).unwrap().into_iter().map(|p| p.segment).collect();
        let said = story(&[File { segments, ..one }], &[over], &[]);
        let told = linked_anew(&said, Linker::Lld, 0, at_once).unwrap();
        for (told, said) in told.iter().zip(&said) {
            prop_assert_eq!(told, said);
        }
        prop_assert_eq!(told.len(), said.len());
    }

    /// Whatever a damaged trace says is taken, or refused.
    #[test]
    fn nonsense_is_taken_or_refused(words in prop::collection::vec(nonsense(), 1..60), order in 0u8..46, at_once in 1usize..20) {
        let _ = linked_anew(&words, Linker::Lld, order, at_once);
    }
}

/// Numbers near each other, and near the ends.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (0u64..40, prop_oneof![Just(0u64), 0u64..4096]).prop_map(|(page, at)| page * BASE_BYTES + at),
        1 => (0u64..40).prop_map(|n| u64::MAX - n * 1000),
        1 => (0u64..40).prop_map(|n| 0x30_0000_0000 + n * BASE_BYTES),
        1 => any::<u64>(),
    ]
}

fn nonsense() -> impl Strategy<Value = Word> {
    let segment =
        (number(), number(), number(), number(), 0u8..8).prop_map(|(address, bytes, offset, file_bytes, prot)| {
            ImageSegment { address, bytes, offset, file_bytes, prot: Prot::from_bits(prot), align: bytes }
        });
    let likely = (0u64..8, 1u64..9000, 0u8..8).prop_map(|(page, bytes, prot)| ImageSegment {
        address: page * BASE_BYTES,
        bytes,
        offset: page * BASE_BYTES,
        file_bytes: bytes,
        prot: Prot::from_bits(prot),
        align: BASE_BYTES,
    });
    let segments = prop::collection::vec(prop_oneof![segment, likely], 0..4);
    let path = prop_oneof![Just(Arc::<str>::from("/a")), Just(Arc::<str>::from("/b"))];
    let event = (number(), number(), number(), number(), 0u8..8, path, segments, 0usize..11);
    let event = event.prop_map(|(a, b, c, d, prot, path, segments, which)| {
        let (addr, prot) = (VirtAddr::new(a), Prot::from_bits(prot));
        match which {
            0 | 1 => Event::Image { path, segments },
            2..=4 => {
                let backing = Backing::File { path, offset: c };
                Event::Mmap { addr, len: b, prot, flags: MapFlags::default(), backing }
            }
            5 => Event::Mmap { addr, len: b, prot, flags: MapFlags::default(), backing: Backing::Anon },
            6 => Event::Munmap { addr, len: b },
            7 => Event::Mprotect { addr, len: b, prot },
            8 => Event::Mremap { old: addr, old_len: b, new: VirtAddr::new(c), new_len: d, keep_old: a % 2 == 0 },
            9 => Event::Madvise { addr, len: b, advice: Advice::Free },
            _ => Event::Brk { start: addr, end: VirtAddr::new(b) },
        }
    });
    prop_oneof![
        event.prop_map(Word::Event),
        number().prop_map(|a| Word::Ref(Ref::read(VirtAddr::new(a)))),
        (0u32..3, any::<bool>()).prop_map(|(pid, vm)| Word::Event(Event::Fork { child: Pid(pid), shares_memory: vm })),
        (0u32..3).prop_map(|pid| Word::Event(Event::Switch { pid: Pid(pid), tid: Tid(pid) })),
        Just(Word::Event(Event::Exec { path: "/a".into() })),
        Just(Word::Event(Event::Exit { status: 0 })),
    ]
}

/// Figure 1 of paper 1: read-only data that ends within page 6, then code up to the end of page 11; then data with zeroes.
fn figure_1() -> File {
    let data = 6 * BASE_BYTES + 2048;
    let part = |file_bytes, bytes, flags| Part { file_bytes, bytes, flags, align: 1 };
    let parts = [part(data, data, 4), part(12 * BASE_BYTES - data, 12 * BASE_BYTES - data, 5), part(300, 9000, 6)];
    let placed = layout(&parts, Linker::GnuSeparateCode, BASE_BYTES).unwrap();
    File { path: "/bin/x".into(), segments: placed.into_iter().map(|p| p.segment).collect(), bias: 0x40_0000 }
}

fn lines(words: &[Word]) -> Vec<String> {
    let line = |word: &Word| match word {
        Word::Event(event) => mmulab_trace::line_of_event(event),
        Word::Ref(word) => format!("{} {}", if word.is_fetch() { 'f' } else { 'r' }, word.va()),
    };
    words.iter().filter(|w| !matches!(w, Word::Event(Event::Image { .. }))).map(line).collect()
}

#[test]
fn figure_1_is_told_as_the_linker_would_have_it() {
    let file = figure_1();
    let mut said: Vec<Word> = file.load(true).into_iter().map(Word::Event).collect();
    // The code's first byte, which is the first of page 7 as it was.
    said.push(Word::Ref(Ref::fetch(VirtAddr::new(0x40_7000), 1)));
    said.push(Word::Event(Event::Munmap { addr: VirtAddr::new(0x40_0000), len: file.end() - 0x40_0000 }));
    // Page 6 of the file is mapped twice, and the code a page further on than it is in the file.
    let small = lines(&linked_anew(&said, Linker::Lld, 0, 9).unwrap());
    let expected = [
        "mmap 0x3000000000 0x7000 r file:/bin/x+0x0",
        "mmap 0x3000007000 0x6000 rx file:/bin/x+0x6000",
        "mmap 0x300000d000 0x1000 rw file:/bin/x+0xc000",
        "mmap 0x300000e000 0x2000 rw anon",
        "f 0x3000007800",
        "munmap 0x3000000000 0x10000",
    ];
    assert_eq!(small, expected);
    // With 16 KB the code is in step: pages 12 to 15 of memory are pages 8 to 11 of the file.
    let large = lines(&linked_anew(&said, Linker::Lld, 2, 9).unwrap());
    assert_eq!(large[1], "mmap 0x300000a000 0x6000 rx file:/bin/x+0x6000");
    assert_eq!(large[4], "f 0x300000a800");
}

#[test]
fn a_file_that_is_read_as_data_stays_where_it_is() {
    let file = figure_1();
    let read = file.map(0x7000_0000, 0x7000_d000, Prot::R, Some(0));
    let mut said = vec![Word::Event(file.told()), Word::Event(read.clone())];
    said.push(Word::Ref(Ref::read(VirtAddr::new(0x7000_5000))));
    said.extend(file.load(true).into_iter().map(Word::Event));
    let told = lines(&linked_anew(&said, Linker::Lld, 0, 1).unwrap());
    assert_eq!(told[..2], ["mmap 0x70000000 0xd000 r file:/bin/x+0x0", "r 0x70005000"]);
    assert!(told[2].starts_with("mmap 0x3000000000"));
}

#[test]
fn a_moved_page_moves_from_where_it_is_told() {
    let file = figure_1();
    let old = VirtAddr::new(file.bias + down(file.segments[1].address) + BASE_BYTES);
    let moves = Event::Mremap { old, old_len: 4096, new: VirtAddr::new(0x5000_0000), new_len: 4096, keep_old: false };
    let mut said: Vec<Word> = file.load(false).into_iter().map(Word::Event).collect();
    said.extend([Word::Event(moves), Word::Ref(Ref::read(VirtAddr::new(0x5000_0008)))]);
    // With `-z separate-code` the code moves by whole pages, with LLD it does not.
    let told = lines(&linked_anew(&said, Linker::GnuSeparateCode, 2, 1).unwrap());
    assert_eq!(told[4..], ["mremap 0x300000c000 0x1000 0x50000000 0x1000", "r 0x50000008"]);
    let refused = linked_anew(&said, Linker::Lld, 2, 1).unwrap_err();
    assert!(refused.contains("hold parts of others"), "{refused}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let file = figure_1();
    let code = file.load(false).into_iter().filter(|e| !matches!(e, Event::Image { .. })).map(Word::Event);
    let refused = linked_anew(&code.collect::<Vec<_>>(), Linker::Lld, 0, 1).unwrap_err();
    assert!(refused.contains("--program-headers"), "{refused}");
    let here = [Word::Event(file.map(0x30_0000_1000, 0x30_0000_2000, Prot::R, None))];
    let refused = linked_anew(&here, Linker::Lld, 0, 1).unwrap_err();
    assert!(refused.contains("image.window"), "{refused}");
    let there = [Word::Ref(Ref::read(VirtAddr::new(0x30_0000_1000)))];
    assert!(linked_anew(&there, Linker::Lld, 0, 1).unwrap_err().contains("image.window"));
    let loaded: Vec<Word> = file.load(false).into_iter().map(Word::Event).collect();
    let refused = linked_anew(&loaded, Linker::Lld, 25, 1).unwrap_err();
    assert!(refused.contains("no room for /bin/x"), "{refused}");
    let image = |window: &str| ImageDesc { window: Some(window.into()), ..ImageDesc::default() };
    let given = || Box::new(Given::new(&[], 1));
    for window in ["0x123", "nowhere", "0x7fffffff0000", "0"] {
        assert!(reshape(&only(image(window)), given()).err().unwrap().to_string().contains("image.window"));
    }
    let mut untold = given();
    untold.info.has_address_space = false;
    assert!(reshape(&only(ImageDesc::default()), untold).err().unwrap().to_string().contains("record it with mmulab"));
}
