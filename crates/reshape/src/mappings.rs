//! Which mapping of its program an event makes, named as reports and hint files name mappings.
//!
//! The kernel finds its regions in the same way (`crates/kernel/src/report/regions.rs`): a mapping that touches an
//! earlier one of the same identity continues it. Regions that the kernel folds, after thousands of unmapped ones, may
//! be numbered otherwise there.

use mmulab_addr::{BASE_BYTES, Pid, Prot, VirtAddr};
use mmulab_interleave::NUMBERS;
use mmulab_leshy::Mapping;
use mmulab_trace::{Backing, Event, MapFlags};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// What makes two mappings one, if they touch: their program, name and rights; for files also where offset 0 lies.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    member: u32,
    program: Arc<str>,
    name: Arc<str>,
    is_file: bool,
    prot: u8,
    origin: u64,
}

struct Known {
    start: u64,
    end: u64,
    first: VirtAddr,
    nth: u64,
}

/// A mapping that an event makes or continues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Made {
    pub pid: Pid,
    pub mapping: Mapping,
    /// The address at which it was first mapped.
    pub first: VirtAddr,
}

/// The mappings of a trace so far.
pub(crate) struct Mappings {
    acting: Pid,
    programs: HashMap<Pid, Arc<str>>,
    known: BTreeMap<(Identity, u64), Known>,
    counts: HashMap<(Arc<str>, String, u8), u64>,
}

impl Mappings {
    /// Nothing is mapped; process 1 acts.
    pub fn new() -> Self {
        Self { acting: Pid(1), programs: HashMap::new(), known: BTreeMap::new(), counts: HashMap::new() }
    }

    /// The process that acts.
    pub fn acting(&self) -> Pid {
        self.acting
    }

    /// Takes an event in: the mapping that it makes.
    pub fn take(&mut self, event: &Event) -> Option<Made> {
        match event {
            Event::Switch { pid, .. } => self.acting = *pid,
            Event::Fork { child, .. } => {
                if let Some(program) = self.programs.get(&self.acting).cloned() {
                    self.programs.insert(*child, program);
                }
            }
            Event::Exec { path } => {
                self.programs.insert(self.acting, Arc::clone(path));
            }
            Event::Mmap { addr, len, prot, flags, backing } => {
                let (name, origin) = named(flags, backing, addr.raw());
                return Some(self.place(
                    name,
                    matches!(backing, Backing::File { .. }),
                    *prot,
                    origin,
                    addr.raw(),
                    *len,
                ));
            }
            Event::Brk { start, end } => {
                let first = start.raw().next_multiple_of(BASE_BYTES);
                if end.raw() > first {
                    return Some(self.place("[heap]".into(), false, Prot::RW, 0, first, end.raw() - first));
                }
            }
            Event::Mremap { old, new, new_len, .. } => self.moved(old.raw(), new.raw(), new.raw() + new_len),
            _ => {}
        }
        None
    }

    fn place(&mut self, name: Arc<str>, is_file: bool, prot: Prot, origin: u64, start: u64, len: u64) -> Made {
        let pid = self.acting;
        let program = self.programs.get(&pid).cloned().unwrap_or_default();
        let member = pid.0 / NUMBERS;
        let identity = Identity { member, program: Arc::clone(&program), name, is_file, prot: prot.bits(), origin };
        let start = start & !(BASE_BYTES - 1);
        let end = start.saturating_add(len).saturating_add(BASE_BYTES - 1) & !(BASE_BYTES - 1);
        let rights = rights(prot);
        let shown = if is_file { format!("{} {rights}", identity.name) } else { identity.name.to_string() };
        let made = |known: &Known| Made {
            pid,
            mapping: Mapping {
                program: program.to_string(),
                name: shown.clone(),
                prot: rights.clone(),
                nth: known.nth,
            },
            first: known.first,
        };
        let near = self.known.range_mut((identity.clone(), 0)..=(identity.clone(), end)).next_back();
        if let Some((key, known)) = near
            && known.end >= start
            && known.start <= end
        {
            known.end = known.end.max(end);
            let key = key.clone();
            if start < known.start {
                known.start = start;
                if let Some(known) = self.known.remove(&key) {
                    let found = made(&known);
                    self.known.insert((identity, start), known);
                    return found;
                }
            }
            return made(&self.known[&key]);
        }
        let next = self.counts.entry((program.clone(), shown.clone(), prot.bits())).or_default();
        let known = Known { start, end, first: VirtAddr::new(start), nth: *next };
        *next += 1;
        let found = made(&known);
        self.known.insert((identity, start), known);
        found
    }

    fn moved(&mut self, old: u64, start: u64, end: u64) {
        if let Some(known) = self.known.values_mut().find(|known| known.start <= old && old < known.end) {
            if start <= known.end && known.start <= end {
                (known.start, known.end) = (known.start.min(start), known.end.max(end));
            } else {
                (known.start, known.end) = (start, end);
            }
        }
    }
}

/// The name of a mapping, and the address that offset 0 of its file would lie at.
fn named(flags: &MapFlags, backing: &Backing, start: u64) -> (Arc<str>, u64) {
    match (backing, &flags.label) {
        (Backing::File { path, offset }, _) => (Arc::clone(path), start.wrapping_sub(*offset)),
        (Backing::Anon, Some(label)) => (Arc::clone(label), 0),
        (Backing::Anon, None) if flags.grows_down => ("[stack]".into(), 0),
        (Backing::Anon, None) if flags.shared => ("shared".into(), 0),
        (Backing::Anon, None) => ("anon".into(), 0),
    }
}

/// Rights as `/proc/PID/maps` writes them.
fn rights(prot: Prot) -> String {
    [(Prot::R, 'r'), (Prot::W, 'w'), (Prot::X, 'x')]
        .map(|(right, c)| if prot.has(right) { c } else { '-' })
        .iter()
        .collect()
}
