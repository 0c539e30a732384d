use super::copy::{Cut, Span};
use crate::{Batch, Description, Source, TraceError, TraceInfo};

/// `span` of `source` as a source of its own: the same references and events that [`super::copy`] would write.
pub fn stretch(source: Box<dyn Source>, span: Span) -> Box<dyn Source> {
    if span == Span::default() {
        return source;
    }
    let mut info = source.info().clone();
    if let Some(all) = info.instructions {
        info.instructions = Some(span.end.map_or(all, |end| end.min(all)).saturating_sub(span.start));
        info.references = None;
    }
    // A part is not the whole, and is told from other parts.
    let end = span.end.map(|end| end.to_string()).unwrap_or_default();
    info.hash = info.hash.map(|hash| format!("{hash}[{}..{end}]", span.start));
    Box::new(Stretch { source, info, cut: Cut::new(span), raw: Batch::default(), sought: false, over: false })
}

struct Stretch {
    source: Box<dyn Source>,
    info: TraceInfo,
    cut: Cut,
    raw: Batch,
    /// Whether the way to the beginning was tried to be shortened.
    sought: bool,
    over: bool,
}

impl Source for Stretch {
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
        if !self.sought {
            self.sought = true;
            if self.cut.span.start > 0
                && let Some(found) = self.source.skip_to(self.cut.span.start, &mut |_| true)?
            {
                self.cut.at = found.instructions;
                found.events.into_iter().for_each(|event| self.cut.event(event, batch));
            }
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
        self.source.description()
    }
}
