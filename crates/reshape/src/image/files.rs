//! The ELF files of a trace. Files that cannot be laid out anew are reported with the reason.

use super::{
    desc::ImageDesc,
    file::{Relinked, Unfit},
};
use mmulab_addr::PageOrder;
use mmulab_trace::{Event, ImageSegment};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// The ELF files of a trace, and what became of them.
#[derive(Debug)]
pub struct Files {
    desc: ImageDesc,
    known: BTreeMap<Arc<str>, Result<Arc<Relinked>, Unfit>>,
    /// Files that were mapped to be run, with how often, or why they stay as they were.
    met: BTreeMap<Arc<str>, Met>,
    /// Whether the report is another than the last one.
    pub changed: bool,
}

#[derive(Clone, Debug)]
enum Met {
    Loaded(Arc<Relinked>, u64),
    Left(Unfit),
}

impl Files {
    pub fn new(desc: ImageDesc) -> Self {
        Self { desc, known: BTreeMap::new(), met: BTreeMap::new(), changed: true }
    }

    pub fn max_page_size(&self) -> u64 {
        self.desc.max_page_size()
    }

    /// The program headers of the file at `path` are told; what is told instead.
    pub fn learn(&mut self, path: &Arc<str>, segments: Vec<ImageSegment>) -> Event {
        let file = Relinked::new(path, &segments, self.desc.linker, self.max_page_size()).map(Arc::new);
        let told = match &file {
            Ok(file) => file.told(),
            Err(_) => Event::Image { path: Arc::clone(path), segments },
        };
        self.known.insert(Arc::clone(path), file);
        told
    }

    /// Whether no file's program headers were told yet.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub fn get(&self, path: &str) -> Result<&Arc<Relinked>, Unfit> {
        self.known.get(path).map_or(Err(Unfit::NoHeaders), |file| file.as_ref().map_err(|&unfit| unfit))
    }

    pub fn loaded(&mut self, file: &Arc<Relinked>) {
        self.changed = true;
        match self.met.get_mut(&file.path) {
            // A file that was built anew while the recording ran counts as itself.
            Some(Met::Loaded(_, times)) => *times += 1,
            _ => drop(self.met.insert(Arc::clone(&file.path), Met::Loaded(Arc::clone(file), 1))),
        }
    }

    pub fn left(&mut self, path: &Arc<str>, why: Unfit) {
        self.changed = true;
        self.met.entry(Arc::clone(path)).or_insert(Met::Left(why));
    }

    /// What was done, for results.
    pub fn report(&mut self, beside: u64) -> Value {
        self.changed = false;
        let (mut files, mut left) = (Vec::new(), Vec::new());
        for (path, met) in &self.met {
            match met {
                Met::Loaded(file, times) => files.push(json!({
                    "path": path,
                    "loads": times,
                    "unchanged": file.same,
                    "segments": file.pieces.iter().map(|p| json!({
                        "rights": p.new.rights(),
                        "was": { "address": p.old.address, "offset": p.old.offset },
                        "is": { "address": p.new.address, "offset": p.new.offset },
                    })).collect::<Vec<_>>(),
                })),
                Met::Left(why) => left.push(json!({ "path": path, "why": why.to_string() })),
            }
        }
        json!({
            "linker": self.desc.linker,
            "max_page_size": PageOrder::of_bytes(self.max_page_size()),
            "window": format!("{:#x}", self.desc.window().start),
            "files": files,
            "left": left,
            "references_beside_segments": beside,
        })
    }
}
