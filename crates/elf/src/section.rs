//! The bytes of a section by its name. Sections for debuggers may be compressed, and are read as they were before.

use flate2::read::ZlibDecoder;
use object::{
    CompressionFormat, Endianness, Object, ObjectSection,
    read::{ReadRef, elf::ElfFile64},
};
use std::{borrow::Cow, io::Read};

/// A compressed section of more bytes is not read: no linker writes it.
const MOST_BYTES: u64 = 8 << 30;

/// The bytes of a section, as they were before compression.
pub(crate) fn section<'data, R: ReadRef<'data>>(
    file: &ElfFile64<'data, Endianness, R>,
    name: &str,
) -> Option<Cow<'data, [u8]>> {
    let data = file.section_by_name(name)?.compressed_data().ok()?;
    match data.format {
        CompressionFormat::None => Some(Cow::Borrowed(data.data)),
        CompressionFormat::Zlib if data.uncompressed_size <= MOST_BYTES => {
            let mut bytes = Vec::new();
            ZlibDecoder::new(data.data).take(data.uncompressed_size).read_to_end(&mut bytes).ok()?;
            Some(Cow::Owned(bytes))
        }
        _ => None,
    }
}
