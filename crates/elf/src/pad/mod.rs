//! `mmulab elf pad` pads a program's code to the next multiple of 2 MB, so that its residual region can be a superpage.
//! It can undo this, byte for byte. Source: paper 2, section VI-A, by the file (mechanisms S1-M027, S1-M029, S1-M030).
//!
//! ```text
//! file --Headers--> plan --> three fields of a program header, no-ops, Record --verify--> written beside, renamed
//!        refusals <--'
//! ```

mod headers;
mod plan;
mod record;
mod refusal;
mod replace;
mod verify;

pub use plan::{PadPlan, PaddedSegment};
pub use refusal::{PadError, PadRefusal};
pub use verify::Verified;

use headers::{Fields, Headers};
use record::Record;
use serde::Serialize;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What was done, or would be.
#[derive(Clone, Debug, Serialize)]
pub struct Padded {
    /// The file that was read, without symbolic links.
    pub path: PathBuf,
    /// The file that was written; none on a dry run.
    pub written: Option<PathBuf>,
    /// What changed; none for an undoing.
    pub plan: Option<PadPlan>,
    /// What was compared.
    pub verified: Verified,
    /// Bytes of the file before.
    pub bytes_before: u64,
    /// Bytes of it afterwards, with the record.
    pub bytes_after: u64,
    /// Processes that run the file as it was, and go on with that.
    pub running: Vec<u32>,
}

/// Where the result goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PadTarget {
    /// In the place of the file.
    Place,
    /// To another file.
    File(PathBuf),
    /// Nowhere: a dry run.
    Nowhere,
}

/// Pads the code of the file at `path`.
///
/// # Errors
/// It is refused, cannot be read or cannot be written. Then it is as it was.
pub fn pad(path: &Path, target: &PadTarget) -> Result<Padded, PadError> {
    let (path, target, original) = open(path, target)?;
    let (plan, content) = padded(&original)?;
    let verified = verify::verify(&original, &content, &plan)?;
    let check = |written: &[u8]| verify::verify(&original, written, &plan).map(drop);
    done(path, &target, &original, &content, Some(plan.clone()), verified, check)
}

/// Takes a padding back: the file is again what it was, byte for byte.
///
/// # Errors
/// It has no record of a padding, was changed since, cannot be read or cannot be written. Then it is as it was.
pub fn undo(path: &Path, target: &PadTarget) -> Result<Padded, PadError> {
    let (path, target, file) = open(path, target)?;
    let original = unpadded(&file)?;
    let check = |written: &[u8]| {
        if written == original { Ok(()) } else { Err(PadError::Unverified("other bytes were read".into())) }
    };
    done(path, &target, &file, &original, None, Verified::default(), check)
}

fn open(path: &Path, target: &PadTarget) -> Result<(PathBuf, PadTarget, Vec<u8>), PadError> {
    let read = |error| PadError::Elf(crate::ElfError::Io(error));
    let path = fs::canonicalize(path).map_err(read)?;
    let found = fs::metadata(&path).map_err(read)?;
    let target = match target {
        PadTarget::File(other) if fs::canonicalize(other).is_ok_and(|other| other == path) => PadTarget::Place,
        other => other.clone(),
    };
    replace::admit(&path, &found, matches!(target, PadTarget::Place))?;
    let content = fs::read(&path).map_err(read)?;
    Ok((path, target, content))
}

/// The padded file that `original` becomes.
fn padded(original: &[u8]) -> Result<(PadPlan, Vec<u8>), PadError> {
    let headers = Headers::read(original)?;
    if Record::read(original).is_ok() {
        return Err(PadRefusal::Padded.into());
    }
    let bytes = original.len() as u64;
    if headers.end < bytes {
        return Err(PadRefusal::Overlay(bytes - headers.end).into());
    }
    let plan = plan::plan(&headers, bytes)?;
    let mut content = original.to_vec();
    content.extend(plan::no_ops(headers.isa, bytes, plan.content_bytes));
    for segment in &plan.padded {
        headers.write(&mut content, segment.header, &segment.fields());
    }
    let fields = plan.padded.iter().map(|segment| (segment.header, Fields::from(&segment.segment))).collect();
    content.extend(Record::of(original, fields).to_bytes());
    Ok((plan, content))
}

/// The file that `padded` was.
fn unpadded(padded: &[u8]) -> Result<Vec<u8>, PadError> {
    let headers = Headers::read(padded)?;
    let (record, start) = Record::read(padded)?;
    let known = |number: usize| headers.loads.iter().any(|&(load, _)| load == number);
    let bytes = usize::try_from(record.bytes).ok().filter(|&bytes| bytes <= start).ok_or(PadRefusal::Changed)?;
    if !record.fields.iter().all(|&(number, _)| known(number)) {
        return Err(PadRefusal::Changed.into());
    }
    let mut original = padded.to_vec();
    for (number, fields) in &record.fields {
        headers.write(&mut original, *number, fields);
    }
    original.truncate(bytes);
    if record.is_of(&original) { Ok(original) } else { Err(PadRefusal::Changed.into()) }
}

fn done(
    path: PathBuf,
    target: &PadTarget,
    before: &[u8],
    after: &[u8],
    plan: Option<PadPlan>,
    verified: Verified,
    check: impl FnOnce(&[u8]) -> Result<(), PadError>,
) -> Result<Padded, PadError> {
    let running = fs::metadata(&path).map(|found| replace::running(&path, &found)).unwrap_or_default();
    let written = match target {
        PadTarget::Nowhere => None,
        PadTarget::Place => Some(path.clone()),
        PadTarget::File(other) => Some(other.clone()),
    };
    if let Some(to) = &written {
        replace::replace(to, &path, after, check)?;
    }
    let (bytes_before, bytes_after) = (before.len() as u64, after.len() as u64);
    Ok(Padded { path, written, plan, verified, bytes_before, bytes_after, running })
}

#[cfg(test)]
mod tests;
