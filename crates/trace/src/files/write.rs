//! Trace output: a copy of a source goes to `TARGET.part`, and gets the name `TARGET` when writing has ended. A failed
//! write removes the partial file and leaves an older `TARGET` untouched. Devices and pipes are written directly.

use super::{
    packed::{PackedWriter, Packing},
    slice::skipped,
};
use crate::{Description, Format, Progress, Sink, Source, Span, Stopped, TraceError, TraceErrorKind, copy};
use serde::Serialize;
use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Result of [`write_file`].
#[derive(Debug, Serialize)]
pub struct Written {
    /// Instructions in the file.
    pub instructions: u64,
    /// References in it.
    pub references: u64,
    /// Its bytes; 0 for a pipe.
    pub bytes: u64,
    /// Parts of the source that its format could not hold.
    pub lost: Vec<String>,
    /// Why it is not all that was asked for: `interrupted`, or what is wrong with the source.
    pub stopped: Option<String>,
    /// Whether it is all that was asked for.
    pub complete: bool,
    /// Whether the user wanted the end.
    pub interrupted: bool,
    /// Whether the file is there.
    pub kept: bool,
}

/// Writes `span` of `source` to the file at `target`, packed as its name says (`.gz`, `.xz`, `.zst`).
///
/// The file appears under its name when it is whole. If the source ended early, the file is valid and says so itself
/// (native, text), or is left out (ChampSim's format, which cannot say it).
///
/// # Errors
/// The target is the source, cannot be made, or cannot be written to its end; nothing of it remains then.
pub fn write_file(
    source: &mut dyn Source,
    target: &Path,
    format: Format,
    span: Span,
    on_progress: impl FnMut(&Progress) -> bool,
) -> Result<Written, TraceError> {
    let name = target.display().to_string();
    let request = |what: String| TraceError::new(&name, "", TraceErrorKind::Request(what));
    if same_file(Path::new(&source.info().name), target) {
        return Err(request("this is the source itself: choose another name".into()));
    }
    let packing = Packing::of_name(target);
    if format == Format::Native && packing.is_some() {
        return Err(request("the native format is packed already: choose a name that ends in .mmt".into()));
    }
    let place = Place::new(target);
    let file = File::create(&place.written).map_err(|e| request(e.to_string()))?;
    let work = PackedWriter::new(file, packing).and_then(|out| fill(source, out, format, span, on_progress));
    let done = work.and_then(|done| if done.kept { place.keep().map(|()| done) } else { Ok(done) });
    match done {
        Ok(mut written) => {
            if written.kept {
                written.bytes = fs::metadata(target).map_or(0, |m| if m.is_file() { m.len() } else { 0 });
            } else {
                place.remove();
            }
            Ok(written)
        }
        Err(error) => {
            place.remove();
            let kind = match error.kind() {
                io::ErrorKind::Unsupported => {
                    TraceErrorKind::Request(format!("{format} is only read; native, text and champsim are written"))
                }
                _ => TraceErrorKind::Unwritten(error),
            };
            Err(TraceError::new(name, "", kind))
        }
    }
}

fn fill(
    source: &mut dyn Source,
    out: PackedWriter,
    format: Format,
    span: Span,
    on_progress: impl FnMut(&Progress) -> bool,
) -> io::Result<Written> {
    let skipped = skipped(source.info(), span);
    let mut sink = Sink::new(format, out, &Description { skipped, ..source.description() })?;
    let copied = copy(source, &mut sink, span, on_progress)?;
    let interrupted = matches!(copied.stopped, Some(Stopped::Interrupted));
    // What is damaged after the references leaves the copy whole.
    let is_after_all = matches!(&copied.stopped, Some(Stopped::Source(error)) if error.is_after_all());
    let complete = copied.stopped.is_none() || is_after_all;
    let mut end = source.end().cloned().unwrap_or_default();
    let stopped = copied.stopped.map(|stopped| match stopped {
        Stopped::Interrupted => "interrupted".to_owned(),
        Stopped::Source(error) => error.to_string(),
    });
    if is_after_all && source.end().is_none() {
        let what =
            "how the program ended and what was not recorded: the index of the trace this is a copy of was damaged";
        end.lost.push(what.into());
    }
    if let Some(why) = stopped.as_ref().filter(|_| !complete) {
        let why = format!("copied up to instruction {}: {why}", span.start + copied.instructions);
        end.ended_early = Some(why);
    } else if span.end.is_some() {
        // The copy ends where it was told to, not as the program did.
        end.ended_early = None;
    }
    let (out, lost) = sink.finish(end)?;
    out.finish()?;
    let (instructions, references) = (copied.instructions, copied.references);
    let kept = complete || format != Format::ChampSim;
    Ok(Written { instructions, references, bytes: 0, lost, stopped, complete, interrupted, kept })
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// Where a file is written before it has its name.
struct Place {
    target: PathBuf,
    written: PathBuf,
}

impl Place {
    fn new(target: &Path) -> Self {
        // Devices and pipes are written as they are.
        let direct = fs::metadata(target).is_ok_and(|m| !m.is_file());
        let mut written = OsString::from(target);
        if !direct {
            written.push(".part");
        }
        Self { target: target.into(), written: written.into() }
    }

    fn keep(&self) -> io::Result<()> {
        if self.written == self.target { Ok(()) } else { fs::rename(&self.written, &self.target) }
    }

    fn remove(&self) {
        if self.written != self.target {
            // It may never have been there.
            let _ = fs::remove_file(&self.written);
        }
    }
}
