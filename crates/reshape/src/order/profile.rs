//! What a recording's code calls: instructions by function, and calls by caller and callee. A call is seen as it is
//! executed. A block at the first byte of a function runs, and the thread's block before it was another function's. (So
//! a jump at the end of a function counts as a call; a call of itself does not.)

use super::{
    c3::{Call, Node},
    code::{CodeMaps, Place},
    units::Units,
};
use mmulab_addr::Tid;
use mmulab_elf::{CodeSection, code_sections, read};
use mmulab_trace::{Batch, Event, ImageSegment, Item};
use rustc_hash::FxHashMap;
use std::{collections::HashMap, path::Path, sync::Arc};

/// Where the functions of a file are taken from.
#[derive(Clone, Debug, Default)]
pub struct Tables(pub HashMap<Arc<str>, Vec<CodeSection>>);

impl Tables {
    /// The functions of a file: those given, else those of the file itself, if it has the segments that were recorded.
    fn of(&self, path: &Arc<str>, recorded: Option<&Vec<ImageSegment>>) -> Result<Units, String> {
        if let Some(sections) = self.0.get(path) {
            return Ok(Units::of(sections));
        }
        let path = Path::new(&**path);
        let found = read(path).map_err(|error| error.to_string())?;
        let segments: Vec<ImageSegment> = found.segments.iter().map(ImageSegment::from).collect();
        if recorded.is_some_and(|recorded| *recorded != segments) {
            return Err("the file that is there has other segments than the one that was recorded".into());
        }
        code_sections(path).map(|sections| Units::of(&sections)).map_err(|error| error.to_string())
    }
}

/// What was counted in a file.
#[derive(Clone, Debug)]
pub struct FileProfile {
    /// Its path.
    pub path: Arc<str>,
    /// Its functions.
    pub units: Units,
    /// What each executed.
    pub nodes: Vec<Node>,
    /// Calls between its functions, in order.
    pub calls: Vec<Call>,
    /// Instructions executed in it that belong to none of its functions.
    pub elsewhere: u64,
    /// Why its functions are not known, if so.
    pub unknown: Option<String>,
}

/// The function that runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Running {
    file: usize,
    unit: usize,
    /// Its addresses.
    start: u64,
    end: u64,
}

/// Counts of a recording.
pub struct Profile {
    tables: Tables,
    maps: CodeMaps,
    /// What the recording has of files' program headers.
    images: HashMap<Arc<str>, Vec<ImageSegment>>,
    files: Vec<FileProfile>,
    calls: FxHashMap<(usize, usize, usize), u64>,
    tid: Tid,
    now: Option<Running>,
    /// The file of the last fetch, outside of functions.
    outside: Option<usize>,
    /// What the other threads run.
    others: HashMap<Tid, Option<Running>>,
    /// Instructions so far.
    pub instructions: u64,
}

impl Profile {
    /// Nothing is counted yet.
    pub fn new(tables: Tables) -> Self {
        Self {
            tables,
            maps: CodeMaps::all(),
            images: HashMap::new(),
            files: Vec::new(),
            calls: FxHashMap::default(),
            tid: Tid(1),
            now: None,
            outside: None,
            others: HashMap::new(),
            instructions: 0,
        }
    }

    /// Takes in a part of the recording, up to `most` instructions in all. False if these are reached.
    pub fn take(&mut self, batch: &Batch, most: u64) -> bool {
        for word in &batch.refs {
            if word.is_fetch() {
                if self.instructions >= most {
                    return false;
                }
                let va = word.va().raw();
                match self.now {
                    Some(now) if va > now.start && va < now.end => {}
                    _ => self.fetched(va),
                }
                self.retire(u64::from(word.instructions()));
            } else if word.is_control() {
                match word.item() {
                    Item::Retire(count) => self.retire(count),
                    Item::Event(index) => self.event(&batch.events[index]),
                    Item::Code(_) | Item::Access(..) => {}
                }
            }
        }
        true
    }

    fn retire(&mut self, count: u64) {
        self.instructions = self.instructions.saturating_add(count);
        match (self.now, self.outside) {
            (Some(now), _) => self.files[now.file].nodes[now.unit].weight += count,
            (None, Some(file)) => self.files[file].elsewhere += count,
            (None, None) => {}
        }
    }

    /// A block runs that is the first of its function, or of another function than the last.
    fn fetched(&mut self, va: u64) {
        let before = self.now.take();
        self.outside = None;
        let Some(Place { file, offset }) = self.maps.find(va) else { return };
        self.learn();
        let found = &mut self.files[file];
        let Some(unit) = found.units.at(offset) else {
            self.outside = Some(file);
            return;
        };
        let range = &found.units.0[unit].range;
        let (mapped, first) = self.maps.around();
        let start = va.wrapping_sub(offset - range.start);
        let end = start.wrapping_add(range.end - range.start);
        // As far as it is mapped in one piece.
        let start = if range.start < first { mapped.start } else { start };
        self.now = Some(Running { file, unit, start, end: end.min(mapped.end) });
        if offset != range.start || before.is_some_and(|before| (before.file, before.unit) == (file, unit)) {
            return;
        }
        found.nodes[unit].entered += 1;
        if let Some(before) = before.filter(|before| before.file == file) {
            *self.calls.entry((file, before.unit, unit)).or_default() += 1;
        }
    }

    /// Reads the functions of files that were mapped meanwhile.
    fn learn(&mut self) {
        for path in &self.maps.files()[self.files.len()..] {
            let (units, unknown) = match self.tables.of(path, self.images.get(path)) {
                Ok(units) => (units, None),
                Err(why) => (Units::default(), Some(why)),
            };
            let nodes = units.0.iter().map(|unit| Node { bytes: unit.range.end - unit.range.start, ..Node::default() });
            let nodes = nodes.collect();
            let path = Arc::clone(path);
            self.files.push(FileProfile { path, units, nodes, calls: Vec::new(), elsewhere: 0, unknown });
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Switch { tid, .. } if *tid != self.tid => {
                let next = self.others.remove(tid).flatten();
                let before = std::mem::replace(&mut self.now, next);
                self.others.insert(std::mem::replace(&mut self.tid, *tid), before);
                self.outside = None;
            }
            Event::Image { path, segments } => drop(self.images.insert(Arc::clone(path), segments.clone())),
            Event::Exec { .. } => (self.now, self.outside) = (None, None),
            // Its addresses may show something else now.
            _ => self.now = self.now.map(|now| Running { end: now.start, ..now }),
        }
        self.maps.event(event);
    }

    /// What was counted, file by file.
    pub fn finish(mut self) -> Vec<FileProfile> {
        let mut calls: Vec<_> = self.calls.into_iter().collect();
        calls.sort_unstable();
        for ((file, from, to), count) in calls {
            self.files[file].calls.push(Call { from, to, count });
        }
        self.files
    }
}
