//! Functions of an ELF file by file offset, also of a stripped one. Reports name code by them.
//!
//! ```text
//! symbols (.symtab, .dynsym) -------------------------.
//! debug file, found by build-id: its symbols ----------+--> where functions begin and end, and what most are called
//! unwind tables (.eh_frame), by gimli ----------------'     functions that only these show have no name
//! ```
//!
//! Programs keep unwind tables when they are stripped: exceptions and backtraces need them. Inlined functions are part
//! of those that they were inlined in.

use crate::ElfError;
use gimli::{BaseAddresses, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, Pointer, RunTimeEndian, UnwindSection};
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, elf,
    read::{
        ReadCache, ReadRef,
        elf::{ElfFile64, FileHeader as _, ProgramHeader as _},
    },
};
use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
};

/// Hand-written assembly has symbols without a size: they reach to the next function, but no further than this.
const UNSIZED_REACH: u64 = 64 << 10;

/// A function, by offsets in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// Its symbol, as the linker knows it; `None`: only unwind tables show it.
    pub name: Option<String>,
}

/// What is known of a file's functions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Functions {
    /// In the order of their first bytes.
    pub all: Vec<Function>,
    /// The debug file that names some of them.
    pub debug_file: Option<PathBuf>,
}

/// The functions of the file at `path`. Debug files are looked for below `debug_roots` (`/usr/lib/debug`), by build-id.
///
/// # Errors
/// The file cannot be read, or is no 64-bit ELF file whose headers make sense.
pub fn functions(path: &Path, debug_roots: &[PathBuf]) -> Result<Functions, ElfError> {
    let cache = ReadCache::new(File::open(path)?);
    if (&cache).read_bytes_at(0, 4) != Ok(b"\x7fELF") {
        return Err(ElfError::Foreign);
    }
    let file = ElfFile64::<Endianness, _>::parse(&cache)?;
    let places = Places::of(&file)?;
    let mut symbols = Symbols::new();
    gather(file.dynamic_symbols(), &places, &mut symbols);
    gather(file.symbols(), &places, &mut symbols);
    let debug_file = file.build_id().ok().flatten().and_then(|id| debug_file(id, debug_roots));
    if let Some(debug) = &debug_file {
        // A debug file that cannot be read names nothing.
        let _ = gather_debug(debug, &places, &mut symbols);
    }
    let unwound = unwound(&file, &places).unwrap_or_default();
    Ok(Functions { all: merged(symbols, unwound), debug_file })
}

/// Where addresses are in the file: address, offset and bytes of each loadable segment.
pub(crate) struct Places(Vec<(u64, u64, u64)>);

impl Places {
    pub(crate) fn of<'data, R: ReadRef<'data>>(file: &ElfFile64<'data, Endianness, R>) -> Result<Self, ElfError> {
        let endian = file.endian();
        let headers = file.elf_header().program_headers(endian, file.data())?;
        let loads = headers.iter().filter(|header| header.p_type(endian) == elf::PT_LOAD);
        Ok(Self(loads.map(|h| (h.p_vaddr(endian), h.p_offset(endian), h.p_filesz(endian))).collect()))
    }

    /// The address of an offset.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        self.0.iter().find_map(|&(address, first, bytes)| {
            let inside = offset.checked_sub(first).filter(|inside| *inside < bytes)?;
            address.checked_add(inside)
        })
    }

    /// The offset of an address, and how many bytes of its segment follow in the file.
    fn offset(&self, address: u64) -> Option<(u64, u64)> {
        self.0.iter().find_map(|&(first, offset, bytes)| {
            let inside = address.checked_sub(first).filter(|inside| *inside < bytes)?;
            Some((offset.checked_add(inside)?, bytes - inside))
        })
    }
}

/// By offset: bytes, 0 if unknown, and the name.
type Symbols = BTreeMap<u64, (u64, String)>;

/// Adds the functions among symbols. Of several at one place the last one's name stands.
fn gather<'data, 'file, R: ReadRef<'data> + 'file>(
    symbols: impl Iterator<Item = object::read::elf::ElfSymbol64<'data, 'file, Endianness, R>>,
    places: &Places,
    into: &mut Symbols,
) where
    'data: 'file,
{
    for symbol in symbols {
        let is_function = matches!(symbol.elf_symbol().st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
        if !is_function || symbol.is_undefined() {
            continue;
        }
        let Some((offset, room)) = places.offset(symbol.address()) else { continue };
        let Ok(name) = symbol.name_bytes() else { continue };
        if !name.is_empty() {
            into.insert(offset, (symbol.size().min(room), String::from_utf8_lossy(name).into_owned()));
        }
    }
}

/// Adds the functions that a debug file has symbols of. Its addresses are those of the file it belongs to.
fn gather_debug(path: &Path, places: &Places, into: &mut Symbols) -> Result<(), ElfError> {
    let cache = ReadCache::new(File::open(path)?);
    let file = ElfFile64::<Endianness, _>::parse(&cache)?;
    gather(file.symbols(), places, into);
    Ok(())
}

/// The debug file of a build-id: `ROOT/.build-id/AB/CDEF.debug`, if it says that it has this build-id itself.
pub(crate) fn debug_file(id: &[u8], roots: &[PathBuf]) -> Option<PathBuf> {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    let candidates = roots.iter().map(|root| root.join(".build-id").join(first).join(format!("{rest}.debug")));
    candidates.into_iter().find(|path| {
        let Ok(file) = File::open(path) else { return false };
        let cache = ReadCache::new(file);
        let parsed = ElfFile64::<Endianness, _>::parse(&cache);
        parsed.is_ok_and(|file| file.build_id().ok().flatten() == Some(id))
    })
}

/// The ranges of code that unwind tables describe, by offset in the file: (start, end).
fn unwound<'data, R: ReadRef<'data>>(
    file: &ElfFile64<'data, Endianness, R>,
    places: &Places,
) -> Result<Vec<(u64, u64)>, ElfError> {
    let Some((bases, bytes)) = eh_frame(file, places)? else { return Ok(Vec::new()) };
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut frames = EhFrame::new(bytes, endian);
    frames.set_address_size(8);
    let mut found = Vec::new();
    let mut entries = frames.entries(&bases);
    // A table that is cut describes what comes before.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(|frames, bases, at| frames.cie_from_offset(bases, at)) else { continue };
        if let Some((start, room)) = places.offset(fde.initial_address()) {
            found.push((start, start + fde.len().min(room)));
        }
    }
    Ok(found)
}

/// The bytes of `.eh_frame` and what its pointers are relative to: by the section's name, or, without sections, by the
/// program header of its index.
pub(crate) fn eh_frame<'data, R: ReadRef<'data>>(
    file: &ElfFile64<'data, Endianness, R>,
    places: &Places,
) -> Result<Option<(BaseAddresses, &'data [u8])>, ElfError> {
    let address = |name| file.section_by_name(name).map(|section| section.address());
    let mut bases = BaseAddresses::default();
    if let Some(text) = address(".text") {
        bases = bases.set_text(text);
    }
    if let Some(got) = address(".got") {
        bases = bases.set_got(got);
    }
    if let Some(section) = file.section_by_name(".eh_frame") {
        return Ok(Some((bases.set_eh_frame(section.address()), section.data()?)));
    }
    let endian = file.endian();
    let headers = file.elf_header().program_headers(endian, file.data())?;
    let Some(index) = headers.iter().find(|header| header.p_type(endian) == elf::PT_GNU_EH_FRAME) else {
        return Ok(None);
    };
    let Ok(bytes) = index.data(endian, file.data()) else { return Ok(None) };
    bases = bases.set_eh_frame_hdr(index.p_vaddr(endian));
    let gimli_endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let parsed = EhFrameHdr::from(EndianSlice::new(bytes, gimli_endian)).parse(&bases, 8);
    let Ok(Pointer::Direct(start)) = parsed.map(|parsed| parsed.eh_frame_ptr()) else { return Ok(None) };
    let Some((offset, room)) = places.offset(start) else { return Ok(None) };
    let Ok(bytes) = file.data().read_bytes_at(offset, room) else { return Ok(None) };
    Ok(Some((bases.set_eh_frame(start), bytes)))
}

/// Functions that symbols name, and those between them that only unwind tables show.
fn merged(symbols: Symbols, mut unwound: Vec<(u64, u64)>) -> Vec<Function> {
    unwound.sort_unstable();
    unwound.dedup_by_key(|range| range.0);
    let starts: Vec<u64> = symbols.keys().copied().collect();
    let mut all: Vec<Function> = Vec::with_capacity(symbols.len() + unwound.len());
    for (i, (start, (bytes, name))) in symbols.into_iter().enumerate() {
        let next = starts.get(i + 1).copied().unwrap_or(u64::MAX);
        let end = match (bytes, unwound.binary_search_by_key(&start, |range| range.0)) {
            (0, Ok(at)) => unwound[at].1,
            (0, Err(at)) => {
                let behind = unwound.get(at).map_or(u64::MAX, |range| range.0);
                next.min(behind).min(start.saturating_add(UNSIZED_REACH))
            }
            (bytes, _) => start.saturating_add(bytes),
        };
        all.push(Function { start, end, name: Some(name) });
    }
    let mut unnamed = Vec::new();
    for (start, end) in unwound {
        let before = all.partition_point(|function| function.start <= start);
        let is_inside = before.checked_sub(1).is_some_and(|at| all[at].end > start);
        if !is_inside && start < end {
            let end = all.get(before).map_or(end, |next| end.min(next.start));
            unnamed.push(Function { start, end, name: None });
        }
    }
    all.append(&mut unnamed);
    all.sort_by_key(|function| function.start);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn own() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    /// A file of our own in the directory for temporary ones, which goes with the value.
    struct Kept(PathBuf);

    impl Kept {
        fn new(name: &str, bytes: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("mmulab-functions-{}-{name}", std::process::id()));
            std::fs::write(&path, bytes).unwrap();
            Self(path)
        }
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn this_very_program_has_named_functions_in_order() {
        let found = functions(&std::env::current_exe().unwrap(), &[]).unwrap();
        assert!(found.all.len() > 100);
        assert!(found.all.windows(2).all(|w| w[0].start <= w[1].start));
        let named = |text: &str| found.all.iter().any(|f| f.name.as_ref().is_some_and(|name| name.contains(text)));
        assert!(named("this_very_program_has_named_functions"));
        assert!(found.all.iter().all(|f| f.start < f.end || f.name.is_some()));
    }

    /// Section headers and the symbols in them are what `sstrip` and packers remove; unwind tables stay.
    #[test]
    fn without_section_headers_unwind_tables_tell_where_functions_are() {
        let mut bytes = own();
        let whole = functions(&std::env::current_exe().unwrap(), &[]).unwrap();
        // e_shoff, e_shnum and e_shstrndx.
        bytes[0x28..0x30].fill(0);
        bytes[0x3c..0x40].fill(0);
        let file = Kept::new("sections", &bytes);
        let found = functions(&file.0, &[]).unwrap();
        assert!(found.all.len() > 100);
        assert!(found.all.iter().all(|function| function.name.is_none()));
        let starts: std::collections::BTreeSet<u64> = whole.all.iter().map(|function| function.start).collect();
        let known = found.all.iter().filter(|function| starts.contains(&function.start)).count();
        assert!(known * 10 > found.all.len() * 9, "{known} of {} begin where symbols say", found.all.len());
    }

    #[test]
    fn names_come_from_the_debug_file_of_the_same_build() {
        let root = std::env::temp_dir().join(format!("mmulab-debug-{}", std::process::id()));
        let id = [0xab, 0xcd, 0xef];
        assert_eq!(debug_file(&id, std::slice::from_ref(&root)), None);
        let place = root.join(".build-id/ab/cdef.debug");
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        // Another build's file in its place names nothing.
        std::fs::write(&place, own()).unwrap();
        assert_eq!(debug_file(&id, std::slice::from_ref(&root)), None);
        assert_eq!(debug_file(&[], std::slice::from_ref(&root)), None);
        std::fs::remove_dir_all(&root).unwrap();
    }

    fn symbol(bytes: u64, name: &str) -> (u64, String) {
        (bytes, name.into())
    }

    #[test]
    fn unwind_tables_fill_the_gaps_between_symbols() {
        let symbols = Symbols::from([(100, symbol(50, "a")), (200, symbol(0, "b")), (300, symbol(0, "c"))]);
        let found = merged(symbols, vec![(100, 150), (160, 190), (195, 230), (300, 320), (120, 130), (400, 400)]);
        let told: Vec<(u64, u64, &str)> =
            found.iter().map(|f| (f.start, f.end, f.name.as_deref().unwrap_or("-"))).collect();
        assert_eq!(told, [(100, 150, "a"), (160, 190, "-"), (195, 200, "-"), (200, 300, "b"), (300, 320, "c")]);
        let alone = merged(Symbols::from([(5, symbol(0, "last"))]), Vec::new());
        assert_eq!(alone[0].end, 5 + UNSIZED_REACH);
    }

    #[test]
    fn other_files_are_refused_by_what_they_are() {
        for (name, bytes, message) in [
            ("script", &b"#!/bin/sh\n"[..], "not an ELF file"),
            ("short", b"\x7fELF\x02\x01\x01", "not a whole"),
            ("empty", b"", "not an ELF file"),
        ] {
            let file = Kept::new(name, bytes);
            let error = functions(&file.0, &[]).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        assert!(matches!(functions(Path::new("/nowhere/at/all"), &[]), Err(ElfError::Io(_))));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Cut and damaged files end in functions or in an error, never in a panic.
        #[test]
        fn damaged_files_do_no_harm(
            cut in prop::option::of(0.0f64..1.0),
            hits in prop::collection::vec((0.0f64..1.0, any::<u8>(), any::<bool>()), 0..40)
        ) {
            let mut bytes = small();
            let len = bytes.len();
            for (at, value, in_head) in hits {
                let range = if in_head { len.min(0x400) } else { len };
                bytes[(at * range as f64) as usize % range] = value;
            }
            if let Some(cut) = cut {
                bytes.truncate((cut * len as f64) as usize);
            }
            let file = Kept::new("damaged", &bytes);
            if let Ok(found) = functions(&file.0, &[]) {
                prop_assert!(found.all.windows(2).all(|w| w[0].start <= w[1].start));
            }
        }
    }

    /// A small program of this system, to be damaged: its own test binary is large.
    fn small() -> Vec<u8> {
        ["/bin/true", "/usr/bin/true", "/bin/sh"].iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_else(own)
    }
}
