//! Sections of an ELF file. Those of code have the functions that begin in them: an order of functions may move each of
//! these anywhere within its section. Those that are loaded have names, by which reports divide a mapping of the file.

use crate::{ElfError, Function, Segment, functions, read};
use object::{
    Endianness, elf,
    read::{
        ReadCache, ReadRef,
        elf::{FileHeader as _, SectionHeader as _},
    },
};
use std::{fs::File, ops::Range, path::Path};

/// A section of code with the functions in it, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeSection {
    /// Its bytes in the file.
    pub range: Range<u64>,
    /// The functions that begin in it.
    pub functions: Vec<Function>,
}

/// The sections of code of the file at `path`. Without section headers each segment of code is one.
///
/// # Errors
/// It cannot be read, or is no 64-bit ELF file of a known instruction set.
pub fn code_sections(path: &Path) -> Result<Vec<CodeSection>, ElfError> {
    let file = read(path)?;
    let all = functions(path, &[])?.all;
    let section = |range: Range<u64>| {
        let (from, to) = (
            all.partition_point(|function| function.start < range.start),
            all.partition_point(|function| function.start < range.end),
        );
        CodeSection { functions: all[from..to].to_vec(), range }
    };
    Ok(ranges(&std::fs::read(path)?, &file.segments)?.into_iter().map(section).collect())
}

/// A section that is loaded into memory, out of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadedSection {
    /// `.text`, `.plt`, ..
    pub name: String,
    /// Its bytes in the file.
    pub range: Range<u64>,
}

/// The sections of the file at `path` that are loaded into memory and have bytes in the file, by offset. None if it has
/// no section headers.
///
/// # Errors
/// It cannot be read, or is no 64-bit ELF file whose headers make sense.
pub fn loaded_sections(path: &Path) -> Result<Vec<LoadedSection>, ElfError> {
    let cache = ReadCache::new(File::open(path)?);
    if (&cache).read_bytes_at(0, 4) != Ok(b"\x7fELF") {
        return Err(ElfError::Foreign);
    }
    let header = elf::FileHeader64::<Endianness>::parse(&cache)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, &cache)?;
    let mut loaded = Vec::new();
    for section in sections.iter().filter(|s| s.sh_flags(endian) & u64::from(elf::SHF_ALLOC) != 0) {
        if let Some((start, bytes @ 1..)) = section.file_range(endian) {
            let name = String::from_utf8_lossy(sections.section_name(endian, section)?).into_owned();
            loaded.push(LoadedSection { name, range: start..start.saturating_add(bytes) });
        }
    }
    loaded.sort_by_key(|section| section.range.start);
    Ok(loaded)
}

/// The bytes of sections of code, in order.
fn ranges(data: &[u8], segments: &[Segment]) -> Result<Vec<Range<u64>>, ElfError> {
    let header = elf::FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let length = data.len() as u64;
    let is_code = |s: &&elf::SectionHeader64<Endianness>| {
        s.sh_type(endian) == elf::SHT_PROGBITS && s.sh_flags(endian) & u64::from(elf::SHF_EXECINSTR) != 0
    };
    let mut ranges: Vec<Range<u64>> = sections
        .iter()
        .filter(is_code)
        .filter_map(|s| s.file_range(endian))
        .map(|(offset, bytes)| offset..offset.saturating_add(bytes).min(length))
        .collect();
    if ranges.is_empty() {
        let code = segments.iter().filter(|s| s.is_code());
        ranges = code.map(|s| s.offset..s.offset.saturating_add(s.file_bytes).min(length)).collect();
    }
    ranges.retain(|range| range.start < range.end);
    ranges.sort_by_key(|range| range.start);
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_very_programs_functions_are_found_in_order_and_inside_their_sections() {
        let own = code_sections(&std::env::current_exe().unwrap()).unwrap();
        let named = own.iter().flat_map(|s| &s.functions).filter_map(|f| f.name.as_deref());
        assert!(named.into_iter().any(|name| name.contains("this_very_programs_functions")));
        for section in &own {
            assert!(section.functions.windows(2).all(|pair| pair[0].start < pair[1].start));
            assert!(section.functions.iter().all(|f| section.range.contains(&f.start)));
        }
        assert!(own.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
    }

    #[test]
    fn sections_of_code_are_among_those_that_are_loaded() {
        let own = std::env::current_exe().unwrap();
        let loaded = loaded_sections(&own).unwrap();
        assert!(loaded.windows(2).all(|pair| pair[0].range.start <= pair[1].range.start));
        let text = loaded.iter().find(|section| section.name == ".text").unwrap();
        assert!(code_sections(&own).unwrap().iter().any(|section| section.range == text.range));
        assert!(!loaded.iter().any(|section| section.name == ".bss" || section.name == ".symtab"));
    }

    proptest! {
        /// A damaged file is refused, or has sections within its bytes. No panic.
        #[test]
        fn damaged_files_are_read_without_a_panic(changes in prop::collection::vec((0usize..4096, any::<u8>()), 1..9)) {
            let sh = std::fs::read("/bin/sh").unwrap_or_default();
            let mut data = sh.clone();
            data.truncate(1 << 17);
            let length = data.len().max(1);
            changes.into_iter().for_each(|(at, to)| if let Some(byte) = data.get_mut(at % length) { *byte = to });
            let segments = [Segment { address: 0, bytes: 9 << 20, offset: 0, file_bytes: 9 << 20, flags: 5, align: 1 }];
            for range in ranges(&data, &segments).unwrap_or_default() {
                prop_assert!(range.start < range.end && range.end <= data.len() as u64);
            }
        }
    }
}
