//! Source lines of code by file offset, out of DWARF line tables: those of the file itself, else of its debug file.
//!
//! ```text
//! offset --segments--> address --units whose ranges hold it--> line program: the row that begins at or before it
//! ```
//!
//! A study asks for the functions of highest cost, a few dozen of each file. So only the line programs of their units
//! are run.

use crate::{
    ElfError,
    functions::{Places, debug_file},
    section::section,
};
use gimli::{Dwarf, DwarfSections, EndianSlice, Reader, RunTimeEndian, SectionId, Unit};
use object::{
    Endianness, Object,
    read::{ReadCache, ReadRef, elf::ElfFile64},
};
use std::{
    borrow::Cow,
    fs::File,
    path::{Path, PathBuf},
};

/// A line of source code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceLine {
    /// The file, as the compiler was given it: a path, absolute or relative to a directory that is not known.
    pub file: String,
    /// From 1 on.
    pub line: u64,
}

/// The source lines of the code at `offsets` of the file at `path`: `None` where no line table has it. Debug files are
/// looked for below `debug_roots`.
///
/// # Errors
/// The file cannot be read, or is no 64-bit ELF file whose headers make sense.
pub fn source_lines(
    path: &Path,
    offsets: &[u64],
    debug_roots: &[PathBuf],
) -> Result<Vec<Option<SourceLine>>, ElfError> {
    let cache = ReadCache::new(File::open(path)?);
    if (&cache).read_bytes_at(0, 4) != Ok(b"\x7fELF") {
        return Err(ElfError::Foreign);
    }
    let file = ElfFile64::<Endianness, _>::parse(&cache)?;
    let places = Places::of(&file)?;
    let addresses: Vec<Option<u64>> = offsets.iter().map(|&offset| places.address(offset)).collect();
    if file.section_by_name(".debug_line").is_some() {
        return Ok(lines_of(&file, &addresses));
    }
    let debug = file.build_id().ok().flatten().and_then(|id| debug_file(id, debug_roots));
    let Some(opened) = debug.and_then(|debug| File::open(debug).ok()) else { return Ok(vec![None; offsets.len()]) };
    let cache = ReadCache::new(opened);
    // A debug file that cannot be read names nothing.
    let parsed = ElfFile64::<Endianness, _>::parse(&cache);
    Ok(parsed.map_or_else(|_| vec![None; offsets.len()], |debug| lines_of(&debug, &addresses)))
}

fn lines_of<'data, R: ReadRef<'data>>(
    file: &ElfFile64<'data, Endianness, R>,
    addresses: &[Option<u64>],
) -> Vec<Option<SourceLine>> {
    let mut found = vec![None; addresses.len()];
    let load = |id: SectionId| Ok::<_, gimli::Error>(section(file, id.name()).unwrap_or(Cow::Borrowed(&[])));
    let Ok(sections) = DwarfSections::load(load) else { return found };
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, endian));
    let mut units = dwarf.units();
    // A table that is cut describes what comes before.
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        let wanted = within(&dwarf, &unit, addresses);
        if !wanted.is_empty() {
            // What was found before a damaged row stays.
            let _ = run(&dwarf, &unit, &wanted, &mut found);
        }
    }
    found
}

/// An address that is asked for, and its number.
type Wanted = (usize, u64);

/// The addresses that lie in a unit.
fn within<R: Reader>(dwarf: &Dwarf<R>, unit: &Unit<R>, addresses: &[Option<u64>]) -> Vec<Wanted> {
    let mut found = Vec::new();
    let Ok(mut ranges) = dwarf.unit_ranges(unit) else { return found };
    while let Ok(Some(range)) = ranges.next() {
        let inside = |&(_, address): &Wanted| (range.begin..range.end).contains(&address);
        found.extend(addresses.iter().enumerate().filter_map(|(at, address)| Some((at, (*address)?))).filter(inside));
    }
    found
}

/// Runs a unit's line program, and keeps the rows that hold what is wanted.
fn run<R: Reader>(
    dwarf: &Dwarf<R>,
    unit: &Unit<R>,
    wanted: &[Wanted],
    found: &mut [Option<SourceLine>],
) -> Result<(), gimli::Error> {
    let Some(program) = unit.line_program.clone() else { return Ok(()) };
    let mut rows = program.rows();
    // The row before: its address, file and line.
    let mut before: Option<(u64, u64, u64)> = None;
    while let Some((header, row)) = rows.next_row()? {
        if let Some((start, index, line)) = before {
            for &(at, _) in wanted.iter().filter(|(_, address)| (start..row.address()).contains(address)) {
                let Some(entry) = header.file(index) else { continue };
                let name = dwarf.attr_string(unit, entry.path_name())?.to_string_lossy()?.into_owned();
                let directory = match entry.directory(header) {
                    Some(directory) => dwarf.attr_string(unit, directory)?.to_string_lossy()?.into_owned(),
                    None => String::new(),
                };
                let file = Path::new(&directory).join(name).to_string_lossy().into_owned();
                found[at] = Some(SourceLine { file, line });
            }
        }
        // Line 0: the compiler ascribes the code to no line.
        let line = row.line().map(std::num::NonZero::get);
        let known = line.filter(|_| !row.end_sequence());
        before = known.map(|line| (row.address(), row.file_index(), line));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions;

    /// Tests are built with line tables.
    #[test]
    fn this_very_test_has_a_source_line() {
        let own = std::env::current_exe().unwrap();
        let all = functions(&own, &[]).unwrap().all;
        let of_this = all.iter().filter(|f| f.name.as_ref().is_some_and(|name| name.contains("source_lines")));
        let mut offsets: Vec<u64> = of_this.map(|function| function.start).collect();
        offsets.push(u64::MAX);
        let found = source_lines(&own, &offsets, &[]).unwrap();
        assert!(found.iter().flatten().any(|at| at.file.ends_with("source.rs") && at.line > 1), "{found:?}");
        assert_eq!(found.last(), Some(&None), "nothing lies there");
    }

    #[test]
    fn other_files_are_refused_and_those_without_tables_have_no_lines() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(matches!(source_lines(&manifest, &[0], &[]), Err(ElfError::Foreign)));
        assert!(matches!(source_lines(Path::new("/nowhere/at/all"), &[0], &[]), Err(ElfError::Io(_))));
    }
}
