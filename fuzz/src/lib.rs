//! What every fuzz target does with a source.

use mmulab_trace::{Batch, Event, Item, NativeReader, NativeWriter, Ref, Source, summarize};
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
pub fn check(mut source: impl Source) {
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
pub fn summary(mut source: impl Source) {
    let mut beats = 0;
    summarize(&mut source, |_| {
        beats += 1;
        beats < BATCHES
    });
}
