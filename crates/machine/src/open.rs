use mmulab_mix::{MixDesc, Part, mix};
use mmulab_trace::{Source, Span, TraceError, TraceErrorKind, open_file, stretch};
use std::path::Path;

/// What a mix's name begins with.
const MIX: &str = "mix:";

/// Opens whatever a user names as a trace: a file of any format that is read, `gen:NAME?key=value`, or `mix:` with the JSON
/// of a [`MixDesc`].
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn open(name: &str) -> Result<Box<dyn Source>, TraceError> {
    if name.starts_with("gen:") {
        return mmulab_workload::open(name)
            .map_err(|e| TraceError::new(e.to_string(), "", TraceErrorKind::Request("no such generator".into())));
    }
    if let Some(described) = name.strip_prefix(MIX) {
        return open_mix(described);
    }
    open_file(Path::new(name))
}

fn open_mix(described: &str) -> Result<Box<dyn Source>, TraceError> {
    let desc: MixDesc = serde_json::from_str(described).map_err(|e| {
        let what = format!("no description of a mix ({e}): name it by its recipe");
        TraceError::new(format!("{MIX}{described}"), "", TraceErrorKind::Request(what))
    })?;
    let part = |member: &mmulab_mix::MemberDesc| {
        let span = Span { start: member.skip, end: member.instructions.map(|n| n.saturating_add(member.skip)) };
        let trace = member.trace.clone();
        let again = move || Ok(stretch(open(&trace)?, span));
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
