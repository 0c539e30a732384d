//! What each fuzz target does with its input. A test of the reader's crate does the same with a few thousand inputs.

use mmulab_trace::{
    AccelSimReader, Batch, ChampSimReader, Description, DrmemtraceReader, Event, Item, LackeyReader, NativeReader,
    NativeWriter, Ref, Source, Span, TextReader, WarpShape, sealed_chunk, slice, summarize,
};
use std::io::Cursor;

/// Batches read of one input: a few bytes may stand for millions of references.
const BATCHES: usize = 64;

/// One word, its event resolved.
#[derive(PartialEq, Debug)]
enum Word {
    Ref(Ref),
    Event(Event),
}

fn words(batch: &Batch) -> impl Iterator<Item = Word> {
    batch.refs.iter().map(|word| match word.item() {
        Item::Event(i) => Word::Event(batch.events[i].clone()),
        _ => Word::Ref(*word),
    })
}

fn read(source: &mut impl Source) -> Vec<Word> {
    let (mut all, mut batch) = (Vec::new(), Batch::default());
    for _ in 0..BATCHES {
        let more = source.next_batch(&mut batch);
        all.extend(words(&batch));
        if !matches!(more, Ok(true)) {
            break;
        }
    }
    all
}

/// Reads `source`, and writes what was read as a native trace, which must read as the same.
fn check(mut source: impl Source) {
    let all = read(&mut source);
    let mut writer = NativeWriter::new(Vec::new(), &source.description()).expect("memory takes all");
    for word in &all {
        match word {
            Word::Ref(word) => writer.push(*word),
            Word::Event(event) => writer.push_event(event),
        }
        .expect("memory takes all");
    }
    let bytes = writer.finish(Default::default()).expect("memory takes all");
    let mut reader = NativeReader::new(Cursor::new(bytes), "written".into()).expect("what is written can be read");
    let (mut back, mut batch) = (Vec::new(), Batch::default());
    while reader.next_batch(&mut batch).expect("what is written can be read") {
        back.extend(words(&batch));
    }
    assert_eq!(all, back);
}

/// Summarises at most a bounded part of `source`.
fn summary(mut source: impl Source) {
    let mut beats = 0;
    summarize(&mut source, |_| {
        beats += 1;
        beats < BATCHES
    });
}

/// Reads a part of `source`, with what stands for the part before it.
fn cut(source: impl Source + 'static) {
    let mut part = slice(Box::new(source), Span { start: 1000, end: None });
    let mut batch = Batch::default();
    for _ in 0..BATCHES {
        if !matches!(part.next_batch(&mut batch), Ok(true)) {
            break;
        }
    }
}

/// Reads what `open` opens, and summarises it.
fn both<S: Source>(open: impl Fn() -> S) {
    check(open());
    summary(open());
}

/// A native trace as it is: headers, index, checksums.
pub fn native(data: &[u8]) {
    let open = || NativeReader::new(Cursor::new(data.to_vec()), "fuzz".into());
    if let Ok(reader) = open() {
        check(reader);
    }
    if let Ok(mut reader) = open() {
        reader.verify(&mut |_| true);
        let _ = reader.seek(1000);
    }
    if let Ok(reader) = open() {
        cut(reader);
    }
}

/// The streams of a chunk whose checksum holds: what the checksum keeps the other target from.
pub fn native_streams(codes: u32, streams: [&[u8]; 6]) {
    let mut file = Description::default().to_bytes();
    file.extend(sealed_chunk(codes, streams));
    if let Ok(reader) = NativeReader::new(Cursor::new(file), "fuzz".into()) {
        check(reader);
    }
}

/// A text trace.
pub fn text(data: &[u8]) {
    both(|| TextReader::new(Cursor::new(data.to_vec()), "fuzz".into()));
}

/// A trace of ChampSim's.
pub fn champsim(data: &[u8]) {
    both(|| ChampSimReader::new(Cursor::new(data.to_vec()), "fuzz".into()));
}

/// What DynamoRIO's view tool prints.
pub fn drmemtrace(data: &[u8]) {
    both(|| DrmemtraceReader::new(Cursor::new(data.to_vec()), "fuzz".into()));
}

/// What Valgrind's lackey prints.
pub fn lackey(data: &[u8]) {
    both(|| LackeyReader::new(Cursor::new(data.to_vec()), "fuzz".into()));
}

/// A kernel of Accel-Sim's.
pub fn accelsim(data: &[u8]) {
    both(|| AccelSimReader::new(Box::new(Cursor::new(data.to_vec())), "fuzz".into(), WarpShape::default()));
}
