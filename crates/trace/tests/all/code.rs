//! Code in traces: it comes back with the executions it belongs to, and costs nothing where nobody asks for it.

use mmulab_addr::VirtAddr;
use mmulab_trace::{
    Batch, Body, Code, Description, EndInfo, Isa, Item, NativeReader, NativeWriter, Op, Ref, Source, TextReader,
    TextWriter,
};
use std::{io::Cursor, sync::Arc};

/// Two executions of a block of 40 instructions that crosses a page, with other code at the same start in between. Then
/// follows an access that no code makes.
fn batch() -> Batch {
    let op = |instruction, store, size_shift| Op { instruction, store, size_shift };
    let block =
        |fill: u8| Arc::new(Code::new(Body::Bytes([fill; 0x30].into()), 0x30, 40, [op(3, false, 3), op(9, true, 2)]));
    let mut batch = Batch::default();
    for code in [block(1), block(2), block(1)] {
        batch.push_code(&code);
        batch.push_block(VirtAddr::new(0x40_0fe0), 0x30, 40);
        // The load crosses a page, too.
        batch.push_data(VirtAddr::new(0x7fff), 8, false);
        batch.push_data(VirtAddr::new(0x9000), 4, true);
    }
    batch.refs.push(Ref::read(VirtAddr::new(0xa000)));
    batch
}

fn native(batch: &Batch) -> Vec<u8> {
    let mut writer =
        NativeWriter::new(Vec::new(), &Description { isa: Isa::X86_64, ..Description::default() }).unwrap();
    writer.push_batch(batch).unwrap();
    writer.finish(EndInfo::default()).unwrap()
}

fn read(mut source: impl Source, with_code: bool) -> Batch {
    assert!(!with_code || source.tell_code());
    let (mut all, mut batch) = (Batch::default(), Batch::default());
    while source.next_batch(&mut batch).unwrap() {
        for word in &batch.refs {
            match word.item() {
                Item::Code(index) => all.push_code(&batch.code[index]),
                Item::Event(index) => all.push_event(batch.events[index].clone()),
                _ => all.refs.push(*word),
            }
        }
    }
    all
}

#[test]
fn native_traces_keep_the_code_of_each_execution() {
    let batch = batch();
    let bytes = native(&batch);
    let again = read(NativeReader::new(Cursor::new(bytes.clone()), "t".into()).unwrap(), true);
    assert_eq!(again.refs, batch.refs);
    assert_eq!(again.code, batch.code);
    // The code that came twice is one.
    assert_eq!(again.code[0].id(), again.code[2].id());
    let plain = read(NativeReader::new(Cursor::new(bytes), "t".into()).unwrap(), false);
    let without: Vec<Ref> = batch.refs.iter().copied().filter(|w| !matches!(w.item(), Item::Code(_))).collect();
    assert_eq!((plain.refs, plain.code.len()), (without, 0));
}

#[test]
fn code_that_does_not_fit_its_words_is_left_out_and_the_words_are_kept() {
    let mut batch = batch();
    // The store of the second execution becomes a load.
    let at = batch.refs.iter().enumerate().filter(|(_, w)| w.is_write() && !w.is_control()).nth(1).unwrap().0;
    batch.refs[at] = Ref::read(VirtAddr::new(0x9000));
    let again = read(NativeReader::new(Cursor::new(native(&batch)), "t".into()).unwrap(), false);
    let without: Vec<Ref> = batch.refs.iter().copied().filter(|w| !matches!(w.item(), Item::Code(_))).collect();
    assert_eq!(again.refs, without);
}

#[test]
fn text_keeps_code_too() {
    let batch = batch();
    let mut writer = TextWriter::new(Vec::new(), &Description::default()).unwrap();
    writer.push_batch(&batch).unwrap();
    let text = writer.finish().unwrap();
    let again = read(TextReader::new(text.as_slice(), "t".into()), true);
    assert_eq!((&again.refs, &again.code), (&batch.refs, &batch.code));
    let plain = read(TextReader::new(text.as_slice(), "t".into()), false);
    assert_eq!(plain.refs.len() + batch.code.len(), batch.refs.len());
}

#[test]
fn version_1_is_still_read() {
    // Version 1 has definitions without code, so a trace without code differs by the version and the lowest bits of
    // heads.
    let old = include_bytes!("../../../../tests/data/system-small.mmt");
    let batch = read(NativeReader::new(Cursor::new(old.as_slice()), "t".into()).unwrap(), true);
    let accesses = batch.refs.iter().filter(|w| !w.is_control()).count();
    assert!(accesses > 100);
    assert!(batch.code.iter().all(|code| code.body == Body::Unknown));
    // What is known even then: the instruction and the size of each access.
    assert!(batch.code.iter().any(|code| code.ops.iter().any(|op| op.size_shift > 0)));
}
