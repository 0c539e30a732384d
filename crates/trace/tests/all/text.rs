//! The text form reads back as what was written, and says where it is wrong.

use mmulab_addr::{PageOrder, Pfn, Pid, Prot, Tid, VirtAddr};
use mmulab_trace::{
    Advice, Backing, Batch, Description, Event, ImageSegment, MapFlags, Ref, Source, TextReader, TextWriter,
    write_batch,
};
use proptest::prelude::*;

fn va() -> impl Strategy<Value = VirtAddr> {
    any::<u64>().prop_map(VirtAddr::new)
}

fn text() -> impl Strategy<Value = std::sync::Arc<str>> {
    "[ -~]{1,12}|/lib/é x#%[+]".prop_map(Into::into)
}

fn flags() -> impl Strategy<Value = MapFlags> {
    let order = prop::option::of(prop_oneof![Just(PageOrder::P2M), Just(PageOrder::P1G)]);
    (any::<[bool; 4]>(), order, prop::option::of(text())).prop_map(|([a, b, c, d], hugetlb, label)| MapFlags {
        shared: a,
        grows_down: b,
        populate: c,
        global: d,
        hugetlb,
        label,
    })
}

fn segment() -> impl Strategy<Value = ImageSegment> {
    (any::<[u64; 5]>(), 0u8..8).prop_map(|([address, bytes, offset, file_bytes, align], prot)| ImageSegment {
        address,
        bytes,
        offset,
        file_bytes,
        prot: Prot::from_bits(prot),
        align,
    })
}

fn event() -> impl Strategy<Value = Event> {
    let len = 0u64..1 << 57;
    let prot = (0u8..8).prop_map(Prot::from_bits);
    let backing = prop_oneof![
        Just(Backing::Anon),
        (text(), any::<u64>()).prop_map(|(path, offset)| Backing::File { path, offset })
    ];
    let advice = prop_oneof![
        Just(Advice::Hugepage),
        Just(Advice::Nohugepage),
        Just(Advice::Collapse),
        Just(Advice::Dontneed),
        Just(Advice::Free),
        Just(Advice::Willneed),
        (0u8..20).prop_map(|order| Advice::PageSize(PageOrder::new(order))),
        any::<i32>().prop_map(Advice::Other)
    ];
    prop_oneof![
        (any::<u32>(), any::<u32>()).prop_map(|(p, t)| Event::Switch { pid: Pid(p), tid: Tid(t) }),
        (va(), len.clone(), prot.clone(), flags(), backing).prop_map(|(addr, len, prot, flags, backing)| Event::Mmap {
            addr,
            len,
            prot,
            flags,
            backing
        }),
        (text(), prop::collection::vec(segment(), 0..4)).prop_map(|(path, segments)| Event::Image { path, segments }),
        (va(), len.clone()).prop_map(|(addr, len)| Event::Munmap { addr, len }),
        (va(), len.clone(), 0u32..57).prop_map(|(addr, len, n)| Event::Malloc { addr, len, align: 1 << n }),
        va().prop_map(|addr| Event::Free { addr }),
        (va(), len.clone(), prop_oneof![Just("".into()), text()]).prop_map(|(addr, len, name)| Event::Name {
            addr,
            len,
            name
        }),
        (va(), 0u64..1 << 40, 0u8..20, 1u64..9).prop_map(|(addr, frame, order, count)| Event::Frames {
            addr,
            pfn: Pfn(frame),
            size: PageOrder::new(order),
            count
        }),
        (va(), len.clone(), prot).prop_map(|(addr, len, prot)| Event::Mprotect { addr, len, prot }),
        (va(), len.clone(), va(), len.clone(), any::<bool>())
            .prop_map(|(old, old_len, new, new_len, keep_old)| Event::Mremap { old, old_len, new, new_len, keep_old }),
        (va(), len, advice).prop_map(|(addr, len, advice)| Event::Madvise { addr, len, advice }),
        (va(), va()).prop_map(|(start, end)| Event::Brk { start, end }),
        (any::<u32>(), any::<bool>()).prop_map(|(c, vm)| Event::Fork { child: Pid(c), shares_memory: vm }),
        any::<u32>().prop_map(|c| Event::Clone { child: Tid(c) }),
        text().prop_map(|path| Event::Exec { path }),
        (any::<u32>(), any::<u16>()).prop_map(|(tid, cpu)| Event::Pin { tid: Tid(tid), cpu }),
        any::<bool>().prop_map(|daemon| Event::Prctl { daemon }),
        Just(Event::ExitThread),
        any::<i32>().prop_map(|status| Event::Exit { status }),
        va().prop_map(|addr| Event::Invlpg { addr }),
        Just(Event::Tick),
        Just(Event::Resume),
        Just(Event::Pause),
        any::<u64>().prop_map(|left_out| Event::Continue { left_out }),
        text().prop_map(|what| Event::Lost { what }),
    ]
}

#[derive(Clone, Debug)]
enum Any {
    Ref(Ref),
    Event(Event),
}

fn any_item() -> impl Strategy<Value = Any> {
    prop_oneof![
        (va(), 0u32..32).prop_map(|(va, n)| Any::Ref(Ref::fetch(va, n))),
        va().prop_map(|va| Any::Ref(Ref::read(va))),
        va().prop_map(|va| Any::Ref(Ref::write(va))),
        (0u64..1 << 40).prop_map(|n| Any::Ref(Ref::retire(n))),
        event().prop_map(Any::Event),
    ]
}

fn read(text: &[u8]) -> Result<Batch, String> {
    let mut reader = TextReader::new(text, "t".into());
    let mut batch = Batch::default();
    match reader.next_batch(&mut batch) {
        Ok(_) => Ok(batch),
        Err(e) => Err(e.to_string()),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(items in prop::collection::vec(any_item(), 0..50)) {
        let mut batch = Batch::default();
        for item in items {
            match item {
                Any::Ref(r) => batch.refs.push(r),
                Any::Event(e) => batch.push_event(e),
            }
        }
        let mut text = Vec::new();
        write_batch(&batch, &mut text).unwrap();
        let again = read(&text).unwrap();
        prop_assert_eq!(again.refs, batch.refs);
        prop_assert_eq!(again.events, batch.events);
    }

    #[test]
    fn warps_are_written_a_line_each_and_read_as_they_were(
        steps in prop::collection::vec((step(), prop::option::of(any_item())), 0..30),
        cut in any::<prop::sample::Index>()
    ) {
        let mut batch = Batch::default();
        for ((tid, words), between) in steps {
            batch.push_event(Event::Switch { pid: Pid(1), tid: Tid(tid) });
            batch.refs.extend(words);
            match between {
                Some(Any::Ref(r)) => batch.refs.push(r),
                Some(Any::Event(e)) => batch.push_event(e),
                None => {}
            }
        }
        let description = Description { has_address_space: true, warps: Some(4), ..Description::default() };
        let mut writer = TextWriter::new(Vec::new(), &description).unwrap();
        // Wherever a batch ends.
        let at = cut.index(batch.refs.len() + 1);
        for part in [&batch.refs[..at], &batch.refs[at..]] {
            let batch = Batch { refs: part.to_vec(), events: batch.events.clone(), ..Batch::default() };
            writer.push_batch(&batch).unwrap();
        }
        let text = writer.finish().unwrap();
        let mut reader = TextReader::new(text.as_slice(), "t".into());
        prop_assert_eq!(reader.info().warps, Some(4));
        let mut again = Batch::default();
        reader.next_batch(&mut again).unwrap();
        prop_assert_eq!(again.refs, batch.refs);
        prop_assert_eq!(again.events, batch.events);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
    }

    #[test]
    fn no_words_make_it_panic(
        text in "(mmap|f|r|w|p|brk|madvise|fork|n|#|0x[0-9a-f]{1,18}|rw|8M|anon|file:|x3|\\n| ){0,60}"
    ) {
        let _ = read(text.as_bytes());
    }
}

/// A warp's thread, and an instruction of it.
fn step() -> impl Strategy<Value = (u32, Vec<Ref>)> {
    let stride = prop_oneof![Just(0i64), Just(4), Just(-8), -70_000i64..70_000];
    let lanes = prop_oneof![
        prop::collection::vec(va(), 1..70),
        (va(), stride, any::<u64>()).prop_map(|(base, stride, mask)| {
            let on = (0..64).filter(|lane| mask >> lane & 1 == 1);
            on.map(|lane| VirtAddr::new(base.raw().wrapping_add_signed(stride * lane))).collect()
        }),
    ];
    (0u32..3, va(), 0u32..80, lanes, any::<bool>()).prop_map(|(tid, code, count, lanes, write)| {
        let mut batch = Batch::default();
        batch.push_block(code, 1, count);
        batch.refs.extend(lanes.into_iter().map(|va| if write { Ref::write(va) } else { Ref::read(va) }));
        (tid, batch.refs)
    })
}

#[test]
fn a_warps_line_is_its_instruction() {
    let text = b"#: warps 4\nwarp 2.1 0x400100 x4 r 0xb 0x1000+8\nwarp 2.1 0x400104 w 0x5 0x9000,0x8000\n";
    let batch = read(text).unwrap();
    let mut plain = Vec::new();
    write_batch(&batch, &mut plain).unwrap();
    let expected = "p 1.9\nf 0x400100 x4\nr 0x1000\nr 0x1008\nr 0x1018\nf 0x400104\nw 0x9000\nw 0x8000\n";
    assert_eq!(String::from_utf8(plain).unwrap(), expected);
    let wrong = |line: &str| read(format!("#: warps 4\n{line}\n").as_bytes()).unwrap_err();
    for (line, says) in [
        ("warp 2.4 0x10 r 0x1 0x20", "column 6: '2.4' is not a warp of a core that has 4, from 0 on"),
        ("warp 2 0x10 r 0x1 0x20", "'2' is not a warp: write CORE.WARP"),
        ("warp 2.0 0x10 q 0x1 0x20", "'q' is neither r, for a load, nor w"),
        ("warp 2.0 0x10 r 0 0x20", "'0' is not a mask: write 0x"),
        ("warp 2.0 0x10 r 0x0 0x20", "no lane is active"),
        ("warp 2.0 0x10 r 0x3 0x20", "1 addresses for 2 lanes: write BASE+STRIDE, or one for each lane"),
        ("warp 2.0 0x10 r 0x3 0x20+x", "'+x' is not a stride"),
        ("warp 4294967295.0 0x10 r 0x1 0x20", "has a core beyond any"),
    ] {
        let error = wrong(line);
        assert!(error.contains(says), "{line}: {error}");
    }
    assert!(read(b"warp 0.0 0x10 r 0x1 0x20").unwrap_err().contains("needs a line '#: warps N'"));
}

#[test]
fn mistakes_are_told_with_line_column_and_the_nearest_word() {
    let wrong = |text: &str| read(text.as_bytes()).unwrap_err();
    assert_eq!(
        wrong("r 0x10\nmunmp 0x10 4K\n"),
        "t: line 2, column 1: 'munmp' is not an event; did you mean 'munmap'?"
    );
    assert_eq!(wrong("r\n"), "t: line 1, column 2: an address is missing");
    assert_eq!(
        wrong("mmap 0x1000 4K rq anon"),
        "t: line 1, column 16: 'rq' are not rights: write letters of rwx, or -"
    );
    assert_eq!(wrong("r 0x1000 0x2000"), "t: line 1, column 10: '0x2000' is one word too many");
    assert!(wrong("r 0x0100000000000000").contains("canonical"));
    assert!(wrong("mmap 0x1000 4K rw anon hugetlb=3M").contains("names no page size"));
}

#[test]
fn what_came_before_a_mistake_is_kept() {
    let mut reader = TextReader::new(&b"r 0x1000\nw 0x2000\nbad\nr 0x3000\n"[..], "t".into());
    let mut batch = Batch::default();
    assert!(reader.next_batch(&mut batch).is_err());
    assert_eq!(batch.refs.len(), 2);
    assert_eq!(reader.next_batch(&mut batch).ok(), Some(false), "after an error there is nothing more");
}
