use crate::retold::{Retold, Teller};
use mmulab_addr::{BASE_BYTES, Prot};
use mmulab_elf::ElfFile;
use mmulab_trace::{Backing, Batch, Event, Item, Source, TraceError, TraceErrorKind, TraceInfo};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// `source` with what the program headers of its ELF files say, as a recorder tells it, for recordings that lack it. The
/// files are read from where they were when it was recorded; one whose code the recording maps otherwise than its headers
/// say ends the trace with an error. Files that are gone are in the warnings.
pub fn with_headers(source: Box<dyn Source>) -> Box<dyn Source> {
    let info = source.info().clone();
    Box::new(Retold::new(WithHeaders { source, info, files: BTreeMap::new(), said: Batch::default() }))
}

struct WithHeaders {
    source: Box<dyn Source>,
    info: TraceInfo,
    /// By path; none for those whose headers the recording tells, or that are no ELF files.
    files: BTreeMap<Arc<str>, Option<ElfFile>>,
    said: Batch,
}

impl WithHeaders {
    /// What is to be told before `event`.
    fn before(&mut self, event: &Event) -> Result<Option<Event>, String> {
        if let Event::Image { path, .. } = event {
            self.files.insert(Arc::clone(path), None);
        }
        let Event::Mmap { len, prot, flags, backing: Backing::File { path, offset }, .. } = event else {
            return Ok(None);
        };
        if flags.shared {
            return Ok(None);
        }
        let mut told = None;
        if !self.files.contains_key(path) {
            let file = mmulab_elf::read(Path::new(&**path)).ok().filter(|file| !file.segments.is_empty());
            told = file.as_ref().map(|file| file.told(path));
            if file.is_none() && prot.has(Prot::X) {
                self.info.warnings.push(format!("{path}: no ELF file is there now; its program headers stay unknown"));
            }
            self.files.insert(Arc::clone(path), file);
        }
        if let Some(Some(file)) = self.files.get(path)
            && prot.has(Prot::X)
            && !maps_code(file, *offset, *len)
        {
            return Err(format!(
                "{path} is another file than was recorded: {len:#x} bytes of code from offset {offset:#x} on were mapped, \
                 and its program headers have no such segment"
            ));
        }
        Ok(told)
    }
}

/// Whether a loader maps `len` bytes from `offset` on as code of `file`.
fn maps_code(file: &ElfFile, offset: u64, len: u64) -> bool {
    let first = file.segments.first().map(|s| s.offset);
    file.segments.iter().filter(|s| s.flags & 1 != 0).any(|s| {
        let start = s.offset - s.offset % BASE_BYTES;
        let pages = |bytes: u64| bytes.div_ceil(BASE_BYTES);
        // The first segment is mapped over the whole file's place.
        start == offset
            && (pages(len) == pages(s.offset - start + s.file_bytes) || first == Some(s.offset) && len >= s.file_bytes)
    })
}

impl Teller for WithHeaders {
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
        if batch.events.is_empty() {
            return Ok(());
        }
        std::mem::swap(batch, &mut self.said);
        batch.clear();
        batch.code = std::mem::take(&mut self.said.code);
        let mut events = std::mem::take(&mut self.said.events).into_iter();
        let mut words = std::mem::take(&mut self.said.refs);
        let mut told = Ok(());
        for &word in &words {
            match word.item() {
                Item::Event(_) => {
                    let Some(event) = events.next() else { break };
                    match self.before(&event) {
                        Ok(before) => before.into_iter().for_each(|event| batch.push_event(event)),
                        Err(what) => {
                            told = Err(TraceError::new(&self.info.name, "", TraceErrorKind::Request(what)));
                            break;
                        }
                    }
                    batch.push_event(event);
                }
                _ => batch.refs.push(word),
            }
        }
        words.clear();
        self.said.refs = words;
        told
    }
}
