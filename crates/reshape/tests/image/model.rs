//! What tests of relinking stand on: traces made of words, files, and a memory that knows of every page what is there.

use mmulab_addr::{BASE_BYTES, PageOrder, Prot, VirtAddr};
use mmulab_elf::{Linker, Segment};
use mmulab_reshape::{ImageDesc, ReshapeDesc, reshape};
use mmulab_trace::{Backing, Batch, Event, ImageSegment, Item, MapFlags, Ref, Source, TraceError, TraceInfo};
use std::{collections::BTreeMap, sync::Arc};

/// A trace made of words.
pub struct Given {
    pub info: TraceInfo,
    pub batches: std::vec::IntoIter<Batch>,
}

impl Given {
    pub fn new(words: &[Word], at_once: usize) -> Self {
        let batch = |words: &[Word]| {
            let mut batch = Batch::default();
            for word in words {
                match word {
                    Word::Ref(word) => batch.refs.push(*word),
                    Word::Event(event) => batch.push_event(event.clone()),
                }
            }
            batch
        };
        let batches: Vec<Batch> = words.chunks(at_once).map(batch).collect();
        let info = TraceInfo { has_address_space: true, name: "given".into(), ..TraceInfo::default() };
        Self { info, batches: batches.into_iter() }
    }
}

impl Source for Given {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        *batch = self.batches.next().unwrap_or_default();
        Ok(!batch.refs.is_empty())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    Ref(Ref),
    Event(Event),
}

pub fn words(source: &mut dyn Source) -> Result<Vec<Word>, TraceError> {
    let (mut out, mut batch) = (Vec::new(), Batch::default());
    loop {
        let more = source.next_batch(&mut batch);
        out.extend(batch.refs.iter().map(|word| match word.item() {
            Item::Event(index) => Word::Event(batch.events[index].clone()),
            _ => Word::Ref(*word),
        }));
        if !more? {
            return Ok(out);
        }
    }
}

/// Files laid out as `image` says, and nothing else.
pub fn only(image: ImageDesc) -> ReshapeDesc {
    let mut desc = ReshapeDesc::default();
    desc.image.replace(image);
    desc
}

pub fn linked_anew(words_in: &[Word], linker: Linker, order: u8, at_once: usize) -> Result<Vec<Word>, String> {
    let image = ImageDesc { linker, max_page_size: Some(PageOrder::new(order)), window: None };
    let mut source = reshape(&only(image), Box::new(Given::new(words_in, at_once))).map_err(|e| e.to_string())?;
    words(source.as_mut()).map_err(|e| e.to_string())
}

/// What is mapped, page by page.
#[derive(Clone, Default)]
pub struct Memory(pub BTreeMap<u64, (Prot, Backing)>);

impl Memory {
    fn pages(addr: VirtAddr, len: u64) -> std::ops::Range<u64> {
        addr.raw() / BASE_BYTES..(addr.raw() + len).div_ceil(BASE_BYTES)
    }

    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Mmap { addr, len, prot, backing, .. } => {
                for (index, page) in Self::pages(*addr, *len).enumerate() {
                    let backing = match backing {
                        Backing::Anon => Backing::Anon,
                        Backing::File { path, offset } => {
                            Backing::File { path: path.clone(), offset: offset + index as u64 * BASE_BYTES }
                        }
                    };
                    self.0.insert(page, (*prot, backing));
                }
            }
            Event::Munmap { addr, len } => Self::pages(*addr, *len).for_each(|page| drop(self.0.remove(&page))),
            Event::Mprotect { addr, len, prot } => {
                for page in Self::pages(*addr, *len) {
                    self.0.entry(page).and_modify(|(old, _)| *old = *prot);
                }
            }
            _ => {}
        }
    }

    pub fn at(&self, va: VirtAddr) -> Option<&(Prot, Backing)> {
        self.0.get(&(va.raw() / BASE_BYTES))
    }
}

/// A file as it was linked, and where it was loaded.
#[derive(Clone, Debug)]
pub struct File {
    pub path: Arc<str>,
    pub segments: Vec<Segment>,
    pub bias: u64,
}

impl File {
    pub fn told(&self) -> Event {
        let segments = self.segments.iter().map(ImageSegment::from).collect();
        Event::Image { path: self.path.clone(), segments }
    }

    pub fn map(&self, addr: u64, end: u64, prot: Prot, offset: Option<u64>) -> Event {
        let backing = match offset {
            Some(offset) => Backing::File { path: self.path.clone(), offset },
            None => Backing::Anon,
        };
        let flags = MapFlags::default();
        Event::Mmap { addr: VirtAddr::new(addr), len: end - addr, prot, flags, backing }
    }

    /// As the system loads it; as ld.so does with `over`: the whole place first, the other segments over it.
    pub fn load(&self, over: bool) -> Vec<Event> {
        let mut events = vec![self.told()];
        let end_of = |s: &Segment| up(self.bias + s.address + s.bytes);
        for (index, s) in self.segments.iter().enumerate() {
            let address = self.bias + s.address;
            let prot = ImageSegment::from(s).prot;
            let (start, file_end) = (down(address), up(address + s.file_bytes));
            if s.file_bytes > 0 || index == 0 {
                let end = if over && index == 0 { end_of(self.segments.last().unwrap()) } else { file_end };
                events.push(self.map(start, end, prot, Some(down(s.offset))));
            }
            let from = if s.file_bytes > 0 { file_end } else { start };
            if end_of(s) > from {
                events.push(self.map(from, end_of(s), prot, None));
            }
        }
        if over {
            // ld.so takes all rights from what lies between.
            for pair in self.segments.windows(2) {
                let (from, to) = (end_of(&pair[0]), down(self.bias + pair[1].address));
                if from < to {
                    events.push(Event::Mprotect { addr: VirtAddr::new(from), len: to - from, prot: Prot::NONE });
                }
            }
        }
        events
    }

    pub fn end(&self) -> u64 {
        self.segments.last().map_or(0, |s| up(self.bias + s.address + s.bytes))
    }

    /// Which byte of which segment is at `va`; programs use what is left of the page in which the last one ends.
    pub fn byte(&self, va: VirtAddr) -> Option<(usize, u64)> {
        let last = self.segments.len() - 1;
        self.segments.iter().enumerate().find_map(|(index, s)| {
            let start = self.bias + s.address;
            let end = if index == last { self.end() } else { start + s.bytes };
            (start..end).contains(&va.raw()).then(|| (index, va.raw() - start))
        })
    }
}

pub fn down(address: u64) -> u64 {
    address & !(BASE_BYTES - 1)
}

pub fn up(address: u64) -> u64 {
    address.next_multiple_of(BASE_BYTES)
}
