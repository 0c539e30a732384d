//! ELF headers: instruction set, loadable segments, program interpreter and needed libraries of a 64-bit ELF file.
//! The recorder copies the segments into traces. The analysis of coalescing starts from the same segments.
//!
//! ```text
//! file     offset  +------------+
//!                  | file_bytes |
//! memory   address +------------+-------+
//!                  | file_bytes | zeros |   together: bytes
//!                  +------------+-------+
//! ```

use mmulab_addr::Prot;
use mmulab_trace::{Event, ImageSegment, Isa};
use object::{
    elf,
    read::{
        ReadCache, ReadRef,
        elf::{Dyn, FileHeader as _, ProgramHeader as _},
    },
};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// A loadable segment (PT_LOAD). Addresses and lengths are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Segment {
    /// Where it belongs in memory, before the program is moved (p_vaddr).
    pub address: u64,
    /// Bytes in memory (p_memsz).
    pub bytes: u64,
    /// Where it is in the file (p_offset).
    pub offset: u64,
    /// Bytes in the file; the rest is zero (p_filesz).
    pub file_bytes: u64,
    /// PF_R (4), PF_W (2), PF_X (1).
    pub flags: u32,
    /// What the linker aligned it to (p_align): its maxpagesize.
    pub align: u64,
}

impl Segment {
    /// Its rights, as `r-x`.
    pub fn rights(&self) -> String {
        [(4, 'r'), (2, 'w'), (1, 'x')]
            .map(|(bit, letter)| if self.flags & bit != 0 { letter } else { '-' })
            .iter()
            .collect()
    }

    /// Whether it holds code that only runs: readable or not, executable, not writable.
    pub fn is_code(&self) -> bool {
        self.flags & 3 == 1
    }
}

impl From<&Segment> for ImageSegment {
    fn from(s: &Segment) -> Self {
        // PF_X, PF_W and PF_R are in the reverse order of PROT_*.
        let flag = |bit, right| if s.flags & bit != 0 { right } else { Prot::NONE };
        let prot = flag(4, Prot::R).with(flag(2, Prot::W)).with(flag(1, Prot::X));
        let Segment { address, bytes, offset, file_bytes, align, .. } = *s;
        Self { address, bytes, offset, file_bytes, prot, align }
    }
}

impl From<&ImageSegment> for Segment {
    fn from(s: &ImageSegment) -> Self {
        let flag = |right, bit| if s.prot.has(right) { bit } else { 0 };
        let flags = flag(Prot::R, 4) | flag(Prot::W, 2) | flag(Prot::X, 1);
        let ImageSegment { address, bytes, offset, file_bytes, align, .. } = *s;
        Self { address, bytes, offset, file_bytes, flags, align }
    }
}

impl ElfFile {
    /// What a trace tells of it before it is mapped.
    pub fn told(&self, path: &str) -> Event {
        Event::Image { path: path.into(), segments: self.segments.iter().map(ImageSegment::from).collect() }
    }
}

/// What the headers of an ELF file say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ElfFile {
    /// Its instruction set.
    pub isa: Isa,
    /// Its loadable segments, lowest address first.
    pub segments: Vec<Segment>,
    /// The program that loads it (PT_INTERP).
    pub interpreter: Option<PathBuf>,
    /// The libraries it names (DT_NEEDED).
    pub needed: Vec<String>,
    /// Where it says they are (DT_RUNPATH, else DT_RPATH), with `$ORIGIN` as it stands there.
    pub run_path: Option<String>,
}

/// Why a file cannot be looked at.
#[derive(Debug, Error)]
pub enum ElfError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is something else.
    #[error("not an ELF file")]
    Foreign,
    /// It is ELF with addresses of 32 bits.
    #[error("a 32-bit ELF file; only 64-bit files are read")]
    Class,
    /// It is ELF, of a kind that is not looked at.
    #[error("an ELF file for machine {0}; x86-64 (62), AArch64 (183) and RISC-V (243) are known")]
    Machine(u16),
    /// Its headers contradict themselves.
    #[error("not a whole 64-bit ELF file: {0}")]
    Damaged(#[from] object::Error),
}

/// Reads a file's headers.
///
/// # Errors
/// It cannot be read, or is no 64-bit ELF file of a known instruction set.
pub fn read(path: &Path) -> Result<ElfFile, ElfError> {
    let cache = ReadCache::new(File::open(path)?);
    if (&cache).read_bytes_at(0, 4) != Ok(b"\x7fELF") {
        return Err(ElfError::Foreign);
    }
    if (&cache).read_bytes_at(4, 1) == Ok(&[elf::ELFCLASS32]) {
        return Err(ElfError::Class);
    }
    parse(&cache)
}

fn parse<'a>(data: impl ReadRef<'a>) -> Result<ElfFile, ElfError> {
    let header = elf::FileHeader64::<object::Endianness>::parse(data)?;
    let endian = header.endian()?;
    let isa = match header.e_machine(endian) {
        elf::EM_X86_64 => Isa::X86_64,
        elf::EM_AARCH64 => Isa::Aarch64,
        elf::EM_RISCV => Isa::Riscv64,
        other => return Err(ElfError::Machine(other)),
    };
    let mut out = ElfFile { isa, segments: Vec::new(), interpreter: None, needed: Vec::new(), run_path: None };
    let headers = header.program_headers(endian, data)?;
    for header in headers {
        if header.p_type(endian) == elf::PT_LOAD {
            out.segments.push(Segment {
                address: header.p_vaddr(endian),
                bytes: header.p_memsz(endian),
                offset: header.p_offset(endian),
                file_bytes: header.p_filesz(endian),
                flags: header.p_flags(endian),
                align: header.p_align(endian),
            });
        } else if let Some(path) = header.interpreter(endian, data)? {
            out.interpreter = Some(PathBuf::from(String::from_utf8_lossy(path).into_owned()));
        }
    }
    out.segments.sort_by_key(|s| s.address);
    for header in headers {
        let Some(entries) = header.dynamic(endian, data)? else { continue };
        let value = |tag: i64| entries.iter().filter(move |d| d.tag(endian) == tag).map(|d| d.d_val(endian));
        // Strings are in a table whose address is given; the segments say where in the file that is.
        let Some(table) = value(elf::DT_STRTAB).next().and_then(|address| offset_of(&out.segments, address)) else {
            continue;
        };
        let text = |at: u64| {
            let bytes = data.read_bytes_at_until(table.checked_add(at)?..data.len().ok()?, 0).ok()?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        out.needed = value(elf::DT_NEEDED).filter_map(text).collect();
        out.run_path = value(elf::DT_RUNPATH).chain(value(elf::DT_RPATH)).find_map(text);
    }
    Ok(out)
}

/// Where in the file the byte at `address` is.
fn offset_of(segments: &[Segment], address: u64) -> Option<u64> {
    let inside = |s: &&Segment| address >= s.address && address - s.address < s.file_bytes;
    segments.iter().find(inside).map(|s| s.offset + (address - s.address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program_is_an_elf_file_with_code_and_libraries() {
        let own = read(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.segments.iter().any(|s| s.is_code() && s.bytes > 0));
        assert!(own.segments.windows(2).all(|w| w[0].address <= w[1].address));
        assert!(own.needed.iter().any(|n| n.starts_with("libc.so")));
        // The rule of the ELF specification (S0-M048).
        assert!(own.segments.iter().all(|s| s.address % s.align == s.offset % s.align));
    }

    #[test]
    fn what_is_not_elf_is_refused() {
        let path = std::env::temp_dir().join(format!("mmulab-elf-{}", std::process::id()));
        for (bytes, message) in [
            (&b"#!/bin/sh\n"[..], "not an ELF file"),
            (b"\x7fELF\x02\x01\x01", "not a whole"),
            (b"\x7fELF\x01\x01\x01", "a 32-bit ELF file"),
            (b"", "not an ELF file"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(read(&path), Err(ElfError::Io(_))));
    }
}
