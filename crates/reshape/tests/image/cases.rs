//! Cases worked out by hand.

use crate::model::*;
use mmulab_addr::{BASE_BYTES, Prot, VirtAddr};
use mmulab_elf::{Linker, Part, layout};
use mmulab_reshape::{ImageDesc, reshape};
use mmulab_trace::{Event, Ref};

/// Figure 1 of paper 1: read-only data that ends within page 6, then code up to the end of page 11; then data with
/// zeroes.
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
    // With 16 KB the code is aligned with the file: pages 12 to 15 of memory are pages 8 to 11 of the file.
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
    // With `-z separate-code` the code moves by whole pages, with LLD it does not. It begins at the next multiple of
    // 16 KB, 0x8000, and its second page moves.
    let told = lines(&linked_anew(&said, Linker::GnuSeparateCode, 2, 1).unwrap());
    assert_eq!(told[4..], ["mremap 0x3000009000 0x1000 0x50000000 0x1000", "r 0x50000008"]);
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
    let refused = linked_anew(&loaded, Linker::Lld, 29, 1).unwrap_err();
    assert!(refused.contains("no room for /bin/x"), "{refused}");
    // Segments that are 1 GiB apart have a window of 1 TiB.
    let far: Vec<Word> = linked_anew(&loaded, Linker::Lld, 18, 1).unwrap();
    let first = |word: &Word| match word {
        Word::Event(Event::Mmap { addr, .. }) => Some(addr.raw()),
        _ => None,
    };
    assert_eq!(far.iter().find_map(first), Some(0x1000_0000_0000));
    let image = |window: &str| ImageDesc { window: Some(window.into()), ..ImageDesc::default() };
    let given = || Box::new(Given::new(&[], 1));
    for window in ["0x123", "nowhere", "0x7fffffff0000", "0"] {
        assert!(reshape(&only(image(window)), given()).err().unwrap().to_string().contains("image.window"));
    }
    let mut untold = given();
    untold.info.has_address_space = false;
    assert!(reshape(&only(ImageDesc::default()), untold).err().unwrap().to_string().contains("record it with mmulab"));
}
