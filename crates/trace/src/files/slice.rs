//! Trace intervals: one interval of instructions of a trace, as a `Source` of its own. A simulation of part of a trace
//! then needs no copy of that part in a file.

use super::copy::{Cut, Span};
use crate::{Batch, Description, Source, TraceError, TraceInfo};

/// `span` of `source` as a source of its own: the same references and events that [`super::copy`] would write.
pub fn slice(source: Box<dyn Source>, span: Span) -> Box<dyn Source> {
    if span == Span::default() {
        return source;
    }
    let mut info = source.info().clone();
    if let Some(all) = info.instructions {
        info.instructions = Some(span.end.map_or(all, |end| end.min(all)).saturating_sub(span.start));
        info.references = None;
    }
    let cut = Cut::new(span, &info);
    info.skipped = skipped(&info, span);
    // A part is not the whole, and is told from other parts.
    let end = span.end.map(|end| end.to_string()).unwrap_or_default();
    info.hash = info.hash.map(|hash| format!("{hash}[{}..{end}]", span.start));
    Box::new(Slice { source, info, cut, raw: Batch::default(), over: false })
}

/// Instructions before what is kept of a source, if the trace says what they left.
pub(super) fn skipped(info: &TraceInfo, span: Span) -> Option<u64> {
    let more = Cut::tells_pages(span, info).then_some(span.start);
    more.map_or(info.skipped, |more| Some(info.skipped.unwrap_or(0).saturating_add(more)))
}

struct Slice {
    source: Box<dyn Source>,
    info: TraceInfo,
    cut: Cut,
    raw: Batch,
    over: bool,
}

impl Source for Slice {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn tell_code(&mut self) -> bool {
        self.source.tell_code()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        if self.over {
            return Ok(false);
        }
        let read = self.source.next_batch(&mut self.raw);
        let reached = self.cut.take(&mut self.raw, batch);
        let warnings = &self.source.info().warnings;
        if *warnings != self.info.warnings {
            self.info.warnings.clone_from(warnings);
        }
        self.over = reached || !matches!(read, Ok(true));
        if reached { Ok(false) } else { read }
    }

    fn progress(&self) -> Option<f64> {
        match (self.cut.span.end, self.source.progress()) {
            (Some(end), Some(all)) if end > 0 => Some((self.cut.at as f64 / end as f64).min(1.0).max(all)),
            (_, all) => all,
        }
    }

    fn description(&self) -> Description {
        Description { skipped: self.info.skipped, ..self.source.description() }
    }
}
