//! A program with MADV_HUGEPAGE for chosen addresses: as if it had advised them as soon as they were mapped. So one
//! recording is run under many layouts of 2 MiB and base pages.

use crate::rewrite::{Refused, Rewrite, Rewritten};
use mmulab_addr::VirtAddr;
use mmulab_trace::{Advice, Backing, Batch, Event, Item, Source, TraceInfo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Addresses, in bytes, from the first up to one beyond the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HugeRange {
    /// The first.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_i64))]
    pub start: u64,
    /// The one after the last.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_i64))]
    pub end: u64,
}

/// `source` with its private anonymous memory at `ranges` advised.
pub fn reshape(ranges: &[HugeRange], source: Box<dyn Source>) -> Box<dyn Source> {
    Box::new(Rewritten::new(source, Advised { ranges: ranges.to_vec(), read: Batch::default() }))
}

struct Advised {
    ranges: Vec<HugeRange>,
    /// The batch as the source filled it, kept for its allocation.
    read: Batch,
}

impl Advised {
    /// The chosen parts of `start..end`.
    fn chosen(&self, start: u64, end: u64) -> impl Iterator<Item = Event> + '_ {
        self.ranges.iter().filter_map(move |range| {
            let (from, to) = (range.start.max(start), range.end.min(end));
            let advice = Advice::Hugepage;
            (from < to).then(|| Event::Madvise { addr: VirtAddr::new(from), len: to - from, advice })
        })
    }

    fn has_any(&self, start: u64, end: u64) -> bool {
        self.chosen(start, end).next().is_some()
    }

    /// The memory that an event maps, if any of it is chosen.
    fn maps(&self, event: &Event) -> Option<(u64, u64)> {
        let (start, end) = match event {
            Event::Mmap { addr, len, flags, backing: Backing::Anon, .. }
                if !flags.shared && flags.hugetlb.is_none() =>
            {
                (addr.raw(), addr.raw().saturating_add(*len))
            }
            Event::Brk { start, end } => (start.raw(), end.raw()),
            _ => return None,
        };
        self.has_any(start, end).then_some((start, end))
    }

    fn push_advised(&self, mut event: Event, out: &mut Batch) {
        let Some((start, end)) = self.maps(&event) else { return out.push_event(event) };
        let populate = match &mut event {
            Event::Mmap { flags, .. } => std::mem::take(&mut flags.populate),
            _ => false,
        };
        out.push_event(event);
        self.chosen(start, end).for_each(|advice| out.push_event(advice));
        if populate {
            // Once it is advised.
            let advice = Advice::POPULATE_WRITE;
            out.push_event(Event::Madvise { addr: VirtAddr::new(start), len: end - start, advice });
        }
    }
}

impl Rewrite for Advised {
    fn rewrite(&mut self, batch: &mut Batch) -> Result<(), Refused> {
        if !batch.events.iter().any(|event| self.maps(event).is_some()) {
            return Ok(());
        }
        let mut out = std::mem::take(&mut self.read);
        out.clear();
        std::mem::swap(&mut out.code, &mut batch.code);
        for word in &batch.refs {
            match word.item() {
                Item::Event(index) => self.push_advised(batch.events[index].clone(), &mut out),
                _ => out.refs.push(*word),
            }
        }
        self.read = std::mem::replace(batch, out);
        Ok(())
    }

    fn enter(&mut self, info: &mut TraceInfo) {
        info.reshaped.insert("huge".into(), json!(self.ranges));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::tests::Once;
    use mmulab_addr::Prot;
    use mmulab_trace::MapFlags;

    fn map(start: u64, len: u64, populate: bool, shared: bool) -> Event {
        let flags = MapFlags { populate, shared, ..MapFlags::default() };
        Event::Mmap { addr: VirtAddr::new(start), len, prot: Prot::RW, flags, backing: Backing::Anon }
    }

    fn advice(start: u64, len: u64, advice: Advice) -> Event {
        Event::Madvise { addr: VirtAddr::new(start), len, advice }
    }

    #[test]
    fn chosen_memory_is_advised_before_it_is_populated() {
        let heap = |end| Event::Brk { start: VirtAddr::new(0x1000), end: VirtAddr::new(end) };
        let events =
            vec![map(0x10000, 0x8000, true, false), map(0x10000, 0x1000, false, true), Event::Tick, heap(0x3000)];
        let ranges = [HugeRange { start: 0x2000, end: 0x12000 }, HugeRange { start: 0x14000, end: 0x90000 }];
        let mut source = reshape(&ranges, Box::new(Once(events, TraceInfo::default())));
        let mut batch = Batch::default();
        assert_eq!(source.next_batch(&mut batch).ok(), Some(false));
        let wanted = [
            map(0x10000, 0x8000, false, false),
            advice(0x10000, 0x2000, Advice::Hugepage),
            advice(0x14000, 0x4000, Advice::Hugepage),
            advice(0x10000, 0x8000, Advice::POPULATE_WRITE),
            map(0x10000, 0x1000, false, true),
            Event::Tick,
            heap(0x3000),
            advice(0x2000, 0x1000, Advice::Hugepage),
        ];
        assert_eq!(batch.events, wanted);
        // References keep their places behind the events.
        assert_eq!(batch.counts().1, 4);
        let last = batch.refs.last().map(|word| matches!(word.item(), Item::Access(..)));
        assert_eq!(last, Some(true));
        assert_eq!(source.info().reshaped["huge"][1]["start"], 0x14000);
    }
}
