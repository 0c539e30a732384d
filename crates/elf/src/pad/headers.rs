//! Program headers of an ELF file that is to be changed: the loadable segments with their numbers, and three fields
//! that are written in place. All else of the file keeps its place. (The writer of the crate `object` lays a file out
//! anew, so that its undoing could not give the same bytes.)

use super::refusal::{PadError, PadRefusal};
use crate::{ElfError, Segment};
use mmulab_trace::Isa;
use object::{
    Endian as _, Endianness, elf,
    read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _},
};

/// The place of `p_filesz`, `p_memsz` and `p_align` in a program header of a 64-bit file: u64s (ELF-64 object file
/// format, version 1.5).
const FILE_BYTES: usize = 32;
const BYTES: usize = 40;
const ALIGN: usize = 48;
/// Bytes of a program header.
const HEADER: usize = 56;
/// UPX's mark, and how far behind the program headers its first record can be.
const UPX: &[u8] = b"UPX!";
const UPX_REACH: usize = 64;

/// What padding reads of a file's headers.
pub struct Headers {
    /// The instruction set.
    pub isa: Isa,
    /// The loadable segments and the numbers of their program headers, lowest address first.
    pub loads: Vec<(usize, Segment)>,
    /// Where what the headers name ends.
    pub end: u64,
    endian: Endianness,
    /// Where the program headers are.
    at: usize,
}

/// The fields of a program header that padding changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields {
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Bytes in memory.
    pub bytes: u64,
    /// Alignment.
    pub align: u64,
}

impl From<&Segment> for Fields {
    fn from(s: &Segment) -> Self {
        Self { file_bytes: s.file_bytes, bytes: s.bytes, align: s.align }
    }
}

impl Headers {
    /// The headers of the file that `data` is.
    ///
    /// # Errors
    /// No 64-bit ELF file of a known instruction set, or none that a loader takes as it stands.
    pub fn read(data: &[u8]) -> Result<Self, PadError> {
        if !data.starts_with(b"\x7fELF") {
            return Err(ElfError::Foreign.into());
        }
        if data.get(4) == Some(&elf::ELFCLASS32) {
            return Err(ElfError::Class.into());
        }
        let header = elf::FileHeader64::<Endianness>::parse(data).map_err(ElfError::from)?;
        let endian = header.endian().map_err(ElfError::from)?;
        let isa = match header.e_machine(endian) {
            elf::EM_X86_64 => Isa::X86_64,
            elf::EM_AARCH64 => Isa::Aarch64,
            elf::EM_RISCV => Isa::Riscv64,
            other => return Err(ElfError::Machine(other).into()),
        };
        let kind = header.e_type(endian);
        if !matches!(kind, elf::ET_EXEC | elf::ET_DYN) {
            return Err(PadRefusal::Type(kind).into());
        }
        let programs = header.program_headers(endian, data).map_err(ElfError::from)?;
        let at = header.e_phoff(endian) as usize;
        let behind = at + programs.len() * HEADER;
        let near = data.get(behind..).unwrap_or_default();
        if near[..near.len().min(UPX_REACH)].windows(UPX.len()).any(|word| word == UPX) {
            return Err(PadRefusal::Packed.into());
        }
        let mut end = behind as u64;
        let mut loads = Vec::new();
        for (number, program) in programs.iter().enumerate() {
            let segment = Segment {
                address: program.p_vaddr(endian),
                bytes: program.p_memsz(endian),
                offset: program.p_offset(endian),
                file_bytes: program.p_filesz(endian),
                flags: program.p_flags(endian),
                align: program.p_align(endian),
            };
            let ends = segment.offset.checked_add(segment.file_bytes).filter(|&ends| ends <= data.len() as u64);
            if program.p_type(endian) == elf::PT_LOAD {
                let fits = segment.file_bytes <= segment.bytes && segment.address.checked_add(segment.bytes).is_some();
                let Some(ends) = ends.filter(|_| fits) else {
                    return Err(PadRefusal::Cut(number).into());
                };
                end = end.max(ends);
                loads.push((number, segment));
            }
        }
        loads.sort_by_key(|(_, segment)| segment.address);
        // Files without section headers run as well.
        let sections = header.section_headers(endian, data).map_err(ElfError::from)?;
        if !sections.is_empty() {
            end = end.max(header.e_shoff(endian) + size_of_val(sections) as u64);
        }
        for section in sections {
            if let Some((offset, bytes)) = section.file_range(endian) {
                end = end.max(offset.saturating_add(bytes).min(data.len() as u64));
            }
        }
        Ok(Self { isa, loads, end, endian, at })
    }

    /// Writes fields of program header `number` into `data`.
    pub fn write(&self, data: &mut [u8], number: usize, fields: &Fields) {
        let header = self.at + number * HEADER;
        for (place, value) in [(FILE_BYTES, fields.file_bytes), (BYTES, fields.bytes), (ALIGN, fields.align)] {
            data[header + place..][..8].copy_from_slice(&self.endian.write_u64(value));
        }
    }

    /// Whether a byte of the file belongs to a program header that may differ.
    pub fn is_field(&self, at: usize, numbers: &[usize]) -> bool {
        numbers.iter().any(|number| {
            let header = self.at + number * HEADER;
            (header + FILE_BYTES..header + HEADER).contains(&at)
        })
    }
}
