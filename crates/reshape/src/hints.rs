//! A program with hints of page sizes. It looks as if a profiler had given them to the kernel when the program mapped
//! the memory. The call is the extended madvise(2) of Elastic Translations (paper 3, section IV-D).
//!
//! Hints name mappings ([`mmulab_leshy::Mapping`]). When the program makes one, its hints are known by address, and are
//! advised just before it. So memory that is populated as it is mapped has them. The kernel keeps hints in the order of
//! arrival, and a hint that comes again moves to the end. So all hints of a process that are known are advised again
//! with each further mapping. The order of the file, most important first, is the kernel's.

use crate::{
    error::ReshapeError,
    mappings::{Made, Mappings},
    rewrite::{Refused, Rewrite, Rewritten},
};
use mmulab_addr::{PageOrder, Pid, VirtAddr};
use mmulab_leshy::{HintFile, Mapping};
use mmulab_trace::{Advice, Batch, Event, Item, Source, TraceInfo};
use serde_json::json;
use std::collections::{HashMap, HashSet};

/// `source` with the hints of a file.
///
/// # Errors
/// The trace has no mappings that hints could be for.
pub fn reshape(file: &HintFile, source: Box<dyn Source>) -> Result<Box<dyn Source>, ReshapeError> {
    if !source.info().has_address_space {
        return Err(ReshapeError::NothingToHint(source.info().name.clone()));
    }
    let hinted: HashSet<Mapping> = file.hints.iter().map(|hint| hint.mapping.clone()).collect();
    let hinted =
        Hinted { file: file.clone(), hinted, mappings: Mappings::new(), known: HashMap::new(), read: Batch::default() };
    Ok(Box::new(Rewritten::new(source, hinted)))
}

/// The advice of a hint: the one place that names the kernel's extended madvise.
fn advice(size: PageOrder) -> Advice {
    Advice::PageSize(size)
}

struct Hinted {
    file: HintFile,
    /// The mappings that have hints.
    hinted: HashSet<Mapping>,
    mappings: Mappings,
    /// By process: where its mappings with hints were first mapped.
    known: HashMap<Pid, HashMap<Mapping, VirtAddr>>,
    /// The batch as the source filled it, kept for its allocation.
    read: Batch,
}

impl Hinted {
    /// The hints that an event makes known, with those that were known before it.
    fn becomes_known(&mut self, event: &Event) -> Vec<Event> {
        if matches!(event, Event::Exec { .. } | Event::Exit { .. }) {
            self.known.remove(&self.mappings.acting());
        }
        let Some(Made { pid, mapping, first }) = self.mappings.take(event) else { return Vec::new() };
        if !self.hinted.contains(&mapping) {
            return Vec::new();
        }
        let known = self.known.entry(pid).or_default();
        if known.insert(mapping, first) == Some(first) {
            return Vec::new();
        }
        let hints = self.file.hints.iter().filter_map(|hint| {
            let first = known.get(&hint.mapping)?;
            // Under another layout, mappings may not be aligned as they were: the nearest aligned memory.
            let near = first.raw().checked_add_signed(hint.offset)?.checked_add(hint.size.bytes() / 2)?;
            let addr = VirtAddr::new(near & !(hint.size.bytes() - 1));
            Some(Event::Madvise { addr, len: hint.size.bytes(), advice: advice(hint.size) })
        });
        hints.collect()
    }
}

impl Rewrite for Hinted {
    fn rewrite(&mut self, batch: &mut Batch) -> Result<(), Refused> {
        if batch.events.is_empty() {
            return Ok(());
        }
        let mut out = std::mem::take(&mut self.read);
        out.clear();
        std::mem::swap(&mut out.code, &mut batch.code);
        for word in &batch.refs {
            match word.item() {
                Item::Event(index) => {
                    let event = batch.events[index].clone();
                    self.becomes_known(&event).into_iter().for_each(|hint| out.push_event(hint));
                    out.push_event(event);
                }
                _ => out.refs.push(*word),
            }
        }
        self.read = std::mem::replace(batch, out);
        Ok(())
    }

    fn enter(&mut self, info: &mut TraceInfo) {
        let HintFile { source, hints, .. } = &self.file;
        info.reshaped.insert("hints".into(), json!({ "hints": hints.len(), "source": source }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::tests::Once;
    use mmulab_addr::{Prot, Tid};
    use mmulab_leshy::{Hint, HintSource};
    use mmulab_trace::{Backing, MapFlags};

    const M: u64 = 1 << 20;

    fn map(start: u64, len: u64) -> Event {
        let (flags, backing) = (MapFlags { populate: true, ..MapFlags::default() }, Backing::Anon);
        Event::Mmap { addr: VirtAddr::new(start), len, prot: Prot::RW, flags, backing }
    }

    fn hint(nth: u64, size: PageOrder, offset: i64) -> Hint {
        let mapping = Mapping { program: "/bin/a".into(), name: "anon".into(), prot: "rw-".into(), nth };
        let start = VirtAddr::new(0);
        Hint { size, mapping, offset, pid: Pid(1), start, misses: 1, cycles: 1 }
    }

    fn file(hints: Vec<Hint>) -> HintFile {
        let none = String::new;
        let source = HintSource {
            trace: none(),
            machine: none(),
            policy: none(),
            sampler: none(),
            period: 1,
            method: none(),
            weight: none(),
            target: 1,
            entries: 1,
            covered: 1,
            total: 1,
        };
        HintFile::new(source, hints)
    }

    fn made(file: &HintFile, events: Vec<Event>) -> Vec<Event> {
        let info = TraceInfo { has_address_space: true, ..TraceInfo::default() };
        let mut source = reshape(file, Box::new(Once(events, info))).expect("mappings");
        let mut batch = Batch::default();
        assert_eq!(source.next_batch(&mut batch).ok(), Some(false));
        assert_eq!(source.info().reshaped["hints"]["hints"], file.hints.len());
        batch.events
    }

    fn advised(addr: u64, size: PageOrder) -> Event {
        Event::Madvise { addr: VirtAddr::new(addr), len: size.bytes(), advice: advice(size) }
    }

    /// S2-027: hints reach the kernel in the order of the file, whichever mapping comes first.
    #[test]
    fn hints_are_given_when_their_mapping_is_made() {
        let (small, large) = (PageOrder::P64K, PageOrder::P2M);
        let file = file(vec![hint(1, large, 0), hint(0, small, 0x1_0000), hint(2, large, 0)]);
        let exec = Event::Exec { path: "/bin/a".into() };
        // Two mappings that touch are one.
        let (first, more, second) = (map(64 * M, M), map(65 * M, M), map(128 * M, 4 * M));
        let events = vec![exec.clone(), first.clone(), more.clone(), second.clone()];
        let wanted = vec![
            exec,
            advised(64 * M + 0x1_0000, small),
            first,
            more,
            advised(128 * M, large),
            advised(64 * M + 0x1_0000, small),
            second,
        ];
        assert_eq!(made(&file, events), wanted);
    }

    #[test]
    fn hints_hold_at_other_addresses_and_in_other_processes() {
        let large = PageOrder::P2M;
        let file = file(vec![hint(0, large, -0x10_0000)]);
        let exec = |path: &str| Event::Exec { path: path.into() };
        let switch = Event::Switch { pid: Pid(2), tid: Tid(2) };
        let fork = Event::Fork { child: Pid(2), shares_memory: false };
        let events = vec![exec("/bin/b"), map(8 * M, M), exec("/bin/a"), map(9 * M, M), fork, switch, map(10 * M, M)];
        let given: Vec<Event> =
            made(&file, events).into_iter().filter(|e| matches!(e, Event::Madvise { .. })).collect();
        // The mapping continues in the child; 3 MiB more of alignment at another address round to the nearest 2 MiB.
        assert_eq!(given, [advised(8 * M, large), advised(8 * M, large)]);
        let moved = made(&file, vec![exec("/bin/a"), map(16 * M + 0x8_0000, M)]);
        assert_eq!(moved[1], advised(16 * M, large));
    }

    #[test]
    fn traces_without_mappings_are_refused() {
        let source = Box::new(Once(Vec::new(), TraceInfo::default()));
        let refused = reshape(&file(Vec::new()), source).err().expect("refused").to_string();
        assert!(refused.contains("no mappings"), "{refused}");
    }
}
