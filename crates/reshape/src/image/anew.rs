use super::{
    desc::ImageDesc,
    files::Files,
    spaces::Spaces,
    spans::{Kind, Span},
};
use crate::retold::Teller;
use mmulab_trace::{Batch, Description, Event, Item, Ref, Source, TraceError, TraceErrorKind, TraceInfo};
use serde_json::json;

/// A trace of programs whose files are linked anew.
pub struct Anew {
    source: Box<dyn Source>,
    info: TraceInfo,
    files: Files,
    spaces: Spaces,
    /// What the source said, while it is told otherwise.
    said: Batch,
    told: Vec<Event>,
    /// References to bytes beside segments, told as others of their pages.
    beside: u64,
}

impl Anew {
    /// `source` with its files as `desc` has them, mapped from `window` on.
    pub fn new(desc: &ImageDesc, window: u64, source: Box<dyn Source>) -> Self {
        let info = source.info().clone();
        let files = Files::new(desc.clone());
        let spaces = Spaces::new(window);
        let mut this = Self { source, info, files, spaces, said: Batch::default(), told: Vec::new(), beside: 0 };
        this.report();
        this
    }

    /// Keeps what is known of the trace up to date.
    fn report(&mut self) {
        self.info.warnings = self.source.info().warnings.clone();
        let mut changes = self.source.info().reshaped.clone();
        changes.insert("image".into(), self.files.report(self.beside));
        self.info.reshaped = changes;
    }

    /// Moves the references of `words`, among which are no events, until one that cannot be told at once: how many words.
    fn move_all(&mut self, words: &mut [Ref]) -> usize {
        let spans = &mut self.spaces.current().spans;
        for (index, word) in words.iter_mut().enumerate() {
            if word.is_control() {
                continue;
            }
            let delta = match spans.delta(word.va()) {
                Some(delta) => delta,
                None => match spans.find(word.va()) {
                    Span { kind: Kind::Beside, delta, .. } => {
                        self.beside += 1;
                        delta
                    }
                    _ => return index,
                },
            };
            *word = word.moved(delta);
        }
        words.len()
    }

    /// Tells what was said, of which `from` words have moved.
    fn tell_rest(&mut self, mut from: usize, out: &mut Batch) -> Result<(), TraceError> {
        let mut words = std::mem::take(&mut self.said.refs);
        out.refs.extend_from_slice(&words[..from]);
        let mut done = Ok(());
        while from < words.len() && done.is_ok() {
            let rest = &mut words[from..];
            let until = rest.iter().position(|w| matches!(w.item(), Item::Event(_))).unwrap_or(rest.len());
            let moved = self.move_all(&mut rest[..until]);
            out.refs.extend_from_slice(&rest[..moved]);
            from += moved;
            let Some(&word) = words.get(from) else { break };
            done = match word.item() {
                Item::Event(index) => {
                    from += 1;
                    // Each event has one word: it may be moved.
                    let event = std::mem::replace(&mut self.said.events[index], Event::Tick);
                    self.event(event)
                }
                _ => self.untold(word),
            };
            self.told.drain(..).for_each(|event| out.push_event(event));
        }
        words.clear();
        self.said.refs = words;
        done
    }

    /// A reference to what is not told yet, or to where nothing was.
    fn untold(&mut self, word: Ref) -> Result<(), TraceError> {
        let space = self.spaces.current();
        if space.spans.find(word.va()).kind == Kind::Waiting {
            space.release_at(word.va(), &mut self.told);
            return Ok(());
        }
        let what = format!(
            "the program refers to {}, among the addresses that files linked anew are given; name others with image.window",
            word.va()
        );
        Err(self.refuse(what))
    }

    fn refuse(&self, what: String) -> TraceError {
        TraceError::new(self.info.name.clone(), "", TraceErrorKind::Request(what))
    }

    fn event(&mut self, event: Event) -> Result<(), TraceError> {
        match event {
            Event::Image { path, segments } => {
                let told = self.files.learn(&path, segments);
                self.told.push(told);
                return Ok(());
            }
            Event::Switch { pid, .. } => self.spaces.switch(pid),
            Event::Fork { child, shares_memory } => {
                self.spaces.current().release_all(&mut self.told);
                self.spaces.fork(child, shares_memory);
            }
            Event::Exec { .. } => self.spaces.renew(),
            Event::Exit { .. } => self.spaces.exit(),
            _ => {
                let done = self.spaces.current().event(event, &mut self.files, &mut self.told);
                return done.map_err(|what| self.refuse(what));
            }
        }
        self.told.push(event);
        Ok(())
    }
}

impl Teller for Anew {
    fn source(&self) -> &dyn Source {
        &*self.source
    }

    fn source_mut(&mut self) -> &mut dyn Source {
        &mut *self.source
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn tell(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        let before = self.beside;
        // Most batches have no events: they are told in place.
        let moved = if batch.events.is_empty() { self.move_all(&mut batch.refs) } else { 0 };
        let mut told = Ok(());
        if moved < batch.refs.len() {
            std::mem::swap(batch, &mut self.said);
            batch.clear();
            batch.code = std::mem::take(&mut self.said.code);
            told = self.tell_rest(moved, batch);
        }
        if self.files.changed || self.info.warnings.len() != self.source.info().warnings.len() {
            self.report();
        } else if self.beside != before {
            self.info.reshaped["image"]["references_beside_segments"] = json!(self.beside);
        }
        told
    }

    fn describe(&self, description: &mut Description) {
        let image = &self.info.reshaped["image"];
        let (linker, size) = (image["linker"].as_str().unwrap_or(""), image["max_page_size"].as_str().unwrap_or(""));
        description.source.push_str(&format!("; laid out anew as {linker} links with maxpagesize {size}"));
    }
}
