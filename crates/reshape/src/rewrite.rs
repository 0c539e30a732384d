//! Rewriting of traces, batch by batch. The source, and the description of the rewritten trace, are kept here for all
//! that change traces; a [`Rewrite`] changes batches and knows neither.
//!
//! ```text
//! source --batch--> Rewrite::rewrite --batch--> machine
//!   '--warnings, changes--> Rewrite::enter --> info of the rewritten trace
//! ```

use mmulab_trace::{Batch, Description, EndInfo, Source, TraceError, TraceErrorKind, TraceInfo};

/// A change of a trace.
pub trait Rewrite: Send {
    /// Changes a batch that the source has filled. After an error the trace ends.
    fn rewrite(&mut self, batch: &mut Batch) -> Result<(), Refused>;
    /// Adds its changes and warnings to the description of the source.
    fn enter(&mut self, info: &mut TraceInfo);
    /// Whether [`Self::enter`] would add other things than the last time.
    fn has_news(&self) -> bool {
        false
    }
    /// Adds its changes to the description that a copy of the trace carries.
    fn describe(&self, _description: &mut Description) {}
}

/// A trace that cannot be rewritten.
#[derive(Debug)]
pub struct Refused {
    /// The place in the trace; empty if that is unknown.
    pub at: String,
    /// The reason, with a remedy.
    pub why: String,
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self { at: String::new(), why }
    }
}

/// A source and its change. The trace ends where its source ends, or at the first batch that cannot be rewritten.
pub struct Rewritten<R> {
    source: Box<dyn Source>,
    info: TraceInfo,
    change: R,
    over: bool,
    /// Warnings of the source that `info` has.
    warnings: usize,
}

impl<R: Rewrite> Rewritten<R> {
    /// `source`, changed by `change`.
    pub fn new(source: Box<dyn Source>, mut change: R) -> Self {
        let mut info = source.info().clone();
        change.enter(&mut info);
        Self { warnings: source.info().warnings.len(), info, source, change, over: false }
    }

    /// Takes over news of the source and of the change.
    fn update(&mut self) {
        let known = self.source.info();
        if known.warnings.len() == self.warnings && !self.change.has_news() {
            return;
        }
        self.warnings = known.warnings.len();
        self.info.warnings.clone_from(&known.warnings);
        self.info.reshaped.clone_from(&known.reshaped);
        self.change.enter(&mut self.info);
    }
}

impl<R: Rewrite> Source for Rewritten<R> {
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
        let read = self.source.next_batch(batch);
        let done = self.change.rewrite(batch);
        self.update();
        self.over = !matches!((&read, &done), (Ok(true), Ok(())));
        done.map_err(|Refused { at, why }| TraceError::new(self.info.name.clone(), at, TraceErrorKind::Request(why)))
            .and(read)
    }

    fn progress(&self) -> Option<f64> {
        self.source.progress()
    }

    fn description(&self) -> Description {
        let mut description = self.source.description();
        self.change.describe(&mut description);
        description
    }

    fn end(&self) -> Option<&EndInfo> {
        self.source.end()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use mmulab_addr::VirtAddr;
    use mmulab_trace::Event;

    /// A source of one batch: events, and a store after each.
    pub struct Once(pub Vec<Event>, pub TraceInfo);

    impl Source for Once {
        fn info(&self) -> &TraceInfo {
            &self.1
        }

        fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
            for event in self.0.drain(..) {
                batch.push_event(event);
                batch.push_data(VirtAddr::new(64), 8, true);
            }
            self.1.warnings.push("read".into());
            Ok(false)
        }
    }

    /// Refuses the second event.
    struct Refusing(usize);

    impl Rewrite for Refusing {
        fn rewrite(&mut self, batch: &mut Batch) -> Result<(), Refused> {
            self.0 += batch.events.len();
            if self.0 > 1 { Err("two events".to_owned().into()) } else { Ok(()) }
        }

        fn enter(&mut self, info: &mut TraceInfo) {
            info.warnings.push(format!("{} events", self.0));
        }
    }

    #[test]
    fn warnings_of_source_and_change_stand_beside_each_other() {
        let mut source = Rewritten::new(Box::new(Once(vec![Event::Tick], TraceInfo::default())), Refusing(0));
        assert_eq!(source.info().warnings, ["0 events"]);
        assert_eq!(source.next_batch(&mut Batch::default()).ok(), Some(false));
        assert_eq!(source.info().warnings, ["read", "1 events"]);
    }

    #[test]
    fn a_trace_that_cannot_be_rewritten_ends_with_the_reason() {
        let events = vec![Event::Tick, Event::Tick];
        let mut source = Rewritten::new(Box::new(Once(events, TraceInfo::default())), Refusing(0));
        let refused = source.next_batch(&mut Batch::default()).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|text| text.contains("two events")));
        assert_eq!(source.next_batch(&mut Batch::default()).ok(), Some(false));
    }
}
