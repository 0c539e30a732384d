//! The example of docs/formats/trace-format.md is a file this crate writes, and reads as the text beside it.

use mmulab_trace::{
    Batch, ChunkHeader, Description, EndInfo, NativeReader, NativeWriter, Source, TextReader, write_batch,
};
use std::{fmt::Write, io::Cursor, path::Path};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/trace-format.md");

/// The block after the mark `<!-- example: NAME -->`.
fn block(page: &str, name: &str) -> String {
    let mark = format!("<!-- example: {name} -->\n```\n");
    let after = page.split_once(&mark).unwrap_or_else(|| panic!("{name} is not on the page")).1;
    after.split_once("```").expect("a block ends").0.to_owned()
}

fn text_of(source: &mut dyn Source) -> String {
    let (mut out, mut batch) = (Vec::new(), Batch::default());
    while source.next_batch(&mut batch).unwrap() {
        write_batch(&batch, &mut out).unwrap();
    }
    String::from_utf8(out).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
}

/// Lines of at most 16 bytes, each with its offset; the first with what begins there.
fn dump(out: &mut String, file: &[u8], from: usize, to: usize, what: &str) {
    for (i, line) in file[from..to].chunks(16).enumerate() {
        let note = if i == 0 { what } else { "" };
        let _ = writeln!(out, "{}", format!("{:04x}  {:<47}  {note}", from + 16 * i, hex(line)).trim_end());
    }
}

/// Text as it is, and other bytes as `<00>`.
fn readable(bytes: &[u8]) -> String {
    let show = |&b: &u8| if (b' '..0x7f).contains(&b) { (b as char).to_string() } else { format!("<{b:02x}>") };
    bytes.iter().map(show).collect()
}

fn number(file: &[u8], at: usize) -> usize {
    u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize
}

const STREAMS: [&str; 6] = ["dictionary", "events", "codes", "ids", "forms", "deltas"];

#[test]
fn the_example_of_the_page_is_what_is_written_and_read() {
    let page = std::fs::read_to_string(Path::new(PAGE)).unwrap();
    let text = block(&page, "text");

    let mut source = TextReader::new(text.as_bytes(), "example".into());
    let description = Description { program: "/bin/x".into(), has_address_space: true, ..Description::default() };
    let mut writer = NativeWriter::new(Vec::new(), &description).unwrap();
    let mut batch = Batch::default();
    while source.next_batch(&mut batch).unwrap() {
        writer.push_batch(&batch).unwrap();
    }
    let file = writer.finish(EndInfo::default()).unwrap();

    let (mut told, mut streams) = (String::new(), String::new());
    let chunk = 24 + number(&file, 12);
    let mut at = chunk + ChunkHeader::BYTES;
    dump(&mut told, &file, 0, 24, "file header");
    dump(&mut told, &file, 24, chunk, "description");
    dump(&mut told, &file, chunk, at, "chunk header");
    for (i, name) in STREAMS.iter().enumerate() {
        let (stored, raw) = (number(&file, chunk + 48 + 8 * i), number(&file, chunk + 52 + 8 * i));
        dump(&mut told, &file, at, at + stored, &format!("stream {i}, {name}"));
        let bytes = zstd::bulk::decompress(&file[at..at + stored], raw).unwrap();
        let shown = if *name == "events" { readable(&bytes) } else { hex(&bytes) };
        let _ = writeln!(streams, "{name:<10}  {shown}");
        at += stored;
    }
    let index = at;
    dump(&mut told, &file, index, index + 24, "index header");
    dump(&mut told, &file, index + 24, file.len() - 24, "index");
    dump(&mut told, &file, file.len() - 24, file.len(), "trailer");

    assert_eq!(block(&page, "file"), told, "the page has another file; this is the right one:\n{told}");
    assert_eq!(block(&page, "streams"), streams, "the page has other streams; these are right:\n{streams}");

    // What the page shows, not what was just written, reads as the text.
    let shown: Vec<u8> = block(&page, "file")
        .lines()
        .flat_map(|line| line[6..line.len().min(53)].split_whitespace().map(|b| u8::from_str_radix(b, 16).unwrap()))
        .collect();
    let mut reader = NativeReader::new(Cursor::new(shown), "page".into()).unwrap();
    assert_eq!(text_of(&mut reader), text);
}
