//! The native format: what is written is read back, and what is damaged is named.

use mmulab_addr::{PageOrder, Pfn, Pid, Prot, Tid, VirtAddr};
use mmulab_trace::{
    Advice, Backing, Batch, ChunkHeader, Description, Encoder, EndInfo, Event, Format, ImageSegment, IndexEntry, Item,
    MapFlags, NativeReader, NativeWriter, Op, Ref, Sink, Source, Span, TraceError, TraceErrorKind, Variant, copy,
    write_index,
};
use proptest::prelude::*;
use std::io::Cursor;

/// One word, its event resolved.
#[derive(Clone, PartialEq, Debug)]
enum Word {
    Ref(Ref),
    Event(Event),
}

fn words(batch: &Batch) -> Vec<Word> {
    let word = |r: &Ref| match r.item() {
        Item::Event(i) => Word::Event(batch.events[i].clone()),
        _ => Word::Ref(*r),
    };
    batch.refs.iter().map(word).collect()
}

fn read_all(source: &mut impl Source) -> (Vec<Word>, Option<TraceError>) {
    let (mut all, mut batch) = (Vec::new(), Batch::default());
    loop {
        match source.next_batch(&mut batch) {
            Ok(true) => all.extend(words(&batch)),
            Ok(false) => return (all, None),
            Err(error) => {
                all.extend(words(&batch));
                return (all, Some(error));
            }
        }
    }
}

fn open(bytes: &[u8]) -> Result<NativeReader, TraceError> {
    NativeReader::new(Cursor::new(bytes.to_vec()), "test".into())
}

fn write(all: &[Word]) -> Vec<u8> {
    let mut writer = NativeWriter::new(Vec::new(), &Description::default()).unwrap();
    for word in all {
        match word {
            Word::Ref(r) => writer.push(*r).unwrap(),
            Word::Event(e) => writer.push_event(e).unwrap(),
        }
    }
    writer.finish(EndInfo::default()).unwrap()
}

fn va() -> impl Strategy<Value = VirtAddr> {
    prop_oneof![
        any::<u64>().prop_map(VirtAddr::new),
        (0u64..64).prop_map(|n| VirtAddr::new(0x7fff_0000_0000 + n * 8)),
        (0u64..4).prop_map(|n| VirtAddr::new(0x40_0000 + n * 16)),
    ]
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        6 => (va(), 0u32..=31).prop_map(|(va, n)| Word::Ref(Ref::fetch(va, n))),
        6 => va().prop_map(|va| Word::Ref(Ref::read(va))),
        6 => va().prop_map(|va| Word::Ref(Ref::write(va))),
        1 => (0u64..1 << 40).prop_map(|n| Word::Ref(Ref::retire(n))),
        1 => (0u64..100).prop_map(|n| Word::Ref(Ref::retire(n))),
        1 => (0u32..3, 0u32..70).prop_map(|(pid, tid)| Word::Event(Event::Switch { pid: Pid(pid), tid: Tid(tid) })),
        1 => event().prop_map(Word::Event),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    (va(), any::<u64>(), 0usize..16).prop_map(|(addr, len, which)| match which {
        0 => Event::Mmap {
            addr,
            len,
            prot: Prot::RX,
            flags: MapFlags { label: Some("[x]".into()), ..MapFlags::default() },
            backing: Backing::File { path: "/lib/\"ü\n".into(), offset: len },
        },
        1 => Event::Munmap { addr, len },
        2 => Event::Madvise { addr, len, advice: Advice::Other(-1) },
        3 => Event::Fork { child: Pid(9), shares_memory: true },
        4 => Event::Lost { what: "why".into() },
        5 => Event::Tick,
        6 => Event::Malloc { addr, len, align: 16 },
        7 => Event::Free { addr },
        8 => {
            let segment = ImageSegment { address: len, bytes: 1, offset: 2, file_bytes: 3, prot: Prot::RX, align: 4 };
            Event::Image { path: "/x".into(), segments: vec![segment; 2] }
        }
        10 => Event::Resume,
        15 => Event::Pause,
        16 => Event::Continue { left_out: len },
        14 => Event::Prctl { daemon: len % 2 == 0 },
        12 => Event::Name { addr, len, name: "table_new (\"ü\".c:42)".into() },
        13 => Event::Name { addr, len, name: "".into() },
        11 => Event::Madvise { addr, len, advice: Advice::PageSize(PageOrder::P64K) },
        9 => Event::Frames { addr, pfn: Pfn(len), size: PageOrder::P2M, count: 3 },
        _ => Event::Mremap { old: addr, old_len: len, new: addr, new_len: 1, keep_old: false },
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(
        pieces in prop::collection::vec((prop::collection::vec(word(), 1..12), 1usize..20), 1..20)
    ) {
        // Repeated pieces: predictions hit.
        let repeated = pieces.iter().flat_map(|(piece, times)| piece.iter().cycle().take(piece.len() * times));
        let all: Vec<Word> = repeated.cloned().collect();
        let bytes = write(&all);
        let mut reader = open(&bytes).unwrap();
        let references = all.iter().filter(|w| matches!(w, Word::Ref(r) if !r.is_control())).count();
        prop_assert_eq!(reader.info().references, Some(references as u64));
        let (back, error) = read_all(&mut reader);
        prop_assert!(error.is_none());
        prop_assert_eq!(&back, &all);
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..2000) {
        drop(open(&bytes).map(|mut r| read_all(&mut r)));
        // Random bytes in the middle of a real trace, its checksums made right again where they can be.
        let mut whole = sample();
        let at = at % whole.len();
        let end = (at + bytes.len()).min(whole.len());
        whole[at..end].copy_from_slice(&bytes[..end - at]);
        drop(open(&whole).map(|mut r| read_all(&mut r)));
    }
}

/// What one process does for a while, with a good part of a chunk at times, and what becomes of processes at its end.
fn interval() -> impl Strategy<Value = Vec<Word>> {
    let end = prop_oneof![
        2 => (1u32..4).prop_map(|child| vec![Event::Fork { child: Pid(child), shares_memory: false }]),
        2 => Just(vec![Event::Exit { status: 0 }]),
        1 => Just(vec![Event::Exec { path: "/x".into() }]),
        2 => Just(Vec::new()),
    ];
    (1u32..4, 1u32..40, prop::collection::vec(word(), 1..9), prop::bool::weighted(0.3), end).prop_map(
        |(pid, tid, some, long, end)| {
            let switch = Word::Event(Event::Switch { pid: Pid(pid), tid: Tid(tid) });
            // Counts of instructions fill a chunk as well as anything, and are the quickest to write.
            let filler = (0..if long { 150_000 } else { 3 }).map(|_| Word::Ref(Ref::retire(1)));
            let own = some.into_iter().filter(|w| !matches!(w, Word::Event(Event::Switch { .. })));
            let small = own.map(|w| match w {
                Word::Ref(r) if matches!(r.item(), Item::Retire(_)) => Word::Ref(Ref::retire(7)),
                other => other,
            });
            let small: Vec<Word> = small.collect();
            let tail = small.clone().into_iter().chain(end.into_iter().map(Word::Event));
            std::iter::once(switch).chain(small).chain(filler).chain(tail).collect()
        },
    )
}

/// An interval of a trace as another trace.
fn slice(bytes: &[u8], start: u64, end: u64) -> Vec<u8> {
    let mut sink = Sink::new(Format::Native, Vec::new(), &Description::default()).unwrap();
    let copied = copy(&mut open(bytes).unwrap(), &mut sink, Span { start, end: Some(end) }, |_| true).unwrap();
    assert!(copied.stopped.is_none(), "{:?}", copied.stopped);
    sink.finish(EndInfo::default()).unwrap().0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn slices_of_processes_that_come_and_go_hold(
        intervals in prop::collection::vec(interval(), 2..12),
        from in 0.0f64..1.0,
        share in 0.0f64..1.0,
    ) {
        let all: Vec<Word> = intervals.concat();
        let whole = write(&all);
        prop_assert!(read_all(&mut open(&whole).unwrap()).0 == all);
        let total = open(&whole).unwrap().info().instructions.unwrap() as f64;
        let (start, end) = ((total * from) as u64, (total * (from + share)) as u64);
        let cut = slice(&whole, start, end);
        for bytes in [&whole, &cut] {
            let found = open(bytes).unwrap().verify(&mut |_| true);
            prop_assert!(found.problems.is_empty(), "{:?}", found.problems);
        }
        // A copy of all of it is the same.
        prop_assert!(slice(&cut, 0, u64::MAX) == cut);
    }
}

#[test]
fn a_process_that_ends_leaves_the_others_their_dictionary() {
    let read = Word::Ref(Ref::read(VirtAddr::new(0x1000)));
    let switch = |pid| Word::Event(Event::Switch { pid: Pid(pid), tid: Tid(pid) });
    let mut all = vec![switch(2), read.clone(), Word::Event(Event::Exit { status: 0 }), switch(1)];
    all.extend((0..600_000).map(|_| Word::Ref(Ref::retire(1))));
    all.extend([Word::Event(Event::Exit { status: 0 }), switch(3), read.clone()]);
    all.extend((0..600_000).map(|_| Word::Ref(Ref::retire(1))));
    all.push(read);
    let bytes = write(&all);
    let mut reader = open(&bytes).unwrap();
    assert!(reader.chunks().len() > 4);
    assert!(read_all(&mut reader).0 == all);
    assert_eq!(open(&bytes).unwrap().verify(&mut |_| true).problems, Vec::<String>::new());
}

/// A trace of several chunks in two processes.
fn sample() -> Vec<u8> {
    let (mut out, mut entries) =
        (Description { program: "sample".into(), ..Description::default() }.to_bytes(), Vec::new());
    let mut first = Encoder::new(0, Pid(1), Tid(1), 1).unwrap();
    let mut second = Encoder::new(1, Pid(2), Tid(2), 1).unwrap();
    let block = |n: u64| Variant {
        start: Some(VirtAddr::new(0x40_0ff0 + n * 64)),
        bytes: 32,
        instructions: 5 + n as u32 * 10,
        ops: vec![
            Op { instruction: 1, store: false, size_shift: 3 },
            Op { instruction: 3, store: true, size_shift: 2 },
        ],
        ..Variant::default()
    };
    let ids: Vec<_> = (0..5).map(|n| first.define(&block(n)).unwrap()).collect();
    let other: Vec<_> = (0..5).map(|n| second.define(&block(n + 7)).unwrap()).collect();
    let mut take = |encoder: &mut Encoder| {
        let at = out.len() as u64;
        let header = encoder.take_chunk(&mut out).unwrap();
        entries.push(IndexEntry::new(at, &header));
    };
    for round in 0..40u64 {
        for i in 0..50u64 {
            let address = 0x7000_0000 + round * 0x1000 + i * 24;
            first.execute(ids[(i * i % 5) as usize], [address, address * 3 % 0x1000_0000].into_iter());
            second.execute(other[(i % 3) as usize], [i * 4096 - i.min(1), round].into_iter());
        }
        first.event(&Event::Tick);
        take(&mut first);
        if round % 3 == 2 {
            take(&mut second);
        }
    }
    first.event(&Event::Exit { status: 3 });
    take(&mut first);
    let at = out.len() as u64;
    write_index(&mut out, at, &entries, &EndInfo::default()).unwrap();
    out
}

#[test]
fn blocks_become_the_words_of_batches() {
    let mut encoder = Encoder::new(0, Pid(1), Tid(1), 1).unwrap();
    let op = Op { instruction: 0, store: true, size_shift: 3 };
    let id = encoder
        .define(&Variant {
            start: Some(VirtAddr::new(0x1ff0)),
            bytes: 32,
            instructions: 40,
            ops: vec![op],
            code: vec![],
        })
        .unwrap();
    encoder.execute(id, [0x2ffcu64].into_iter());
    let mut out = Description::default().to_bytes();
    let at = out.len() as u64;
    let header = encoder.take_chunk(&mut out).unwrap();
    let (end, entries) = (out.len() as u64, [IndexEntry::new(at, &header)]);
    write_index(&mut out, end, &entries, &EndInfo::default()).unwrap();
    let mut expected = Batch::default();
    expected.push_block(VirtAddr::new(0x1ff0), 32, 40);
    expected.push_data(VirtAddr::new(0x2ffc), 8, true);
    let mut reader = open(&out).unwrap();
    assert_eq!(reader.info().instructions, Some(40));
    assert_eq!(reader.info().references, Some(4));
    assert_eq!(read_all(&mut reader).0, words(&expected));
}

#[test]
fn a_chunk_without_any_difference_is_read() {
    // A loop over one word: from the second chunk on every address is where it was.
    let turn = [Word::Ref(Ref::fetch(VirtAddr::new(0x1000), 3)), Word::Ref(Ref::read(VirtAddr::new(0x2000)))];
    let all: Vec<Word> = turn.iter().cycle().take(2_000_000).cloned().collect();
    let mut reader = open(&write(&all)).unwrap();
    assert!(reader.chunks().len() > 2);
    let (read, error) = read_all(&mut reader);
    assert!(error.is_none(), "{error:?}");
    assert!(read == all);
}

#[test]
fn a_cut_file_reads_up_to_its_last_whole_chunk() {
    let whole = sample();
    let reader = open(&whole).unwrap();
    assert!(reader.info().warnings.is_empty());
    let entries = reader.chunks().to_vec();
    let (all, error) = read_all(&mut open(&whole).unwrap());
    assert!(error.is_none() && entries.len() > 50);
    let mut ends: Vec<usize> = entries.iter().map(|e| e.offset as usize).collect();
    ends.push(ends[0]);
    let mut cuts: Vec<usize> =
        ends.iter().flat_map(|&e| [e, e + 1, e + ChunkHeader::BYTES, e + ChunkHeader::BYTES + 9]).collect();
    cuts.extend(whole.len() - 80..whole.len());
    let mut most = 0;
    for cut in cuts {
        let mut reader = open(&whole[..cut]).unwrap();
        assert!(reader.info().warnings[0].starts_with("cut short"), "{cut}: {:?}", reader.info().warnings);
        let chunks = reader.chunks().to_vec();
        assert_eq!(chunks, entries[..chunks.len()]);
        let next = entries.get(chunks.len()).map_or(whole.len(), |e| e.offset as usize);
        assert!(cut < next + ChunkHeader::BYTES + whole.len() / 20, "a whole chunk was left out");
        let (some, error) = read_all(&mut reader);
        let error = error.expect("the cut is told where it is met");
        assert!(matches!(error.kind, TraceErrorKind::Cut(_)) && error.at.starts_with("byte "), "{cut}: {error}");
        assert_eq!(some, all[..some.len()]);
        most = most.max(some.len());
    }
    assert_eq!(most, all.len());
    for cut in 0..entries[0].offset as usize {
        let error = open(&whole[..cut]).err().expect("nothing to read");
        assert!(matches!(error.kind, TraceErrorKind::Cut(_) | TraceErrorKind::Foreign(_)), "{cut}: {error}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_found_and_placed() {
    let whole = sample();
    let (all, _) = read_all(&mut open(&whole).unwrap());
    // Every byte, one bit each, all eight bits over time.
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        let error = match open(&flipped) {
            Err(error) => error,
            Ok(mut reader) => {
                let warned = !reader.info().warnings.is_empty();
                let (some, error) = read_all(&mut reader);
                assert_eq!(some, all[..some.len()], "{at}: a wrong word was read");
                match error {
                    Some(error) => error,
                    None => {
                        assert!(warned, "byte {at} was flipped, and nobody noticed");
                        continue;
                    }
                }
            }
        };
        assert!(error.to_string().contains("byte "), "{at}: {error}");
    }
}

#[test]
fn seeking_rebuilds_what_reading_through_knows() {
    let whole = sample();
    let (all, _) = read_all(&mut open(&whole).unwrap());
    let total = open(&whole).unwrap().info().instructions.unwrap();
    for target in (0..total + 10_000).step_by(7_919) {
        let mut reader = open(&whole).unwrap();
        let sought = reader.seek(target).unwrap();
        assert!(sought.instructions <= target);
        let (rest, error) = read_all(&mut reader);
        assert!(error.is_none());
        assert_eq!(rest, all[all.len() - rest.len()..], "{target}");
        // Ticks change nothing that is to be rebuilt, nor do switches that another one follows.
        let mut before: Vec<Event> = Vec::new();
        for word in &all[..all.len() - rest.len()] {
            match (word, before.last_mut()) {
                (Word::Event(Event::Tick) | Word::Ref(_), _) => {}
                (Word::Event(e @ Event::Switch { .. }), Some(last @ Event::Switch { .. })) => *last = e.clone(),
                (Word::Event(e), _) => before.push(e.clone()),
            }
        }
        assert_eq!(sought.events, before);
    }
}

#[test]
fn other_files_are_refused() {
    for bytes in [&b""[..], b"\x89MMT\r", b"hello, world, this is no trace", b"\x89PNG\r\n\x1a\n0000000000000000000"] {
        let error = open(bytes).err().expect("no trace");
        assert!(matches!(error.kind, TraceErrorKind::Foreign(_) | TraceErrorKind::Cut(_)), "{error}");
    }
}

#[test]
fn the_hash_names_the_content() {
    let a = write(&[Word::Ref(Ref::read(VirtAddr::new(1)))]);
    let b = write(&[Word::Ref(Ref::read(VirtAddr::new(2)))]);
    let hash = |bytes: &[u8]| open(bytes).unwrap().info().hash.clone().unwrap();
    assert_ne!(hash(&a), hash(&b));
    assert_eq!(hash(&a), hash(&write(&[Word::Ref(Ref::read(VirtAddr::new(1)))])));
    assert_eq!(hash(&a).len(), 32);
}
