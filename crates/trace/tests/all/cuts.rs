//! Traces that begin in the middle of a program: what they carry of what came before, and how old ones are found out.

use mmulab_addr::{Prot, VirtAddr};
use mmulab_trace::{
    Batch, ChampSimReader, Description, EndInfo, Event, Format, NativeReader, NativeWriter, Ref, Sink, Source, Span,
    TextReader, copy, slice, summarize, write_batch,
};
use std::io::Cursor;

const WHOLE: &str = "\
mmap 0x400000 8K rx file:/bin/x+0
mmap 0x10000 64K rw anon
f 0x400000 x3
w 0x10008
r 0x11008
w 0x11010
malloc 0x10100 0x20
munmap 0x13000 4K
f 0x400010 x3
r 0x12000
w 0x10010
clone 2
p 1.2
tick
f 0x401000 x3
w 0x12010
f 0x400000 x3
w 0x10018
";

fn source(text: &str) -> Box<dyn Source> {
    Box::new(TextReader::new(Cursor::new(text.as_bytes().to_vec()), "t".into()))
}

/// The text of `span` of the trace of this text.
fn cut(text: &str, start: u64, end: Option<u64>) -> String {
    let mut source = slice(source(text), Span { start, end });
    let (mut out, mut batch) = (Vec::new(), Batch::default());
    while source.next_batch(&mut batch).unwrap() {
        write_batch(&batch, &mut out).unwrap();
    }
    write_batch(&batch, &mut out).unwrap();
    let skipped = source.info().skipped.map(|n| format!("#: skipped {n}\n")).unwrap_or_default();
    skipped + &String::from_utf8(out).unwrap()
}

/// CHANGELOG number 3: what was used before a cut is used before what follows it.
#[test]
fn a_cut_trace_begins_with_the_pages_in_use() {
    let expected = "\
#: skipped 9
mmap 0x400000 0x2000 rx file:/bin/x+0x0
mmap 0x10000 0x10000 rw anon
malloc 0x10100 0x20
f 0x400000 x0
w 0x10000
r 0x11000
w 0x11000
munmap 0x13000 0x1000
clone 2
p 1.2
r 0x12000
w 0x12000
f 0x401000 x0
resume
f 0x400000 x3
w 0x10018
";
    assert_eq!(cut(WHOLE, 9, None), expected);
    assert_eq!(
        cut(WHOLE, 0, Some(3)),
        WHOLE.lines().take(6).fold(String::new(), |all, line| {
            let line = line.replace("8K", "0x2000").replace("64K", "0x10000").replace("x+0", "x+0x0");
            all + &line + "\n"
        }) + "malloc 0x10100 0x20\nmunmap 0x13000 0x1000\n"
    );
}

#[test]
fn a_cut_of_a_cut_is_a_cut() {
    let twice = cut(&cut(WHOLE, 3, None), 6, None);
    assert_eq!(twice, cut(WHOLE, 9, None));
}

#[test]
fn only_what_follows_the_cut_is_counted_and_exported() {
    let text = cut(WHOLE, 6, None);
    let sum = summarize(source(&text).as_mut(), |_| true);
    assert_eq!((sum.skipped, sum.instructions, sum.references), (Some(6), 6, 4));
    assert_eq!((sum.code_pages, sum.data_pages, sum.used_before_bytes), (2, 2, Some(4 * 4096)));
    let mut sink = Sink::new(Format::ChampSim, Vec::new(), &source(&text).description()).unwrap();
    copy(source(&text).as_mut(), &mut sink, Span::default(), |_| true).unwrap();
    let (bytes, _) = sink.finish(EndInfo::default()).unwrap();
    let (mut reader, mut batch) = (ChampSimReader::new(Cursor::new(bytes), "c".into()), Batch::default());
    reader.next_batch(&mut batch).unwrap();
    assert_eq!(batch.counts(), (6, 8), "a fetch for each instruction, and two stores");
}

/// Whether the reader takes a recording that begins with these events for one that was cut without its pages.
fn is_reported(skipped: Option<u64>, source: &str, events: &[Event]) -> bool {
    let has_address_space = true;
    let description = Description { source: source.into(), skipped, has_address_space, ..Description::default() };
    let mut writer = NativeWriter::new(Vec::new(), &description).unwrap();
    events.iter().for_each(|event| writer.push_event(event).unwrap());
    writer.push(Ref::fetch(VirtAddr::new(0x1000), 1)).unwrap();
    writer.push_event(&Event::Munmap { addr: VirtAddr::new(0x9000), len: 4096 }).unwrap();
    let bytes = writer.finish(EndInfo::default()).unwrap();
    let mut reader = NativeReader::new(Cursor::new(bytes), "old.mmt".into()).unwrap();
    let mut batch = Batch::default();
    assert!(reader.next_batch(&mut batch).unwrap(), "it is read from its beginning");
    assert_eq!(batch.events.len(), events.len() + 1);
    reader.info().warnings.iter().any(|warning| warning.contains("an older mmulab cut it"))
}

/// CHANGELOG number 3: old recordings do not pretend that nothing was in memory.
#[test]
fn a_recording_that_was_cut_without_its_pages_is_reported() {
    let exec = Event::Exec { path: "/bin/x".into() };
    let protect = Event::Mprotect { addr: VirtAddr::new(0x1000), len: 4096, prot: Prot::R };
    let old = [exec.clone(), protect];
    assert!(is_reported(None, "qemu-x86_64 8.2", &old));
    assert!(!is_reported(Some(5), "qemu-x86_64 8.2", &old));
    assert!(!is_reported(None, "text", &old));
    assert!(!is_reported(None, "qemu-x86_64 8.2", &[exec]));
}
