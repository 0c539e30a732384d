//! Padding and undoing of whole files made here, and of damaged ones.

use super::*;
use object::elf;
use proptest::prelude::*;

/// A program header: type, flags, offset, address, file_bytes, bytes.
type Header = (u32, u32, u64, u64, u64, u64);

/// A 64-bit x86 file with these program headers and `bytes` of content; nothing else.
fn file(kind: u16, headers: &[Header], bytes: usize) -> Vec<u8> {
    let mut out = b"\x7fELF\x02\x01\x01".to_vec();
    out.resize(16, 0);
    out.extend(kind.to_le_bytes());
    out.extend(elf::EM_X86_64.to_le_bytes());
    out.extend(1u32.to_le_bytes());
    out.extend([0u64, 64, 0].iter().flat_map(|v| v.to_le_bytes()));
    out.extend(0u32.to_le_bytes());
    out.extend([64u16, 56, headers.len() as u16, 64, 0, 0].iter().flat_map(|v| v.to_le_bytes()));
    for &(kind, flags, offset, address, file_bytes, in_memory) in headers {
        out.extend([kind, flags].iter().flat_map(|v| v.to_le_bytes()));
        out.extend([offset, address, address, file_bytes, in_memory, 4096].iter().flat_map(|v| v.to_le_bytes()));
    }
    let at = out.len();
    out.extend((at..bytes).map(|at| ((at * 31) >> 4) as u8));
    out
}

const LOAD: u32 = elf::PT_LOAD;

/// Code of 5,000 bytes, and data 2 MB behind it.
fn small() -> Vec<u8> {
    file(elf::ET_EXEC, &[(LOAD, 5, 0, 0x40_0000, 5000, 5000), (LOAD, 6, 5000, 0x60_1388, 300, 900)], 5300)
}

#[test]
fn a_padded_file_has_its_code_in_whole_superpages_and_is_undone_to_the_byte() {
    let original = small();
    let (plan, content) = padded(&original).unwrap();
    let code = &plan.padded[0];
    assert_eq!((code.padded_end, code.superpages), (0x60_0000, 1));
    // The file ends in the page that its code ends in: all of the fill is appended.
    assert_eq!((code.file_pages, code.no_op_pages), (0, 510));
    let read = Headers::read(&content).unwrap().loads[0].1;
    assert_eq!((read.bytes, read.file_bytes, read.align), (2 << 20, 2 << 20, 2 << 20));
    assert!(content[5300..2 << 20].iter().all(|&byte| byte == 0x90));
    let verified = verify::verify(&original, &content, &plan).unwrap();
    assert_eq!(verified, Verified { same_pages: 3, file_pages: 0, no_op_pages: 510 });
    assert_eq!(unpadded(&content).unwrap(), original);
}

#[test]
fn verification_finds_each_byte_that_is_not_as_planned() {
    let original = small();
    let (plan, content) = padded(&original).unwrap();
    // Code, data, a program header that stays, the length of the code's, no-ops.
    for at in [4000, 5100, 64 + 56 + 8, 64 + 32, 5300, 6000, (2 << 20) - 1, 2 << 20, (2 << 20) + 24] {
        let mut spoilt = content.clone();
        spoilt[at] ^= 1;
        assert!(verify::verify(&original, &spoilt, &plan).is_err(), "byte {at}");
    }
}

#[test]
fn a_second_padding_and_an_undoing_of_nothing_are_refused() {
    let (_, content) = padded(&small()).unwrap();
    assert!(matches!(padded(&content), Err(PadError::Refused(PadRefusal::Padded))));
    assert!(matches!(unpadded(&small()), Err(PadError::Refused(PadRefusal::NotPadded))));
    let mut patched = content;
    patched[4999] ^= 1;
    assert!(matches!(unpadded(&patched), Err(PadError::Refused(PadRefusal::Changed))));
}

#[test]
fn files_that_cannot_be_padded_are_refused_by_name() {
    let name = |file: &[u8]| match padded(file) {
        Err(PadError::Refused(refusal)) => refusal.name().to_owned(),
        Err(other) => other.to_string(),
        Ok(_) => "padded".to_owned(),
    };
    assert_eq!(name(b"#!/bin/sh\n"), "not an ELF file");
    assert!(name(b"\x7fELF\x01\x01\x01").starts_with("a 32-bit ELF file"));
    assert!(name(b"\x7fELF\x02\x01\x01").starts_with("not a whole"));
    let code = (LOAD, 5, 0, 0x40_0000, 5000, 5000);
    assert_eq!(name(&file(elf::ET_REL, &[code], 5000)), "type");
    assert_eq!(name(&file(elf::ET_DYN, &[(LOAD, 7, 0, 0x40_0000, 5000, 5000)], 5000)), "no-code");
    assert_eq!(name(&file(elf::ET_DYN, &[code], 4999)), "cut");
    assert_eq!(name(&file(elf::ET_DYN, &[(LOAD, 5, 0, u64::MAX - 9, 5000, 5000)], 5000)), "cut");
    assert_eq!(name(&file(elf::ET_DYN, &[code], 5001)), "overlay");
    assert_eq!(name(&file(elf::ET_DYN, &[code, (LOAD, 6, 0, 0x40_2000, 4096, 4096)], 5000)), "no-gap");
    let mut packed = file(elf::ET_DYN, &[code], 5000);
    packed[64 + 56 + 4..][..4].copy_from_slice(b"UPX!");
    assert_eq!(name(&packed), "packed");
    assert_eq!(name(&small()), "padded");
}

/// Code in two segments: one that can be padded, and one that cannot.
#[test]
fn of_several_code_segments_those_are_padded_that_can_be() {
    let headers = [
        (LOAD, 5, 0, 0x40_0000, 4096, 4096),
        (LOAD, 5, 4096, 0x80_1000, 4096, 4096),
        (LOAD, 6, 4096, 0xc0_1000, 4096, 4096),
    ];
    let original = file(elf::ET_DYN, &headers, 8192);
    let (plan, content) = padded(&original).unwrap();
    assert_eq!(plan.padded.iter().map(|code| code.header).collect::<Vec<_>>(), [0]);
    assert_eq!(plan.left.iter().map(|left| left.0).collect::<Vec<_>>(), [0x80_1000]);
    assert_eq!((plan.padded[0].file_pages, plan.padded[0].no_op_pages), (1, 510));
    assert_eq!(unpadded(&content).unwrap(), original);
}

proptest! {
    /// Whatever the headers say, a file is refused, or padded so that it is verified and undone. No panic.
    #[test]
    fn damaged_files_are_refused_or_padded_whole(
        changes in prop::collection::vec((0usize..64 + 2 * 56, any::<u8>()), 0..6),
        length in 0usize..5400,
    ) {
        let mut original = small();
        changes.into_iter().for_each(|(at, to)| original[at] = to);
        original.resize(length.max(1), 7);
        if let Ok((plan, content)) = padded(&original) {
            verify::verify(&original, &content, &plan).unwrap();
            prop_assert_eq!(unpadded(&content).unwrap(), original);
        }
    }

    /// So is the end of a padded file.
    #[test]
    fn a_damaged_record_is_refused(at in 0usize..136, to in any::<u8>()) {
        let original = small();
        let (_, mut content) = padded(&original).unwrap();
        let at = content.len() - 1 - at % 120;
        content[at] = to;
        if let Ok(undone) = unpadded(&content) {
            prop_assert_eq!(undone, original);
        }
    }
}
