//! Tests of the Accel-Sim reader: assignment of thread blocks to cores, instruction counts, damaged and cut kernel
//! files, and kernel lists. A small kernel file from the repository's test data is the input.

use super::*;
use crate::{Item, write_batch};
use std::io::Cursor;

const KERNEL: &str = include_str!("../../../../../tests/data/accel-sim/kernel-1.traceg");

/// The items read, as text, and the error at their end.
fn read(text: &str, cores: u16, warps: u16) -> (String, Option<TraceError>) {
    let input = Box::new(Cursor::new(text.as_bytes().to_vec()));
    let mut reader = AccelSimReader::new(input, "k".into(), WarpShape { cores, warps });
    let (mut out, mut batch) = (Vec::new(), Batch::default());
    loop {
        let more = reader.next_batch(&mut batch);
        write_batch(&batch, &mut out).unwrap();
        match more {
            Ok(true) => {}
            ended => return (String::from_utf8(out).unwrap(), ended.err()),
        }
    }
}

/// Lines without those of lanes but each instruction's first.
fn outline(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = Vec::new();
    let is_lane = |line: &str| line.starts_with("r ") || line.starts_with("w ");
    for line in text.lines() {
        if !(is_lane(line) && lines.last().is_some_and(|last| is_lane(last))) {
            lines.push(line);
        }
    }
    lines
}

#[test]
fn blocks_are_dealt_to_cores_and_warps_take_turns() {
    // Two cores with one place each: threads 0 and 1 are the first one's, 2 and 3 the second one's.
    let (text, error) = read(KERNEL, 2, 2);
    assert!(error.is_none(), "{error:?}");
    let expected = [
        // Warp 0 of both cores, then warp 1 of both.
        "p 1.0",
        "f 0x100000010 x2",
        "r 0x7f3000000000",
        "p 1.2",
        "f 0x100000010",
        "r 0x7f3000400000",
        "p 1.1",
        "f 0x100000010",
        "r 0x7f3000001000",
        // The second core's other warp has nothing but its end.
        "p 1.3",
        "n 1",
        "p 1.0",
        "f 0x100000030 x2",
        "w 0x7f3000200000",
        // Block 1 has ended: its place takes block 2.
        "p 1.2",
        "n 1",
        "p 1.1",
        "n 1",
        "p 1.0",
        "n 1",
        "p 1.2",
        "f 0x100000030",
        "w 0x7f3000800000",
        "n 1",
    ];
    assert_eq!(outline(&text), expected);
    assert_eq!(text.lines().filter(|line| line.starts_with("r ")).count(), 32 + 3 + 2);
    assert!(text.contains("r 0x7f3000002000\nr 0x7f3000000000\n"), "each by its distance: {text}");
}

#[test]
fn a_core_with_room_takes_several_blocks() {
    let (text, _) = read(KERNEL, 1, 6);
    let first: Vec<&str> = outline(&text).into_iter().filter(|line| line.starts_with("p ")).take(4).collect();
    assert_eq!(first, ["p 1.0", "p 1.1", "p 1.2", "p 1.3"]);
    let (text, error) = read(KERNEL, 1, 1);
    assert!(text.is_empty());
    let error = error.unwrap().to_string();
    assert!(error.contains("a block has 2 warps, and a core 1: give more, as accel-sim:FILE?warps=2"), "{error}");
}

#[test]
fn what_is_wrong_has_its_line() {
    let cases = [
        ("insts = 5", "insts = 4", "line 27 (byte 706): damaged: an instruction more"),
        ("insts = 5", "insts = 6", "1 instructions fewer"),
        ("warp = 1\ninsts = 2", "warp = 2\ninsts = 2", "warps of a block are 0 to 1"),
        (
            "#END_TB\n\n#BEGIN_TB\n\nthread block = 1",
            "#BEGIN_TB\n\nthread block = 1",
            "begins before the last one ended",
        ),
        ("0x7f3000200000", "0x7f3000zz0000", "'0x7f3000zz0000' is not a valid address"),
        ("-enable lineinfo = 0", "-enable lineinfo = 1", "is not a valid number"),
        ("-accelsim tracer version = 5", "-accelsim tracer version = five", "'five' is not a number"),
    ];
    for (from, to, says) in cases {
        assert!(KERNEL.contains(from), "{from}");
        let error = read(&KERNEL.replacen(from, to, 1), 2, 2).1.unwrap().to_string();
        assert!(error.contains(says), "{error}");
    }
    let error = read(&KERNEL[..KERNEL.rfind("#END_TB").unwrap()], 2, 2).1.unwrap();
    assert!(matches!(&error.kind, TraceErrorKind::Cut(what) if what == "a block has no end"), "{error}");
}

#[test]
fn local_memory_is_told_to_be_left_out() {
    let (text, error) = read(&KERNEL.replace("LDS.U", "LDL"), 2, 2);
    assert!(error.is_none());
    assert!(text.contains("lost loads%20and%20stores%20of%20local%20memory"), "{text}");
}

#[test]
fn lists_name_kernels_in_order() {
    let path = Path::new("/traces/kernelslist.g");
    let list = "MemcpyHtoD,0x00007f3000000000,1024\nkernel-1.traceg\nMemcpyDtoH,1,2\nkernel-2-ctx_0x1.traceg.xz\n";
    let files = kernels_of(path, list).unwrap();
    assert_eq!(files, [Path::new("/traces/kernel-1.traceg"), Path::new("/traces/kernel-2-ctx_0x1.traceg.xz")]);
    let (line, what) = kernels_of(path, "kernel-1.trace\n").unwrap_err();
    assert!(line == 1 && what.contains("post-traces-processing"), "{what}");
    assert!(kernels_of(path, "\nhello\n").unwrap_err().1.contains("names no kernel"));
}

#[test]
fn every_line_of_a_warp_is_an_instruction_or_part_of_one() {
    let input = Box::new(Cursor::new(KERNEL.as_bytes()));
    let mut reader = AccelSimReader::new(input, "k".into(), WarpShape::default());
    let mut batch = Batch::default();
    reader.next_batch(&mut batch).unwrap();
    let instructions: u64 = batch
        .refs
        .iter()
        .map(|word| match word.item() {
            Item::Access(_, _, n) => u64::from(n),
            Item::Retire(n) => n,
            Item::Event(_) | Item::Code(_) => 0,
        })
        .sum();
    assert_eq!(instructions, 5 + 2 + 2 + 1 + 2);
    assert_eq!((reader.info().warps, reader.info().has_address_space), (Some(32), false));
}
