//! A trace whose ELF files are linked anew: references inside segments move to the segments' new addresses, and
//! mappings change with them.

use super::{
    desc::{ImageDesc, Window},
    files::Files,
    spaces::Spaces,
    spans::{Kind, Span},
};
use crate::rewrite::{Refused, Rewrite};
use mmulab_trace::{Batch, Description, Event, Item, Ref, TraceInfo};
use serde_json::Value;

/// A trace of programs whose files are linked anew.
pub struct Anew {
    files: Files,
    spaces: Spaces,
    /// What the source said, while it is told otherwise.
    said: Batch,
    told: Vec<Event>,
    /// References to bytes beside segments, told as others of their pages.
    beside: u64,
    /// As many as were reported.
    beside_reported: u64,
    /// The last report.
    report: Value,
}

impl Anew {
    /// Files are laid out as `desc` says, and mapped from `window` on.
    pub fn new(desc: &ImageDesc, window: Window) -> Self {
        let files = Files::new(desc.clone());
        let spaces = Spaces::new(window);
        let (said, told, report) = (Batch::default(), Vec::new(), Value::Null);
        Self { files, spaces, said, told, beside: 0, beside_reported: 0, report }
    }

    /// Moves the references of `words`, among which are no events, until one that cannot be told at once: how many
    /// words.
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
    fn tell_rest(&mut self, mut from: usize, out: &mut Batch) -> Result<(), Refused> {
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
    fn untold(&mut self, word: Ref) -> Result<(), Refused> {
        let space = self.spaces.current();
        if space.spans.find(word.va()).kind == Kind::Waiting {
            space.release_at(word.va(), &mut self.told);
            return Ok(());
        }
        let why = format!(
            "the program refers to {}, among the addresses that files linked anew are given; name others with \
             image.window",
            word.va()
        );
        Err(why.into())
    }

    fn event(&mut self, event: Event) -> Result<(), Refused> {
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
                return done.map_err(Refused::from);
            }
        }
        self.told.push(event);
        Ok(())
    }
}

impl Rewrite for Anew {
    fn rewrite(&mut self, batch: &mut Batch) -> Result<(), Refused> {
        // Most batches have no events: they are told in place.
        let moved = if batch.events.is_empty() { self.move_all(&mut batch.refs) } else { 0 };
        let mut told = Ok(());
        if moved < batch.refs.len() {
            std::mem::swap(batch, &mut self.said);
            batch.clear();
            batch.code = std::mem::take(&mut self.said.code);
            told = self.tell_rest(moved, batch);
        }
        told
    }

    fn enter(&mut self, info: &mut TraceInfo) {
        self.report = self.files.report(self.beside);
        self.beside_reported = self.beside;
        info.reshaped.insert("image".into(), self.report.clone());
    }

    fn has_news(&self) -> bool {
        self.files.changed || self.beside != self.beside_reported
    }

    fn describe(&self, description: &mut Description) {
        let image = &self.report;
        let (linker, size) = (image["linker"].as_str().unwrap_or(""), image["max_page_size"].as_str().unwrap_or(""));
        description.source.push_str(&format!("; laid out anew as {linker} links with maxpagesize {size}"));
    }
}
