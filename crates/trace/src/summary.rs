use crate::{Batch, Event, Isa, Item, Source, TraceError, TraceInfo};
use mmulab_addr::{Access, BASE_BYTES, Pid, Tid, Vpn};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What a whole trace comes to.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// Its format.
    pub format: String,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its instruction set.
    pub isa: Isa,
    /// A hash of its content, when known.
    pub hash: Option<String>,
    /// Instructions retired.
    pub instructions: u64,
    /// Fetches, loads and stores.
    pub references: u64,
    /// Fetches of translation blocks.
    pub fetches: u64,
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
    /// Distinct base pages fetched from.
    pub code_pages: u64,
    /// Distinct base pages loaded from or stored to.
    pub data_pages: u64,
    /// Bytes of distinct base pages of either kind.
    pub footprint_bytes: u64,
    /// Processes that acted.
    pub processes: u64,
    /// Threads that acted.
    pub threads: u64,
    /// Events by kind.
    pub events: BTreeMap<&'static str, u64>,
    /// What the recorder lost, and other things a reader must be told.
    pub warnings: Vec<String>,
}

/// Reads all of `source`; `hear` is told the fraction read now and then.
///
/// # Errors
/// Damage, with its place.
pub fn summarize(source: &mut dyn Source, mut hear: impl FnMut(Option<f64>)) -> Result<Summary, TraceError> {
    let mut batch = Batch::default();
    let (mut pid, mut tid) = (Pid(1), Tid(1));
    let mut acted = BTreeSet::new();
    let mut pages: [HashSet<(Pid, Vpn)>; 2] = Default::default();
    let mut last = [(Pid(0), Vpn(u64::MAX)); 2];
    let mut counts = [0u64; 3];
    let (mut instructions, mut events, mut warnings) = (0, BTreeMap::new(), Vec::new());
    while source.next_batch(&mut batch)? {
        for word in &batch.refs {
            match word.item() {
                Item::Access(access, va, n) => {
                    instructions += u64::from(n);
                    counts[access as usize] += 1;
                    let side = usize::from(access != Access::Fetch);
                    let page = (pid, va.vpn());
                    if last[side] != page {
                        last[side] = page;
                        pages[side].insert(page);
                        acted.insert((pid, tid));
                    }
                }
                Item::Retire(n) => instructions += n,
                Item::Event(index) => {
                    let event = &batch.events[index];
                    *events.entry(name(event)).or_default() += 1;
                    match event {
                        Event::Switch { pid: p, tid: t } => (pid, tid) = (*p, *t),
                        Event::Lost { what } => warnings.push(format!("lost in recording: {what}")),
                        _ => {}
                    }
                }
            }
        }
        hear(source.progress());
    }
    let TraceInfo { name, format, program, args, isa, hash, warnings: told, .. } = source.info().clone();
    let processes: BTreeSet<Pid> = acted.iter().map(|(p, _)| *p).collect();
    Ok(Summary {
        name,
        format,
        program,
        args,
        isa,
        hash,
        instructions,
        references: counts.iter().sum(),
        fetches: counts[0],
        reads: counts[1],
        writes: counts[2],
        code_pages: pages[0].len() as u64,
        data_pages: pages[1].len() as u64,
        footprint_bytes: pages[0].union(&pages[1]).count() as u64 * BASE_BYTES,
        processes: processes.len() as u64,
        threads: acted.len() as u64,
        events,
        warnings: told.into_iter().chain(warnings).collect(),
    })
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::Switch { .. } => "switch",
        Event::Mmap { .. } => "mmap",
        Event::Munmap { .. } => "munmap",
        Event::Mprotect { .. } => "mprotect",
        Event::Mremap { .. } => "mremap",
        Event::Madvise { .. } => "madvise",
        Event::Brk { .. } => "brk",
        Event::Fork { .. } => "fork",
        Event::Clone { .. } => "clone",
        Event::Exec { .. } => "exec",
        Event::ExitThread => "exit-thread",
        Event::Exit { .. } => "exit",
        Event::Invlpg { .. } => "invlpg",
        Event::Tick => "tick",
        Event::Lost { .. } => "lost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TextReader;

    #[test]
    fn a_small_trace_by_hand() {
        let text = "mmap 0x1000 8K rw anon\nf 0x400000 x3\nr 0x1000\nw 0x1008\np 2.2\nr 0x1000\nn 4\nlost child\n";
        let mut reader = TextReader::new(text.as_bytes(), "t".into());
        let s = summarize(&mut reader, |_| {}).unwrap();
        assert_eq!((s.instructions, s.references, s.fetches, s.reads, s.writes), (7, 4, 1, 2, 1));
        assert_eq!((s.code_pages, s.data_pages, s.footprint_bytes), (1, 2, 3 * 4096));
        assert_eq!((s.processes, s.threads), (2, 2));
        assert_eq!(s.warnings, ["lost in recording: child"]);
    }
}
