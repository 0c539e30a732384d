//! The record at the end of a padded file: what its program headers said, how long it was and the hash of its bytes.
//! With it alone the padding is undone.
//!
//! | field | bytes |
//! |---|---|
//! | mark | 16 |
//! | bytes of the file as it was | 8 |
//! | XXH3 of those bytes | 8 |
//! | program headers changed | 8 |
//! | for each: number, p_filesz, p_memsz, p_align | 4 x 8 |
//! | bytes of the record | 8 |
//! | mark | 16 |
//!
//! All numbers are little-endian.

use super::{headers::Fields, refusal::PadRefusal};
use xxhash_rust::xxh3::xxh3_64;

/// What the record begins and ends with. The last byte is its version.
const MARK: &[u8; 16] = b"mmulab elf pad\n1";
/// Bytes besides those for each program header.
const FRAME: usize = 16 + 8 * 3 + 8 + 16;
const EACH: usize = 4 * 8;

/// What a padded file was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Bytes of the file.
    pub bytes: u64,
    /// XXH3 of those bytes.
    pub hash: u64,
    /// The fields of the program headers that were changed, by number.
    pub fields: Vec<(usize, Fields)>,
}

impl Record {
    /// The record of `original`, before these headers are changed.
    pub fn of(original: &[u8], fields: Vec<(usize, Fields)>) -> Self {
        Self { bytes: original.len() as u64, hash: xxh3_64(original), fields }
    }

    /// Whether `original` is the file that this is the record of.
    pub fn is_of(&self, original: &[u8]) -> bool {
        self.bytes == original.len() as u64 && self.hash == xxh3_64(original)
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MARK.to_vec();
        let length = FRAME + EACH * self.fields.len();
        let each = self
            .fields
            .iter()
            .flat_map(|(number, Fields { file_bytes, bytes, align })| [*number as u64, *file_bytes, *bytes, *align]);
        for value in [self.bytes, self.hash, self.fields.len() as u64].into_iter().chain(each).chain([length as u64]) {
            out.extend(value.to_le_bytes());
        }
        out.extend(MARK);
        out
    }

    /// The record at the end of `file`, and where it begins.
    ///
    /// # Errors
    /// There is none.
    pub fn read(file: &[u8]) -> Result<(Self, usize), PadRefusal> {
        let number = |at: usize| {
            let bytes = file.get(at..at.checked_add(8)?)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let find = || {
            let length = file.strip_suffix(MARK)?.len().checked_sub(8).and_then(number)?;
            let start = file.len().checked_sub(usize::try_from(length).ok()?)?;
            let headers = usize::try_from(number(start + 32)?).ok()?;
            if !file[start..].starts_with(MARK) || headers.checked_mul(EACH)?.checked_add(FRAME)? as u64 != length {
                return None;
            }
            let header = |index: usize| {
                let at = start + 40 + index * EACH;
                let fields = Fields { file_bytes: number(at + 8)?, bytes: number(at + 16)?, align: number(at + 24)? };
                Some((usize::try_from(number(at)?).ok()?, fields))
            };
            let fields = (0..headers).map(header).collect::<Option<_>>()?;
            Some((Self { bytes: number(start + 16)?, hash: number(start + 24)?, fields }, start))
        };
        find().ok_or(PadRefusal::NotPadded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written(
            content in prop::collection::vec(any::<u8>(), 0..99), headers in 0usize..4
        ) {
            let fields = (0..headers).map(|n| (n, Fields { file_bytes: n as u64, bytes: 7, align: 1 << n })).collect();
            let record = Record::of(&content, fields);
            let file = [&content[..], &record.to_bytes()].concat();
            prop_assert_eq!(Record::read(&file).unwrap(), (record.clone(), content.len()));
            prop_assert!(record.is_of(&content));
        }

        /// Damage is no record, or another one: never a panic.
        #[test]
        fn damage_is_reported(
            content in prop::collection::vec(any::<u8>(), 0..64), at in 0usize..99, to in any::<u8>()
        ) {
            let record = Record::of(&content, vec![(1, Fields { file_bytes: 1, bytes: 2, align: 3 })]);
            let mut file = [&content[..], &record.to_bytes()].concat();
            let at = at % file.len();
            let same = file[at] == to;
            file[at] = to;
            if let Ok((read, start)) = Record::read(&file) {
                prop_assert!(same || read != record || at < start);
            }
            for cut in 0..file.len() {
                prop_assert!(Record::read(&file[..cut]).is_err());
            }
        }
    }
}
