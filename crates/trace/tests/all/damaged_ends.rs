//! Native traces whose chunks are whole, and whose index, trailer or headers are not: what is read of them, and what is
//! said.
//!
//! CHANGELOG number 14: such a trace is read by its chunks. CHANGELOG number 15: reading and verifying find the same.
//! CHANGELOG number 18: an index takes no more memory than the file can honestly hold.

use mmulab_addr::{Pid, Tid, VirtAddr};
use mmulab_trace::{
    Batch, ChunkHeader, Description, Encoder, EndInfo, Event, Format, IndexEntry, NativeReader, NativeWriter, Op, Ref,
    Sink, Source, Span, TraceError, TraceErrorKind, Variant, copy, write_file, write_index,
};
use std::io::Cursor;

const ENTRY_END: &str = "interrupted";

fn open(bytes: &[u8]) -> NativeReader {
    NativeReader::new(Cursor::new(bytes.to_vec()), "t".into()).expect("a trace that opens")
}

/// The words of a trace, events told by their text, and how it ended.
fn read(source: &mut dyn Source) -> (Vec<String>, Option<TraceError>) {
    let (mut all, mut batch) = (Vec::new(), Batch::default());
    loop {
        let more = source.next_batch(&mut batch);
        all.extend(batch.refs.iter().map(|word| match word.item() {
            mmulab_trace::Item::Event(at) => format!("{:?}", batch.events[at]),
            _ => format!("{word:?}"),
        }));
        match more {
            Ok(true) => {}
            Ok(false) => return (all, None),
            Err(error) => return (all, Some(error)),
        }
    }
}

/// Chunks of two processes, and where each begins.
fn chunks() -> (Vec<u8>, Vec<IndexEntry>) {
    let (mut out, mut entries) = (Description::default().to_bytes(), Vec::new());
    let mut encoders = [1, 2].map(|pid| Encoder::new(pid, Pid(pid), Tid(pid), 1).unwrap());
    let op = Op { instruction: 1, store: true, size_shift: 3 };
    let block = Variant {
        start: Some(VirtAddr::new(0x40_0ff0)),
        bytes: 32,
        instructions: 40,
        ops: vec![op],
        ..Variant::default()
    };
    let ids = encoders.each_mut().map(|encoder| encoder.define(&block).unwrap());
    for round in 0..4u64 {
        for (encoder, &id) in encoders.iter_mut().zip(&ids) {
            (0..20).for_each(|i| encoder.execute(id, [0x7000_0ffc + round * 4096 + i * 24].into_iter()));
            encoder.retire(round);
            encoder.event(&Event::Tick);
            let at = out.len() as u64;
            let header = encoder.take_chunk(&mut out).unwrap();
            entries.push(IndexEntry::new(at, &header));
        }
    }
    (out, entries)
}

fn end() -> EndInfo {
    EndInfo {
        processes: 2,
        threads: 2,
        ended_early: Some(ENTRY_END.into()),
        lost: vec!["a page".into()],
        ..EndInfo::default()
    }
}

/// A whole trace, and where its index begins.
fn whole() -> (Vec<u8>, usize) {
    let (mut out, entries) = chunks();
    let at = out.len();
    write_index(&mut out, at as u64, &entries, &end()).unwrap();
    (out, at)
}

/// All of it was read, and its end is what is wrong, in those words.
fn check_read(bytes: &[u8], all: &[String], told: &str) {
    let mut reader = open(bytes);
    assert!(reader.info().warnings.iter().any(|w| w.contains(told)), "{told}: {:?}", reader.info().warnings);
    let (words, error) = read(&mut reader);
    let error = error.expect("what is wrong is met after the references").to_string();
    assert!(words == all, "{told}: {} of {} words", words.len(), all.len());
    assert!(error.contains("damaged at its end") && error.contains(told), "{told}: {error}");
    let problems = open(bytes).verify(&mut |_| true).problems;
    assert!(problems.len() == 1 && problems[0].contains(told), "{told}: {problems:?}");
}

/// All chunks were read, and the index that says something else is refused in those words.
fn check_refused(bytes: &[u8], all: &[String], told: &str) {
    let (words, error) = read(&mut open(bytes));
    let error = error.expect("what the index says is met after the references");
    assert!(words == all, "{told}: {} of {} words", words.len(), all.len());
    assert!(matches!(&error.kind, TraceErrorKind::Damaged(what) if what.contains(told)), "{told}: {error}");
    let problems = open(bytes).verify(&mut |_| true).problems;
    assert!(problems.len() == 1 && problems[0].contains(told), "{told}: {problems:?}");
}

#[test]
fn a_trace_whose_index_or_trailer_is_damaged_is_read_by_its_chunks() {
    let (bytes, index) = whole();
    let (all, error) = read(&mut open(&bytes));
    assert!(error.is_none() && all.len() > 400);
    for at in index..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            let (words, error) = read(&mut open(&flipped));
            let error = error.unwrap_or_else(|| panic!("byte {at} was flipped, and nobody noticed"));
            assert!(words == all, "byte {at}, bit {bit}: {} of {} words", words.len(), all.len());
            // Without the trailer's magic number, an index that is too long may as well be one that was cut.
            let is_cut = matches!(error.kind, TraceErrorKind::Cut(_));
            assert!(error.is_after_all() || is_cut && at >= bytes.len() - 8, "byte {at}, bit {bit}: {error}");
            assert!(!open(&flipped).verify(&mut |_| true).problems.is_empty(), "byte {at}, bit {bit}");
        }
    }
    let mut longer = bytes.clone();
    for more in 1..200usize {
        longer.push((more * 37) as u8);
        check_read(&longer, &all, &format!("{more} bytes that are not its own follow byte {}", bytes.len()));
        assert_eq!(open(&longer).end().unwrap().lost, end().lost, "its index is whole");
    }
    let mut twice = bytes.clone();
    twice.extend(&bytes[index..]);
    check_read(&twice, &all, "bytes that are not its own follow");
}

#[test]
fn a_trace_whose_end_is_damaged_is_saved_by_a_copy() {
    let dir = std::env::temp_dir().join(format!("mmulab-damaged-ends-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (bytes, index) = whole();
    let all = read(&mut open(&bytes)).0;
    let target = dir.join("saved.mmt");
    let save = |bytes: &[u8], format: Format| {
        let path = dir.join("damaged.mmt");
        std::fs::write(&path, bytes).unwrap();
        let mut source = mmulab_trace::open_file(&path).unwrap();
        write_file(source.as_mut(), &target, format, Span::default(), |_| true).unwrap()
    };
    let mut damaged = bytes.clone();
    damaged[index + 30] ^= 1;
    let written = save(&damaged, Format::Native);
    assert!(written.complete && written.kept && !written.interrupted);
    assert!(written.stopped.unwrap().contains("damaged at its end"));
    let mut saved = mmulab_trace::open_file(&target).unwrap();
    assert_eq!(saved.end().unwrap().ended_early, None, "it did not end early");
    assert!(saved.info().warnings.iter().any(|w| w.contains("the index of the trace this is a copy of")));
    assert!(read(saved.as_mut()).0 == all);
    assert!(saved.verify(&mut |_| true).problems.is_empty());
    // A format that cannot say of itself that it is cut is written, too: nothing is cut.
    assert!(save(&damaged, Format::ChampSim).kept);

    let appended = [&bytes[..], b"\n"].concat();
    assert!(save(&appended, Format::Native).complete);
    let saved = mmulab_trace::open_file(&target).unwrap();
    assert_eq!(saved.end().unwrap().ended_early.as_deref(), Some(ENTRY_END), "what the index says is kept");
    assert_eq!(saved.end().unwrap().lost, end().lost);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn chunks_that_are_missing_are_not_taken_for_a_damaged_end() {
    let (bytes, index) = whole();
    let (_, entries) = chunks();
    let at = entries[6].offset as usize;
    // A chunk is left out: the index does not fit any more, and says so where it is met.
    let less = [&bytes[..at], &bytes[entries[7].offset as usize..]].concat();
    let (words, error) = read(&mut open(&less));
    assert!(error.unwrap().to_string().contains("cannot be that of its chunks"));
    assert!(words.len() < read(&mut open(&bytes)).0.len());
    // The header of the last chunk is damaged, and so is the trailer.
    let mut damaged = bytes.clone();
    damaged[entries[7].offset as usize] ^= 1;
    damaged[index + 30] ^= 1;
    let error = read(&mut open(&damaged)).1.unwrap();
    assert!(matches!(error.kind, TraceErrorKind::Damaged(_)), "{error}");
}

#[test]
fn reading_and_verifying_agree_on_counts() {
    let (chunks, entries) = chunks();
    let lie = |change: &dyn Fn(&mut IndexEntry)| {
        let (mut out, mut entries) = (chunks.clone(), entries.clone());
        change(&mut entries[3]);
        let at = out.len() as u64;
        write_index(&mut out, at, &entries, &end()).unwrap();
        out
    };
    let lies: [(&str, Vec<u8>); 6] = [
        ("instructions", lie(&|e| e.instructions += 1)),
        ("references", lie(&|e| e.references -= 1)),
        ("all instructions there are", lie(&|e| e.instructions = u64::MAX)),
        ("checksum", lie(&|e| e.checksum ^= 1)),
        ("space", lie(&|e| e.space = 7)),
        ("flags", lie(&|e| e.flags ^= 1)),
    ];
    for (name, bytes) in &lies {
        let (words, error) = read(&mut open(bytes));
        let error = error.unwrap_or_else(|| panic!("{name}: reading finds nothing")).to_string();
        let problems = open(bytes).verify(&mut |_| true).problems;
        assert!(error.contains("the index") && !words.is_empty(), "{name}: {error}");
        let what = error.split("damaged: ").nth(1).unwrap();
        assert!(problems.len() == 1 && problems[0].contains(what), "{name}: {error}, {problems:?}");
        assert!(error.contains(&format!("byte {}", entries[3].offset)), "{name}: {error}");
    }
    // A header that says other counts than its chunk holds, under a checksum that holds.
    let sealed = mmulab_trace::sealed_chunk(2, [&[4, 0], &[0, 9], &[2, 4], &[], &[0], &[]]);
    let mut header = [0; ChunkHeader::BYTES];
    header.copy_from_slice(&sealed[..ChunkHeader::BYTES]);
    for (at, name) in [(24, "instructions"), (32, "references")] {
        for more in [1u8, 255] {
            let mut bytes = header;
            bytes[at] = bytes[at].wrapping_add(more);
            let checksum = ChunkHeader::resealed(&bytes, &sealed[ChunkHeader::BYTES..]);
            bytes[96..].copy_from_slice(&checksum.to_le_bytes());
            let mut file = Description::default().to_bytes();
            let first = file.len() as u64;
            file.extend(bytes.iter().chain(&sealed[ChunkHeader::BYTES..]));
            let entry = IndexEntry::new(first, &ChunkHeader::parse(&bytes).unwrap());
            let at = file.len() as u64;
            write_index(&mut file, at, &[entry], &EndInfo::default()).unwrap();
            let error = read(&mut open(&file)).1.unwrap_or_else(|| panic!("{name}: reading finds nothing")).to_string();
            let problems = open(&file).verify(&mut |_| true).problems;
            assert!(error.contains("its header says"), "{name}: {error}");
            assert!(problems[0].contains(error.split("damaged: ").nth(1).unwrap()), "{error}: {problems:?}");
        }
    }
}

#[test]
fn an_index_that_names_one_chunk_again_and_again_is_not_followed() {
    let (chunks, entries) = chunks();
    let all = read(&mut open(&whole().0)).0;
    let again =
        [(vec![entries[0]; 3_000_000], "are the most"), ([entries.clone(), vec![entries[7]]].concat(), "chunk 8 ")];
    for (again, told) in again {
        let mut bytes = chunks.clone();
        write_index(&mut bytes, chunks.len() as u64, &again, &end()).unwrap();
        assert!(bytes.len() < 40_000);
        check_refused(&bytes, &all, told);
    }
    let mut swapped = entries.clone();
    swapped.swap(2, 3);
    let mut bytes = chunks.clone();
    write_index(&mut bytes, chunks.len() as u64, &swapped, &end()).unwrap();
    check_refused(&bytes, &all, "chunk 3 begins at byte");
}

#[test]
fn an_index_of_millions_of_empty_texts_is_refused_by_its_length() {
    let (chunks, entries) = chunks();
    let all = read(&mut open(&whole().0)).0;
    // What a hostile writer would say: the library's own leaves most of it out.
    let mut json = br#"{"processes":1,"threads":1,"ended_early":null,"lost":["#.to_vec();
    json.extend(b"\"\",".repeat(35_000_000));
    json.extend(b"\"\"]}");
    let mut raw = (json.len() as u32).to_le_bytes().to_vec();
    raw.extend(&json);
    let stored = zstd::bulk::compress(&raw, 3).unwrap();
    let mut bytes = chunks.clone();
    bytes.extend(mmulab_trace::sealed_index(chunks.len() as u64, &stored, raw.len() as u32));
    assert!(bytes.len() < 30_000, "{}", bytes.len());
    check_refused(&bytes, &all, "are the most");

    let many = EndInfo { lost: vec!["x".repeat(100); 100_000], ..end() };
    let mut bytes = chunks.clone();
    write_index(&mut bytes, chunks.len() as u64, &entries, &many).unwrap();
    let reader = open(&bytes);
    let lost = &reader.end().unwrap().lost;
    assert!(lost.len() > 1000 && lost.last().unwrap().contains("more losses"), "{}", lost.len());
}

#[test]
fn no_trace_has_more_instructions_than_can_be_added_up() {
    let mut batch = Batch::default();
    (0..3).for_each(|_| batch.refs.push(Ref::retire((1 << 50) - 1)));
    let mut writer = NativeWriter::new(Vec::new(), &Description::default()).unwrap();
    assert!(writer.push_batch(&batch).unwrap_err().to_string().contains("at most 1125899906842624"));

    let line = format!("n {}\n", (1u64 << 50) - 1);
    let mut text = mmulab_trace::TextReader::new(Cursor::new(line.repeat(2)), "t".into());
    let (words, error) = read(&mut text);
    assert!(words.len() == 1 && error.unwrap().to_string().contains("are the most"));

    // As many as a varint can say.
    let sealed =
        mmulab_trace::sealed_chunk(1, [&[], &[0, 255, 255, 255, 255, 255, 255, 255, 255, 127], &[4], &[], &[], &[]]);
    let file = [Description::default().to_bytes(), sealed].concat();
    assert!(read(&mut open(&file)).1.unwrap().to_string().contains("1125899906842624"));
}

#[test]
fn a_core_of_no_warps_is_refused() {
    // CHANGELOG number 16.
    let file = Description { warps: Some(0), ..Description::default() }.to_bytes();
    let error = NativeReader::new(Cursor::new(file), "t".into()).err().expect("no trace").to_string();
    assert!(error.contains("0 warps; 1 to 65535"), "{error}");
}

#[test]
fn a_slice_of_a_trace_with_a_damaged_end_is_whole() {
    let (bytes, index) = whole();
    let mut damaged = bytes;
    damaged[index + 5] ^= 1;
    let mut sink = Sink::new(Format::Native, Vec::new(), &Description::default()).unwrap();
    let span = Span { start: 100, end: Some(2000) };
    let copied = copy(&mut open(&damaged), &mut sink, span, |_| true).unwrap();
    assert!(copied.stopped.is_none(), "its end was not read: {:?}", copied.stopped);
}

#[test]
fn millions_of_ticks_are_passed_without_being_kept() {
    // CHANGELOG number 18: a slice of a small file of ticks took gigabytes.
    let mut writer = NativeWriter::new(Vec::new(), &Description::default()).unwrap();
    let mut batch = Batch::default();
    for turn in 0..1_000_000u32 {
        batch.clear();
        batch.push_event(Event::Tick);
        batch.push_event(Event::Switch { pid: Pid(1), tid: Tid(turn % 3) });
        writer.push_batch(&batch).unwrap();
    }
    batch.refs.push(Ref::retire(1000));
    writer.push_batch(&batch).unwrap();
    let bytes = writer.finish(EndInfo::default()).unwrap();
    let sought = open(&bytes).seek(500).unwrap();
    assert!(sought.events.len() < 20, "{}", sought.events.len());
}
