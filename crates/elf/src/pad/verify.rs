//! Comparison of a padded file with the one it was made of, page by page. It reads the new file's own headers, so that
//! it does not rest on what padding meant to write.

use super::{
    headers::Headers,
    plan::{PadPlan, no_ops},
    record::Record,
    refusal::PadError,
};
use crate::Segment;
use mmulab_addr::BASE_BYTES;
use serde::Serialize;

/// What was compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Verified {
    /// Pages of memory that show what they showed before.
    pub same_pages: u64,
    /// Pages of the fill that show the file's next pages.
    pub file_pages: u64,
    /// Pages of the fill that hold no-ops.
    pub no_op_pages: u64,
}

/// Compares `padded` with `original`.
///
/// # Errors
/// Where they differ but for what `plan` says.
pub fn verify(original: &[u8], padded: &[u8], plan: &PadPlan) -> Result<Verified, PadError> {
    let wrong = |what: String| Err(PadError::Unverified(what));
    let (before, after) = (Headers::read(original)?, Headers::read(padded)?);
    let numbers: Vec<usize> = plan.padded.iter().map(|segment| segment.header).collect();
    if before.loads.len() != after.loads.len() {
        return wrong("it has another number of segments".into());
    }
    let mut found = Verified::default();
    for (&(number, old), &(other, new)) in before.loads.iter().zip(&after.loads) {
        let planned = plan.padded.iter().find(|padded| padded.header == number);
        let expected = planned.map_or(old, |padded| {
            let fields = padded.fields();
            Segment { file_bytes: fields.file_bytes, bytes: fields.bytes, align: fields.align, ..old }
        });
        if (number, expected) != (other, new) {
            return wrong(format!("segment {number} is not the planned one"));
        }
        for address in pages(old.address, old.address + old.file_bytes) {
            let end = (address + BASE_BYTES - address % BASE_BYTES).min(old.address + old.file_bytes);
            let at = (old.offset + (address - old.address)) as usize;
            let bytes = at..at + (end - address) as usize;
            let same = bytes.clone().all(|at| original[at] == padded[at] || before.is_field(at, &numbers));
            if !same {
                return wrong(format!("the page of {address:#x} differs"));
            }
            found.same_pages += 1;
        }
        let Some(planned) = planned else { continue };
        let from = (old.address + old.bytes).next_multiple_of(BASE_BYTES);
        for address in pages(from, planned.padded_end) {
            let at = (old.offset + (address - old.address)) as usize;
            let page = &padded[at..at + BASE_BYTES as usize];
            let held = original.get(at..original.len().min(at + page.len())).unwrap_or_default();
            let no_op = no_ops(before.isa, (at + held.len()) as u64, (at + page.len()) as u64);
            // Headers can be among the pages that are mapped twice, too.
            let mut bytes = (at..).zip(held.iter().copied().chain(no_op).zip(page));
            if !bytes.all(|(at, (expected, &is))| expected == is || before.is_field(at, &numbers)) {
                return wrong(format!("the fill at {address:#x} differs"));
            }
            if held.is_empty() {
                found.no_op_pages += 1;
            } else {
                found.file_pages += 1;
            }
        }
    }
    if let Some(at) = (0..original.len()).find(|&at| original[at] != padded[at] && !before.is_field(at, &numbers)) {
        return wrong(format!("byte {at} of the file differs"));
    }
    let behind = original.len() as u64;
    if !no_ops(before.isa, behind, plan.content_bytes).eq(padded[original.len()..].iter().copied().take(added(plan))) {
        return wrong("what follows the file is not no-ops".into());
    }
    match Record::read(padded) {
        Ok((record, start)) if record.is_of(original) && start as u64 == plan.content_bytes => Ok(found),
        _ => wrong("its record is of another file".into()),
    }
}

/// Bytes of no-ops behind the file as it was.
fn added(plan: &PadPlan) -> usize {
    (plan.content_bytes - plan.bytes) as usize
}

/// The first addresses of the pages of a range.
fn pages(start: u64, end: u64) -> impl Iterator<Item = u64> {
    let mut next = start;
    std::iter::from_fn(move || {
        let page = (next < end).then_some(next)?;
        next = page - page % BASE_BYTES + BASE_BYTES;
        Some(page)
    })
}
