//! Program headers for recordings that lack them. Some recordings contain mappings of ELF files, but not the files'
//! segments. The headers are then read from the files again, and compared with the code that the recording maps.

use crate::rewrite::{Refused, Rewrite, Rewritten};
use mmulab_addr::{BASE_BYTES, Prot};
use mmulab_elf::ElfFile;
use mmulab_trace::{Backing, Batch, Event, Item, Source, TraceInfo};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// `source` with what the program headers of its ELF files say, as a recorder tells it, for recordings that lack it.
/// The files are read from where they were when it was recorded. A file whose code the recording maps otherwise than
/// its headers say ends the trace with an error. Files that are gone are in the warnings.
pub fn with_headers(source: Box<dyn Source>) -> Box<dyn Source> {
    Box::new(Rewritten::new(source, WithHeaders::default()))
}

/// Where the program headers of a mapped file come from.
enum Known {
    /// The recording tells its program headers.
    Told,
    /// They were read from the file, and told.
    Read(ElfFile),
    /// No ELF file is there. A warning says so when code of it is mapped, for most files are data.
    Missing,
    /// The same, and the warning was given.
    Warned,
}

#[derive(Default)]
struct WithHeaders {
    /// By path.
    files: BTreeMap<Arc<str>, Known>,
    /// The batch as the source filled it, kept for its allocation.
    read: Batch,
    warnings: Vec<String>,
    /// Warnings that were entered.
    entered: usize,
}

impl WithHeaders {
    /// What is to be told before `event`.
    fn before(&mut self, event: &Event) -> Result<Option<Event>, String> {
        if let Event::Image { path, .. } = event {
            self.files.insert(Arc::clone(path), Known::Told);
        }
        let Event::Mmap { len, prot, flags, backing: Backing::File { path, offset }, .. } = event else {
            return Ok(None);
        };
        if flags.shared {
            return Ok(None);
        }
        let mut told = None;
        let known = self.files.entry(Arc::clone(path)).or_insert_with(|| {
            let file = mmulab_elf::read(Path::new(&**path)).ok().filter(|file| !file.segments.is_empty());
            told = file.as_ref().map(|file| file.told(path));
            file.map_or(Known::Missing, Known::Read)
        });
        if !prot.has(Prot::X) {
            return Ok(told);
        }
        match known {
            Known::Missing => {
                *known = Known::Warned;
                self.warnings.push(format!("{path}: no ELF file is there now; its program headers stay unknown"));
            }
            Known::Read(file) if !maps_code(file, *offset, *len) => {
                return Err(format!(
                    "{path} is another file than was recorded: {len:#x} bytes of code from offset {offset:#x} on were \
                     mapped, and its program headers have no such segment"
                ));
            }
            Known::Read(_) | Known::Told | Known::Warned => {}
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

impl Rewrite for WithHeaders {
    fn rewrite(&mut self, batch: &mut Batch) -> Result<(), Refused> {
        if batch.events.is_empty() {
            return Ok(());
        }
        std::mem::swap(batch, &mut self.read);
        batch.clear();
        batch.code = std::mem::take(&mut self.read.code);
        let mut events = std::mem::take(&mut self.read.events).into_iter();
        let mut words = std::mem::take(&mut self.read.refs);
        let mut done = Ok(());
        for &word in &words {
            match word.item() {
                Item::Event(_) => {
                    let Some(event) = events.next() else { break };
                    match self.before(&event) {
                        Ok(before) => before.into_iter().for_each(|event| batch.push_event(event)),
                        Err(why) => {
                            done = Err(Refused::from(why));
                            break;
                        }
                    }
                    batch.push_event(event);
                }
                _ => batch.refs.push(word),
            }
        }
        words.clear();
        self.read.refs = words;
        done
    }

    fn enter(&mut self, info: &mut TraceInfo) {
        info.warnings.extend_from_slice(&self.warnings);
        self.entered = self.warnings.len();
    }

    fn has_news(&self) -> bool {
        self.entered < self.warnings.len()
    }
}
