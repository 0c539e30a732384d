//! A trace whose first part is run and not counted: what follows begins with TLBs, caches and page tables in use.

use crate::{Batch, Description, EndInfo, Event, Item, Ref, Source, TraceError, TraceInfo};

/// `source` with [`Event::Resume`] after its first `instructions`, rounded up to whole blocks.
pub fn warm_up(source: Box<dyn Source>, instructions: u64) -> Box<dyn Source> {
    if instructions == 0 { source } else { Box::new(WarmUp { source, left: Some(instructions) }) }
}

struct WarmUp {
    source: Box<dyn Source>,
    /// Instructions before the place, until it was met.
    left: Option<u64>,
}

/// The place in `batch` where `left` instructions have retired, if that is in it; `left` is what is left of them then.
fn place(batch: &Batch, left: &mut u64) -> Option<usize> {
    for (at, word) in batch.refs.iter().enumerate() {
        let retired = match word.item() {
            // A fetch of no instructions is a further page of the block before.
            Item::Access(_, _, n) if *left == 0 && n > 0 => return Some(at),
            Item::Retire(_) | Item::Code(_) if *left == 0 => return Some(at),
            Item::Access(_, _, n) => u64::from(n),
            Item::Retire(n) => n,
            Item::Event(_) | Item::Code(_) => 0,
        };
        *left = left.saturating_sub(retired);
    }
    None
}

impl Source for WarmUp {
    fn info(&self) -> &TraceInfo {
        self.source.info()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let read = self.source.next_batch(batch);
        if let Some(left) = &mut self.left
            && let Some(at) = place(batch, left)
        {
            batch.refs.insert(at, Ref::event(batch.events.len()));
            batch.events.push(Event::Resume);
            self.left = None;
        }
        read
    }

    fn progress(&self) -> Option<f64> {
        self.source.progress()
    }

    fn tell_code(&mut self) -> bool {
        self.source.tell_code()
    }

    fn description(&self) -> Description {
        self.source.description()
    }

    fn end(&self) -> Option<&EndInfo> {
        self.source.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TextReader;

    /// The items of a trace after its resumption, and how many come before it.
    fn split(text: &'static str, instructions: u64) -> (usize, Vec<Item>) {
        let source = TextReader::new(text.as_bytes(), "t".into());
        let (mut source, mut batch) = (warm_up(Box::new(source), instructions), Batch::default());
        source.next_batch(&mut batch).unwrap();
        let resumes = |word: &Ref| matches!(word.item(), Item::Event(i) if batch.events[i] == Event::Resume);
        let at = batch.refs.iter().position(resumes);
        (at.unwrap_or(usize::MAX), batch.refs.iter().skip(at.map_or(0, |at| at + 1)).map(|w| w.item()).collect())
    }

    #[test]
    fn the_part_ends_with_the_block_that_holds_its_last_instruction() {
        let text = "mmap 0x1000 64K rw anon\nf 0x1000 x3\nr 0x2000\nf 0x1000 x3\nw 0x3000\ntick\nn 5\nf 0x4000\n";
        assert_eq!(split(text, 0).0, usize::MAX);
        assert_eq!(split(text, 1).0, 3);
        assert_eq!(split(text, 3).0, 3);
        for n in [4, 6] {
            let (before, after) = split(text, n);
            // The event has no instruction: it belongs to what is before.
            assert_eq!((before, after[0]), (6, Item::Retire(5)), "{n}");
        }
        assert_eq!(split(text, 11).1.len(), 1);
        assert_eq!(split(text, 12).0, usize::MAX);
    }
}
