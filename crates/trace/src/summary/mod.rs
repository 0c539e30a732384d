//! Summary of a whole trace, in memory that grows with the pages it touches and not with its length.

mod pages;
mod space;

use crate::{Batch, Event, Isa, Item, Progress, Source, TraceInfo, files::Beat};
use mmulab_addr::{Access, BASE_BYTES, Pid, Tid};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

pub use space::MappingSummary;
use space::Spaces;

/// Summary of a whole trace.
#[derive(Debug, Default, Serialize)]
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
    /// Whether it contains the program's mappings.
    pub has_address_space: bool,
    /// Bytes of its file; `None` for a generator.
    pub file_bytes: Option<u64>,
    /// Bytes of its file for each instruction.
    pub bytes_per_instruction: Option<f64>,
    /// Whether all of its references were read.
    pub complete: bool,
    /// Why not, or what is wrong with what follows them.
    pub problem: Option<String>,
    /// Where it begins with a cut: instructions of the program before it.
    pub skipped: Option<u64>,
    /// Bytes of the pages that were in use at the cut; nothing else here is of what came before it, but for events and
    /// mappings.
    pub used_before_bytes: Option<u64>,
    /// Instructions that a recording in intervals left out between them.
    pub left_out: u64,
    /// Instructions retired.
    pub instructions: u64,
    /// Fetches, loads and stores.
    pub references: u64,
    /// Fetches of blocks of code.
    pub fetches: u64,
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
    /// Distinct base pages fetched from, in all processes.
    pub code_pages: u64,
    /// Distinct base pages loaded from or stored to, in all processes.
    pub data_pages: u64,
    /// Bytes of distinct base pages of either kind.
    pub footprint_bytes: u64,
    /// Processes that acted.
    pub processes: u64,
    /// Threads that acted.
    pub threads: u64,
    /// Events by kind.
    pub events: BTreeMap<&'static str, u64>,
    /// Mappings, the most accessed first.
    pub mappings: Vec<MappingSummary>,
    /// Parts that the recorder lost, and other warnings for the reader.
    pub warnings: Vec<String>,
}

/// Things lost that are listed; others are counted.
const MAX_WARNINGS: usize = 20;

/// Reads all of `source`. `on_progress` gets the progress now and then, and false from it ends the work early. The
/// summary covers what comes before damage or before this end, and says so.
pub fn summarize(source: &mut dyn Source, mut on_progress: impl FnMut(&Progress) -> bool) -> Summary {
    let TraceInfo { name, format, program, args, isa, hash, has_address_space, skipped, warnings, .. } =
        source.info().clone();
    let mut sum =
        Summary { name, format, program, args, isa, hash, has_address_space, skipped, warnings, ..Summary::default() };
    let mut batch = Batch::default();
    let mut walk = Walk { is_before: skipped.is_some(), ..Walk::default() };
    let mut beat = Beat::new();
    loop {
        let read = source.next_batch(&mut batch);
        let room = walk.take(&batch, &mut sum);
        match read {
            _ if room.is_err() => sum.problem = room.err(),
            Ok(true) if beat.report(source.progress(), sum.instructions, sum.references, &mut on_progress) => continue,
            Ok(true) => sum.problem = Some("interrupted".into()),
            Ok(false) => sum.complete = true,
            Err(error) => {
                sum.complete = error.is_after_all();
                sum.problem = Some(format!("{}: {}", error.at, error.kind));
            }
        }
        break;
    }
    walk.finish(&mut sum);
    sum.file_bytes = std::fs::metadata(&sum.name).ok().filter(|m| m.is_file()).map(|m| m.len());
    // Of what was read only a part is known, and no part of the file is its.
    if let (Some(bytes), true, 1..) = (sum.file_bytes, sum.complete, sum.instructions) {
        sum.bytes_per_instruction = Some(bytes as f64 / sum.instructions as f64);
    }
    sum
}

/// State while the trace is read.
struct Walk {
    pid: Pid,
    tid: Tid,
    acted: BTreeSet<(Pid, Tid)>,
    spaces: Spaces,
    lost: u64,
    /// Whether the cut that it begins with was not passed yet.
    is_before: bool,
}

impl Default for Walk {
    fn default() -> Self {
        let (acted, spaces) = (BTreeSet::new(), Spaces::default());
        Self { pid: Pid(1), tid: Tid(1), acted, spaces, lost: 0, is_before: false }
    }
}

impl Walk {
    /// Takes in a batch, up to where there is no room any more.
    fn take(&mut self, batch: &Batch, sum: &mut Summary) -> Result<(), String> {
        let mut counts = [0u64; 3];
        let mut room = Ok(());
        for word in &batch.refs {
            match word.item() {
                Item::Access(access, va, n) => {
                    sum.instructions += u64::from(n);
                    counts[access as usize] += u64::from(!self.is_before);
                    if self.spaces.touch(va, access == Access::Fetch) {
                        self.acted.insert((self.pid, self.tid));
                        room = self.spaces.check();
                    }
                }
                Item::Code(_) => {}
                Item::Retire(n) => sum.instructions = sum.instructions.saturating_add(n),
                Item::Event(index) => {
                    let event = &batch.events[index];
                    *sum.events.entry(name(event)).or_default() += 1;
                    match event {
                        Event::Switch { pid, tid } => (self.pid, self.tid) = (*pid, *tid),
                        Event::Resume if self.is_before => {
                            self.is_before = false;
                            sum.used_before_bytes = Some(self.spaces.count_anew() * BASE_BYTES);
                            self.acted.clear();
                        }
                        Event::Pause => self.is_before = true,
                        Event::Continue { left_out } => {
                            self.is_before = false;
                            sum.left_out = sum.left_out.saturating_add(*left_out);
                        }
                        Event::Lost { what } => {
                            self.lost += 1;
                            if sum.warnings.len() < MAX_WARNINGS {
                                sum.warnings.push(format!("lost in recording: {what}"));
                            }
                        }
                        _ => {}
                    }
                    self.spaces.event(event);
                    room = self.spaces.check();
                }
            }
            if room.is_err() {
                break;
            }
        }
        sum.fetches += counts[0];
        sum.reads += counts[1];
        sum.writes += counts[2];
        sum.references = sum.fetches + sum.reads + sum.writes;
        room
    }

    fn finish(self, sum: &mut Summary) {
        let pages = self.spaces.distinct();
        (sum.code_pages, sum.data_pages) = (pages.code, pages.data);
        sum.footprint_bytes = pages.either * BASE_BYTES;
        sum.processes = self.acted.iter().map(|(pid, _)| *pid).collect::<BTreeSet<_>>().len() as u64;
        sum.threads = self.acted.len() as u64;
        sum.mappings = self.spaces.mappings();
        if self.lost > MAX_WARNINGS as u64 {
            sum.warnings.push(format!("{} things were lost in recording; the first are told", self.lost));
        }
    }
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
        Event::Prctl { .. } => "prctl",
        Event::Pin { .. } => "pin",
        Event::Invlpg { .. } => "invlpg",
        Event::Tick => "tick",
        Event::Resume => "resume",
        Event::Pause => "pause",
        Event::Continue { .. } => "continue",
        Event::Lost { .. } => "lost",
        Event::Image { .. } => "image",
        Event::Malloc { .. } => "malloc",
        Event::Free { .. } => "free",
        Event::Name { .. } => "name",
        Event::Frames { .. } => "frames",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TextReader;

    fn summary(text: &str) -> Summary {
        summarize(&mut TextReader::new(text.as_bytes(), "t".into()), |_| true)
    }

    #[test]
    fn a_small_trace_by_hand() {
        let s =
            summary("mmap 0x1000 8K rw anon\nf 0x400000 x3\nr 0x1000\nw 0x1008\np 2.2\nr 0x1000\nn 4\nlost child\n");
        assert_eq!((s.instructions, s.references, s.fetches, s.reads, s.writes), (7, 4, 1, 2, 1));
        assert_eq!((s.code_pages, s.data_pages, s.footprint_bytes), (1, 2, 3 * 4096));
        assert_eq!((s.processes, s.threads), (2, 2));
        assert_eq!(s.warnings, ["lost in recording: child"]);
        assert!(s.complete && s.problem.is_none());
        let anon = s.mappings.iter().find(|m| m.kind == "anon").unwrap();
        assert_eq!((anon.mapped_bytes, anon.code_pages, anon.data_pages), (8192, 0, 1));
        let none = s.mappings.iter().find(|m| m.kind == "none").unwrap();
        assert_eq!((none.mapped_bytes, none.code_pages, none.data_pages), (0, 1, 1));
    }

    #[test]
    fn mappings_come_go_and_move() {
        let s = summary(
            "mmap 0x400000 8K rx file:/bin/x+0\nf 0x400000\nf 0x401000\nr 0x401000\n\
             brk 0x600000 0x604000\nw 0x603fff\nbrk 0x600000 0x602000\nbrk 0x600000 0x608000\nw 0x603fff\n\
             mmap 0x7fff0000 64K rw anon growsdown label=[stack]\nw 0x7ffef000\n\
             mmap 0x10000 16K rw anon\nw 0x10000\nmremap 0x10000 16K 0x20000 32K\nw 0x20000\nw 0x27fff\n\
             munmap 0x20000 32K\nr 0x20000\n\
             fork 9\np 9.9\nr 0x400000\n",
        );
        let of = |kind: &str| s.mappings.iter().find(|m| m.kind == kind).unwrap_or_else(|| panic!("{kind}: {s:?}"));
        let file = of("file");
        assert_eq!((file.name.as_str(), file.rights.as_str()), ("/bin/x", "r-x"));
        assert_eq!((file.mapped_bytes, file.code_pages, file.data_pages), (16384, 2, 2), "8K in each of two processes");
        // The page is gone and comes back: it is touched twice, in one place.
        assert_eq!((of("heap").mapped_bytes, of("heap").data_pages), (2 * 0x8000, 2));
        assert_eq!(of("stack").data_pages, 1);
        let anon = of("anon");
        assert_eq!((anon.data_pages, anon.mapped_bytes), (3, 32768));
        assert_eq!(of("none").data_pages, 1);
        assert_eq!(s.data_pages, 7, "distinct pages are counted once");
        assert_eq!(s.events["fork"], 1);
    }

    #[test]
    fn named_mappings_are_shown_by_their_names() {
        let s = summary(
            "mmap 0x10000 64K rw anon\nw 0x10000\nname 0x14000 16K table_new%20(t.c:4)\nw 0x14000\nw 0x15000\n\
             brk 0x600000 0x604000\nname 0x600000 16K other\nw 0x600000\nmunmap 0x16000 4K\nname 0x14000 4K\n\
             w 0x14000\nmmap 0x400000 8K rx file:/bin/x+0\nname 0x400000 8K other\n",
        );
        let of = |name: &str| s.mappings.iter().find(|m| m.name == name).map(|m| (m.mapped_bytes, m.data_pages));
        assert_eq!(of("anon"), Some((65536, 1)));
        assert_eq!(of("anon: table_new (t.c:4)"), Some((16384, 2)));
        assert_eq!((of("[heap]"), of("/bin/x")), (Some((0x4000, 1)), Some((8192, 0))), "they keep their names");
        assert!(s.mappings.iter().all(|m| !m.name.contains("other")));
    }

    #[test]
    fn damage_is_told_with_what_came_before() {
        let s = summary("r 0x1000\nwhat\n");
        assert!(!s.complete);
        assert_eq!((s.references, s.problem.as_deref()), (1, Some("line 2, column 1: 'what' is not an event")));
    }
}
