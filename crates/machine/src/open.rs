//! Trace names: one function opens trace files, generators, thread blocks and mixes, so every kind of trace has one
//! syntax.
//!
//! ```text
//! gen:NAME?key=value                synthetic program
//! accel-sim:FILE?cores=C&warps=W    thread blocks on C cores with W warps each
//! mix:JSON                          several traces, interleaved
//! PATH                              trace file of any supported format
//! ```

use mmulab_interleave::{MixDesc, Part, mix};
use mmulab_trace::{Source, Span, TraceError, TraceErrorKind, WarpShape, open_file, open_warps, slice};
use std::path::Path;

/// What a mix's name begins with.
const MIX: &str = "mix:";
/// The same of a file of thread blocks.
const WARPS: &str = "accel-sim:";

/// Opens a trace by the name that a user gives. It is a file of any format that is read, `gen:NAME?key=value`,
/// `accel-sim:FILE?cores=N&warps=N`, or `mix:` with the JSON of a [`MixDesc`].
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn open(name: &str) -> Result<Box<dyn Source>, TraceError> {
    if name.starts_with("gen:") {
        return mmulab_workload::open(name)
            .map_err(|e| TraceError::new(name, "", TraceErrorKind::Request(e.what().to_owned())));
    }
    if let Some(described) = name.strip_prefix(MIX) {
        return open_mix(described);
    }
    if let Some(described) = name.strip_prefix(WARPS) {
        return open_blocks(name, described);
    }
    open_file(Path::new(name))
}

/// A file of thread blocks, and the cores that they are dealt to: `FILE?cores=N&warps=N`.
fn open_blocks(name: &str, described: &str) -> Result<Box<dyn Source>, TraceError> {
    let wrong = |what: String| TraceError::new(name, "", TraceErrorKind::Request(what));
    let (file, keys) = described.split_once('?').unwrap_or((described, ""));
    let mut shape = WarpShape::default();
    for pair in keys.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let place = match key {
            "cores" => &mut shape.cores,
            "warps" => &mut shape.warps,
            _ => return Err(wrong(format!("'{key}' is not a key of it: the keys are cores and warps"))),
        };
        let most = WarpShape::MOST;
        let given = value.parse().ok().filter(|n| (1..=most).contains(n));
        *place = given.ok_or_else(|| wrong(format!("{key} is '{value}': give 1 to {most}")))?;
    }
    let source = open_warps(Path::new(file), shape)?;
    match source.info().warps {
        Some(warps) if warps == shape.warps => Ok(source),
        _ => Err(wrong(
            "cores= and warps= apply only to Accel-Sim traces (kernelslist.g, .traceg); this file is of another format"
                .into(),
        )),
    }
}

fn open_mix(described: &str) -> Result<Box<dyn Source>, TraceError> {
    let desc: MixDesc = serde_json::from_str(described).map_err(|e| {
        let what = format!("no description of a mix ({e}): name it by its recipe");
        TraceError::new(format!("{MIX}{described}"), "", TraceErrorKind::Request(what))
    })?;
    let part = |member: &mmulab_interleave::MemberDesc| {
        let span = Span { start: member.skip, end: member.instructions.map(|n| n.saturating_add(member.skip)) };
        let trace = member.trace.clone();
        let again = move || Ok(slice(open(&trace)?, span));
        let source = again()?;
        Ok(Part {
            name: member.name.clone(),
            source,
            again: Some(Box::new(again)),
            after: member.after,
            core: member.core,
        })
    };
    let parts = desc.members.iter().map(part).collect::<Result<_, TraceError>>()?;
    mix(&desc.name, parts, &desc.schedule)
}
