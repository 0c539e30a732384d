//! One program image's way into the trace, and what stands for the part of it that `--skip` leaves out.

use crate::{
    message::Image,
    words::{self, BLOCK, KIND, NOTE, PAYLOAD_SHIFT},
};
use mmulab_addr::{Access, BASE_BYTES, PageOrder, Pfn, Pid, Tid, VirtAddr};
use mmulab_trace::{ChunkHeader, Encoder, Event, MAX_OPS, Residency, Variant, VariantId};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

/// zstd's level while recording: the program waits for it.
const LEVEL: i32 = 1;
/// No variant.
const NONE: u32 = u32::MAX;

/// A block of code as the plugin defined it.
#[derive(Clone, Copy)]
struct Block {
    start: u64,
    bytes: u32,
    instructions: u32,
    /// Where its code begins in `Recorded::code`; `NONE` if it is not known.
    code: u32,
    /// The variant executed last, first to be tried: positions in `Recorded::variants`, linked.
    latest: u32,
    first: u32,
}

/// A block's accesses in one of its executions.
struct Known {
    id: VariantId,
    /// Its shapes are here in `Recorded::shapes`.
    from: u32,
    count: u32,
    /// Whether each access is one word, without a note before it.
    near: bool,
    next: u32,
}

/// How much is still to be left out, and to be recorded, in instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub skip: u64,
    pub left: u64,
    /// Of the interval that is recorded.
    pub interval: u64,
    /// Left out so far.
    pub left_out: u64,
}

impl Limits {
    /// `left` after `skip`, in one piece.
    pub fn whole(skip: u64, left: u64) -> Self {
        Self { skip, left, interval: u64::MAX, left_out: 0 }
    }
}

/// How far words were taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken<'a> {
    All,
    /// Enough was recorded.
    Enough,
    /// The interval is over: these are left.
    Until(&'a [u64]),
}

/// Notes the pages that an access of `bytes` at `address` uses.
#[inline(always)]
fn touch(left_out: &mut Residency, address: u64, bytes: u64, access: Access) {
    left_out.touch(VirtAddr::new(address), access);
    let inside = address & (BASE_BYTES - 1);
    if inside + bytes > BASE_BYTES {
        (1..=(inside + bytes - 1) / BASE_BYTES)
            .for_each(|page| left_out.touch(VirtAddr::new(address - inside + page * BASE_BYTES), access));
    }
}

/// The event of a pair of words about the frame of a page.
fn frames_event(word: u64, address: u64) -> Option<Event> {
    let (pfn, order) = words::framed(word)?;
    Some(Event::Frames {
        addr: VirtAddr::new(words::address(address)),
        pfn: Pfn(pfn),
        size: PageOrder::new(order.min(PageOrder::MAX.get())),
        count: 1,
    })
}

/// One program image's way into the trace.
pub(crate) struct Recorded {
    pub image: Image,
    pub host_pid: u32,
    /// The program that it runs outside the emulator, if it does.
    pub escaped: Option<String>,
    /// The program that QEMU is to run in it, until that has begun.
    pub starting: Option<String>,
    /// The slot of its blocks' definitions.
    pub blocks_slot: Option<u32>,
    encoder: Encoder,
    /// The pages that it uses, while references are left out.
    left_out: Option<Box<Residency>>,
    blocks: Vec<Block>,
    code: Vec<u8>,
    variants: Vec<Known>,
    shapes: Vec<u32>,
    /// First of the variants without a block.
    alone: u32,
    tids: BTreeSet<u32>,
    /// Of a whole system: which process and thread each of its CPUs runs.
    running: BTreeMap<u32, (u32, u32)>,
    /// For accesses that do not fit what is known: their shapes and addresses.
    odd_shapes: Vec<u32>,
    odd_addresses: Vec<u64>,
}

impl Recorded {
    /// A new image, of the program that process `image.pid` runs. `skips`: its first references are left out.
    pub fn new(image: Image, skips: bool) -> io::Result<Self> {
        let encoder = Encoder::new(image.number, Pid(image.pid), Tid(image.tid), LEVEL)?;
        Ok(Self {
            left_out: skips.then(|| Box::new(Residency::of(Pid(image.pid), Tid(image.tid)))),
            tids: BTreeSet::from([image.tid]),
            running: BTreeMap::new(),
            image,
            host_pid: 0,
            escaped: None,
            starting: None,
            blocks_slot: None,
            encoder,
            blocks: Vec::new(),
            code: Vec::new(),
            variants: Vec::new(),
            shapes: Vec::new(),
            alone: NONE,
            odd_shapes: Vec::new(),
            odd_addresses: Vec::new(),
        })
    }

    /// The copy that a fork makes of this one.
    pub fn copy(&self, image: Image) -> io::Result<Self> {
        let mut copy = Self::new(image, self.left_out.is_some())?;
        copy.blocks = self.blocks.iter().map(|b| Block { latest: NONE, first: NONE, ..*b }).collect();
        copy.code.clone_from(&self.code);
        Ok(copy)
    }

    /// Takes definitions of blocks.
    pub fn define(&mut self, mut words: &[u64]) {
        while let Some(defined) = words::take_definition(&mut words) {
            let words::Definition { start, bytes, instructions, code } = defined;
            let at = if code.is_empty() { NONE } else { u32::try_from(self.code.len()).unwrap_or(NONE) };
            if at != NONE {
                self.code.extend_from_slice(&code);
            }
            self.blocks.push(Block { start, bytes, instructions, code: at, latest: NONE, first: NONE });
        }
    }

    /// The code of a block; empty if it is not known.
    fn code_of(&self, block: Block) -> Vec<u8> {
        let at = block.code as usize;
        self.code.get(at..at + block.bytes as usize).map(<[u8]>::to_vec).unwrap_or_default()
    }

    /// The CPU `cpu` of a system runs this thread from here on.
    pub fn runs(&mut self, cpu: u32, pid: u32, tid: u32) {
        if self.running.is_empty() {
            self.tids.clear();
        }
        self.running.insert(cpu, (pid, tid));
        self.tids.insert(tid);
    }

    /// Whether it is a whole system, for which messages state who runs.
    pub fn is_system(&self) -> bool {
        !self.running.is_empty()
    }

    fn act(&mut self, tid: u32) {
        if let Some(&(pid, tid)) = self.running.get(&tid) {
            let (pid, tid) = (Pid(pid), Tid(tid));
            if self.encoder.acting() != (pid, tid) {
                self.encoder.event(&Event::Switch { pid, tid });
            }
            return;
        }
        if self.encoder.acting().1.0 == tid {
            return;
        }
        if self.tids.insert(tid) {
            self.encoder.event(&Event::Clone { child: Tid(tid) });
        }
        self.encoder.event(&Event::Switch { pid: Pid(self.image.pid), tid: Tid(tid) });
    }

    /// Who acts where thread `tid`, or a system's CPU of that number, does.
    fn actor(&self, tid: u32) -> (Pid, Tid) {
        let (pid, tid) = self.running.get(&tid).copied().unwrap_or((self.image.pid, tid));
        (Pid(pid), Tid(tid))
    }

    /// An event of the thread's address space. It is written even where references are left out; the references that
    /// stand for those come first. `taken` gets chunks that became full.
    pub fn event(
        &mut self,
        tid: u32,
        event: &Event,
        taken: &mut impl FnMut(&mut Encoder) -> io::Result<()>,
    ) -> io::Result<()> {
        self.act(tid);
        let actor = self.actor(tid);
        if let Some(left_out) = &mut self.left_out {
            let mut uses = Vec::new();
            left_out.act(actor.0, actor.1);
            left_out.event(event, |va, access| uses.push((va, access)));
            uses.into_iter().try_for_each(|(va, access)| self.use_page(va, access, taken))?;
        }
        self.encoder.event(event);
        self.close_if_full(taken)
    }

    /// A reference that stands for uses of a page that were left out.
    fn use_page(
        &mut self,
        va: VirtAddr,
        access: Access,
        taken: &mut impl FnMut(&mut Encoder) -> io::Result<()>,
    ) -> io::Result<()> {
        if access == Access::Fetch {
            let id = self.define_variant(&Variant { start: Some(va), ..Variant::default() }, taken)?;
            self.encoder.execute(id, std::iter::empty());
        } else {
            self.odd_shapes.clear();
            self.odd_shapes.push(words::plain_shape(access == Access::Write));
            let position = self.variant(None, true, taken)?;
            let id = self.variants[position as usize].id;
            self.encoder.execute(id, std::iter::once(va.raw()));
        }
        self.close_if_full(taken)
    }

    /// Writes the references that stand for those left out so far.
    fn tell(&mut self, taken: &mut impl FnMut(&mut Encoder) -> io::Result<()>) -> io::Result<()> {
        let mut uses = Vec::new();
        self.left_out.iter_mut().for_each(|it| it.tell_all(|actor, va, access| uses.push((actor, va, access))));
        uses.into_iter().try_for_each(|((pid, tid), va, access)| {
            if !self.is_system() {
                self.act(tid.0);
            } else if self.encoder.acting() != (pid, tid) {
                self.encoder.event(&Event::Switch { pid, tid });
            }
            self.use_page(va, access, taken)
        })
    }

    /// References are left out no longer: what stands for those that were.
    pub fn tell_left_out(&mut self, taken: &mut impl FnMut(&mut Encoder) -> io::Result<()>) -> io::Result<()> {
        self.tell(taken)?;
        self.left_out = None;
        Ok(())
    }

    /// All that was left out is written: recording begins here, or goes on, as `event` says.
    pub fn resume(&mut self, tid: u32, event: &Event) {
        self.act(tid);
        self.encoder.event(event);
    }

    /// References are left out from here on.
    pub fn pause(&mut self) {
        self.left_out = Some(Box::new(Residency::of(Pid(self.image.pid), Tid(self.image.tid))));
    }

    /// Leaves words of the thread `tid` out, up to the first block after the limit; what is not left out.
    pub fn leave_out<'a>(
        &mut self,
        tid: u32,
        words: &'a [u64],
        limits: &mut Limits,
        taken: &mut impl FnMut(&mut Encoder) -> io::Result<()>,
    ) -> io::Result<&'a [u64]> {
        let (pid, thread) = self.actor(tid);
        let Some(left_out) = &mut self.left_out else { return Ok(words) };
        left_out.act(pid, thread);
        let mut framed = Vec::new();
        let (mut at, mut note) = (0, None);
        while let Some(&word) = words.get(at) {
            if word & KIND == BLOCK {
                if limits.skip == 0 {
                    break;
                }
                let block = self.blocks.get((word >> PAYLOAD_SHIFT) as usize);
                let instructions = block.map_or(1, |b| u64::from(b.instructions));
                limits.skip = limits.skip.saturating_sub(instructions);
                limits.left_out += instructions;
                if let Some(block) = block {
                    touch(left_out, block.start, u64::from(block.bytes), Access::Fetch);
                }
            } else if words::framed(word).is_some() {
                // Where pages lie is told once, so it is told even of pages whose first references are left out.
                framed.extend(words.get(at + 1).and_then(|&address| frames_event(word, address)));
                at += 1;
            } else if note.is_none() && word & KIND == NOTE {
                note = Some(word);
            } else {
                let op = words::op(words::shape(word, note.take()));
                let access = if op.store { Access::Write } else { Access::Read };
                touch(left_out, words::address(word), 1 << op.size_shift, access);
            }
            at += 1;
        }
        let is_full = left_out.is_full();
        framed.iter().try_for_each(|event| self.event(tid, event, taken))?;
        if is_full {
            self.tell(taken)?;
        }
        Ok(&words[at.min(words.len())..])
    }

    /// The same for many. `taken` gets chunks that became full: events alone fill them while references are left out.
    pub fn events(
        &mut self,
        tid: u32,
        events: &[Event],
        taken: &mut impl FnMut(&mut Encoder) -> io::Result<()>,
    ) -> io::Result<()> {
        events.iter().try_for_each(|event| self.event(tid, event, taken))
    }

    /// Takes words of the thread `tid`. `taken` gets chunks that became full.
    pub fn words<'a>(
        &mut self,
        tid: u32,
        words: &'a [u64],
        limits: &mut Limits,
        taken: &mut impl FnMut(&mut Encoder) -> io::Result<()>,
    ) -> io::Result<Taken<'a>> {
        if words.is_empty() {
            return Ok(Taken::All);
        }
        let mut rest = words;
        self.act(tid);
        while let Some((&word, after)) = rest.split_first() {
            let block = if word & KIND == BLOCK { (word >> PAYLOAD_SHIFT) as usize } else { usize::MAX };
            let accesses = if block == usize::MAX { rest } else { after };
            let Some(known) = self.blocks.get(block) else {
                rest = self.odd(None, accesses, taken)?;
                continue;
            };
            if limits.left == 0 {
                return Ok(Taken::Enough);
            }
            if limits.interval == 0 {
                return Ok(Taken::Until(rest));
            }
            limits.left = limits.left.saturating_sub(u64::from(known.instructions));
            limits.interval = limits.interval.saturating_sub(u64::from(known.instructions));
            if let Some(variant) = self.variants.get(known.latest as usize)
                && variant.near
            {
                let count = variant.count as usize;
                let shapes = &self.shapes[variant.from as usize..variant.from as usize + count];
                if accesses.len() >= count
                    && accesses.get(count).is_none_or(|w| w & KIND == BLOCK)
                    && accesses.iter().zip(shapes).all(|(&w, &s)| w as u32 & 0xff == s)
                {
                    self.encoder.execute(variant.id, accesses[..count].iter().map(|&w| words::address(w)));
                    rest = &accesses[count..];
                    continue;
                }
            }
            rest = self.odd(Some(block), accesses, taken)?;
        }
        self.close_if_full(taken)?;
        Ok(Taken::All)
    }

    fn close_if_full(&mut self, taken: &mut impl FnMut(&mut Encoder) -> io::Result<()>) -> io::Result<()> {
        if self.encoder.is_full() { taken(&mut self.encoder) } else { Ok(()) }
    }

    /// An execution that is not like the one before; returns the words after it.
    #[cold]
    fn odd<'a>(
        &mut self,
        block: Option<usize>,
        words: &'a [u64],
        taken: &mut impl FnMut(&mut Encoder) -> io::Result<()>,
    ) -> io::Result<&'a [u64]> {
        self.odd_shapes.clear();
        self.odd_addresses.clear();
        let (mut at, mut note, mut near) = (0, None, true);
        // What is told before the next block's first word belongs to that block.
        let mut later = Vec::new();
        while let Some(&word) = words.get(at).filter(|w| *w & KIND != BLOCK) {
            at += 1;
            if words::framed(word).is_some() {
                later.extend(words.get(at).and_then(|&address| frames_event(word, address)));
                at += 1;
                continue;
            }
            later.drain(..).for_each(|event| self.encoder.event(&event));
            if note.is_none() && word & KIND == NOTE {
                note = Some(word);
                continue;
            }
            near &= note.is_none();
            self.odd_shapes.push(words::shape(word, note.take()));
            self.odd_addresses.push(words::address(word));
            if self.odd_shapes.len() == MAX_OPS {
                break;
            }
        }
        // Words without a block that hold nothing cannot be: a note alone at the end.
        if block.is_some() || !self.odd_shapes.is_empty() {
            let position = self.variant(block, near, taken)?;
            let id = self.variants[position as usize].id;
            self.encoder.execute(id, self.odd_addresses.iter().copied());
        }
        later.iter().for_each(|event| self.encoder.event(event));
        Ok(&words[at.min(words.len())..])
    }

    /// The variant of `block` with the shapes gathered; defined if it is new.
    fn variant(
        &mut self,
        block: Option<usize>,
        near: bool,
        taken: &mut impl FnMut(&mut Encoder) -> io::Result<()>,
    ) -> io::Result<u32> {
        let mut at = block.map_or(self.alone, |b| self.blocks[b].first);
        while let Some(known) = self.variants.get(at as usize) {
            let shapes = &self.shapes[known.from as usize..][..known.count as usize];
            if shapes == self.odd_shapes {
                if let Some(b) = block {
                    self.blocks[b].latest = at;
                }
                return Ok(at);
            }
            at = known.next;
        }
        let described = block.map(|b| self.blocks[b]);
        let variant = Variant {
            start: described.map(|b| VirtAddr::new(b.start)),
            bytes: described.map_or(0, |b| b.bytes),
            instructions: described.map_or(0, |b| b.instructions),
            ops: self.odd_shapes.iter().map(|&s| words::op(s)).collect(),
            code: described.map(|b| self.code_of(b)).unwrap_or_default(),
        };
        let id = self.define_variant(&variant, taken)?;
        let position = self.variants.len() as u32;
        let first = match block {
            Some(b) => {
                self.blocks[b].latest = position;
                &mut self.blocks[b].first
            }
            None => &mut self.alone,
        };
        let next = std::mem::replace(first, position);
        let (from, count) = (self.shapes.len() as u32, self.odd_shapes.len() as u32);
        self.shapes.extend_from_slice(&self.odd_shapes);
        self.variants.push(Known { id, from, count, near, next });
        Ok(position)
    }

    fn define_variant(
        &mut self,
        variant: &Variant,
        taken: &mut impl FnMut(&mut Encoder) -> io::Result<()>,
    ) -> io::Result<VariantId> {
        if let Some(id) = self.encoder.define(variant) {
            return Ok(id);
        }
        taken(&mut self.encoder)?;
        self.encoder.start_fresh();
        self.forget_variants();
        self.encoder.define(variant).ok_or_else(|| io::Error::other("a dictionary cannot hold one block"))
    }

    fn forget_variants(&mut self) {
        self.variants.clear();
        self.shapes.clear();
        self.alone = NONE;
        for block in &mut self.blocks {
            (block.latest, block.first) = (NONE, NONE);
        }
    }

    /// Predictions that readers hold for it.
    pub fn states(&self) -> usize {
        self.encoder.states()
    }

    /// Has its dictionary, and with it those predictions, start anew. Only right after a chunk was taken.
    pub fn start_fresh(&mut self) {
        self.encoder.start_fresh();
        self.forget_variants();
    }

    /// Instructions in the chunk being filled.
    pub fn pending(&self) -> u64 {
        self.encoder.pending().0
    }

    /// Threads seen.
    pub fn threads(&self) -> &BTreeSet<u32> {
        &self.tids
    }

    /// The chunk being filled, unless it is empty.
    pub fn close(&mut self, into: &mut Vec<u8>) -> io::Result<Option<ChunkHeader>> {
        if self.encoder.is_empty() { Ok(None) } else { self.encoder.take_chunk(into).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_trace::{Description, EndInfo, Item, NativeReader, Source};

    fn all() -> Limits {
        Limits::whole(0, u64::MAX)
    }

    /// Contents of a trace of these words of thread 1, and then of thread 2.
    fn through(limits: &mut Limits, one: &[u64], two: &[u64]) -> (Vec<Item>, Vec<Event>) {
        let image = Image { number: 0, pid: 1, tid: 1 };
        let mut recorded = Recorded::new(image, limits.skip > 0).unwrap();
        recorded.define(&words::definition(0x1000, 4, &[7; 16]).collect::<Vec<_>>());
        recorded.define(&words::definition(0x2000, 2, &[9; 8]).collect::<Vec<_>>());
        let mut full = |_: &mut Encoder| -> io::Result<()> { Ok(()) };
        for (tid, mut words) in [(1, one), (2, two)] {
            if limits.skip > 0 {
                words = recorded.leave_out(tid, words, limits, &mut full).unwrap();
                if limits.skip > 0 {
                    continue;
                }
                recorded.tell_left_out(&mut full).unwrap();
                recorded.resume(tid, &Event::Resume);
            }
            recorded.words(tid, words, limits, &mut full).unwrap();
        }
        read_back(recorded)
    }

    /// Contents of the trace of an image that was recorded.
    fn read_back(mut recorded: Recorded) -> (Vec<Item>, Vec<Event>) {
        let mut bytes = Description::default().to_bytes();
        let at = bytes.len() as u64;
        let header = recorded.close(&mut bytes).unwrap().unwrap();
        let entries = [mmulab_trace::IndexEntry::new(at, &header)];
        let end = bytes.len() as u64;
        mmulab_trace::write_index(&mut bytes, end, &entries, &EndInfo::default()).unwrap();
        let mut reader = NativeReader::new(io::Cursor::new(bytes), "test".into()).unwrap();
        let (mut items, mut events, mut batch) = (Vec::new(), Vec::new(), mmulab_trace::Batch::default());
        while reader.next_batch(&mut batch).unwrap() {
            items.extend(batch.refs.iter().map(|r| r.item()).filter(|i| !matches!(i, Item::Event(_))));
            events.append(&mut batch.events);
        }
        (items, events)
    }

    /// CHANGELOG number 4: events are recorded while references are left out, and they alone fill chunks.
    #[test]
    fn events_without_references_are_split_into_chunks() {
        let count = 200_000u64;
        let event = |i: u64| Event::Malloc { addr: VirtAddr::new(0x5000_0000 + 64 * i), len: 48, align: 16 };
        let mut recorded = Recorded::new(Image { number: 0, pid: 1, tid: 1 }, true).unwrap();
        recorded.define(&words::definition(0x1000, 4, &[7; 16]).collect::<Vec<_>>());
        let mut bytes = Description::default().to_bytes();
        let mut entries = Vec::new();
        let mut full = |encoder: &mut Encoder| -> io::Result<()> {
            let at = bytes.len() as u64;
            let header = encoder.take_chunk(&mut bytes)?;
            entries.push(mmulab_trace::IndexEntry::new(at, &header));
            Ok(())
        };
        let mut limits = Limits::whole(u64::MAX, u64::MAX);
        let pair = words::frame(0x7000, 5, 0);
        for i in 0..count {
            // One way or the other: what a preloaded library reports, and where pages lie.
            match i % 2 {
                0 => recorded.events(1, &[event(i)], &mut full).unwrap(),
                _ => drop(recorded.leave_out(1, &[words::block(0), pair[0], pair[1]], &mut limits, &mut full).unwrap()),
            }
        }
        assert!(recorded.encoder.is_empty() || !recorded.encoder.is_full());
        full(&mut recorded.encoder).unwrap();
        assert!(entries.len() > 3, "{} chunks", entries.len());
        let end = bytes.len() as u64;
        mmulab_trace::write_index(&mut bytes, end, &entries, &EndInfo::default()).unwrap();
        let mut reader = NativeReader::new(io::Cursor::new(bytes), "test".into()).unwrap();
        let (mut seen, mut batch) = (0, mmulab_trace::Batch::default());
        while reader.next_batch(&mut batch).unwrap() {
            seen += batch.events.len() as u64;
        }
        assert_eq!(seen, count);
    }

    #[test]
    fn executions_come_out_as_they_went_in() {
        let read = |address| words::access(address, 3, false, 1).unwrap();
        let write = |address| words::access(address, 2, true, 3).unwrap();
        let [note, far] = words::noted(0x9000, 6, true, 40);
        let one = [
            words::block(0),
            read(0x5000),
            write(0x6000),
            words::block(0),
            read(0x5008),
            write(0x6ffe),
            words::block(1),
            words::block(0),
            note,
            far,
            words::block(0),
            read(0x5010),
            write(0x6004),
        ];
        let (items, events) = through(&mut all(), &one, &[read(0x7000), words::block(1)]);
        let text: Vec<String> = items.iter().map(|i| format!("{i:x?}")).collect();
        let addresses: Vec<&str> = text.iter().map(String::as_str).collect();
        assert_eq!(addresses.len(), 15, "{addresses:?}");
        // 0x6ffe is 4 bytes long: two pages.
        assert!(addresses[6].contains("7000"), "{addresses:?}");
        assert_eq!(events, [Event::Clone { child: Tid(2) }, Event::Switch { pid: Pid(1), tid: Tid(2) }]);
    }

    #[test]
    fn what_is_skipped_and_what_is_beyond_the_limit_is_left_out() {
        let read = |address| words::access(address, 3, false, 1).unwrap();
        let one: Vec<u64> = (0..10).flat_map(|i| [words::block(0), read(0x5000 + 8 * i)]).collect();
        let mut limits = Limits::whole(7, 9);
        let (items, events) = through(&mut limits, &one, &[]);
        // Blocks of 4 instructions: two are skipped, three recorded. Before them come the pages in use.
        assert_eq!(items.len(), 8, "{items:?}");
        assert!(matches!(items[0], Item::Access(Access::Fetch, va, 0) if va.raw() == 0x1000));
        assert!(matches!(items[1], Item::Access(Access::Read, va, _) if va.raw() == 0x5000));
        assert!(format!("{:x?}", items[3]).contains("5010"));
        assert_eq!(events, [Event::Resume]);
    }

    #[test]
    fn an_interval_ends_at_a_block_and_the_pages_used_after_it_are_told_before_the_next() {
        let read = |address| words::access(address, 3, false, 1).unwrap();
        let all: Vec<u64> = (0..10).flat_map(|i| [words::block(0), read(0x5000 + 0x1000 * i)]).collect();
        let mut recorded = Recorded::new(Image { number: 0, pid: 1, tid: 1 }, false).unwrap();
        recorded.define(&words::definition(0x1000, 4, &[7; 16]).collect::<Vec<_>>());
        let mut full = |_: &mut Encoder| -> io::Result<()> { Ok(()) };
        // Blocks of 4 instructions: two, then three are left out.
        let mut limits = Limits { interval: 7, ..Limits::whole(0, u64::MAX) };
        let took = recorded.words(1, &all, &mut limits, &mut full).unwrap();
        assert_eq!(took, Taken::Until(&all[4..]));
        recorded.resume(1, &Event::Pause);
        recorded.pause();
        (limits.interval, limits.skip) = (100, 9);
        let rest = recorded.leave_out(1, &all[4..], &mut limits, &mut full).unwrap();
        assert_eq!((rest, limits.left_out, limits.skip), (&all[10..], 12, 0));
        recorded.tell_left_out(&mut full).unwrap();
        recorded.resume(1, &Event::Continue { left_out: 12 });
        assert_eq!(recorded.words(1, rest, &mut limits, &mut full).unwrap(), Taken::All);
        let (items, events) = read_back(recorded);
        assert_eq!(events, [Event::Pause, Event::Continue { left_out: 12 }]);
        let shown: Vec<String> = items.iter().map(|item| format!("{item:x?}")).collect();
        // Two blocks and their loads; a fetch and three loads that retire nothing; five blocks and their loads.
        assert_eq!(shown.len(), 4 + 4 + 10, "{shown:?}");
        for page in ["7000", "8000", "9000"] {
            assert_eq!(shown[4..8].iter().filter(|item| item.contains(page)).count(), 1, "{shown:?}");
        }
        assert!(matches!(items[8], Item::Access(Access::Fetch, _, 4)), "{shown:?}");
    }
}
