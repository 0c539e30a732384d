//! Reads native traces: whole ones by their index, cut and damaged ones by their chunks.

use super::{
    decode::{Decoder, remember},
    index::{self, INDEX_HEADER, INDEX_MAGIC, IndexEntry, TRAILER, content_hash},
    layout::{
        CHUNK_HEADER, CHUNK_MAGIC, ChunkHeader, FILE_HEADER, MAGIC, MAX_DESCRIPTION, MAX_INSTRUCTIONS, OLDEST, VERSION,
        checksum, get32, get64,
    },
};
use crate::{
    Batch, Description, EndInfo, Event, Item, Ref, Source, TraceError, TraceErrorKind, TraceInfo, Verified,
    full_read::read_up_to,
};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes read from the file at once.
const BUFFER: usize = 1 << 20;

trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

/// What is wrong with recordings that were cut before traces said which pages were in use.
const OLD_CUT: &str = "this recording begins in the middle of its program, and an older mmulab cut it: which pages \
                       were in memory then is not in it, so memory in use, page sizes and coalescing are those of a \
                       program that begins there; record it anew";

/// Reads a native trace.
pub struct NativeReader {
    input: BufReader<Box<dyn ReadSeek>>,
    info: TraceInfo,
    description: Description,
    end: Option<EndInfo>,
    entries: Vec<IndexEntry>,
    /// Where the chunk after the open one begins.
    position: u64,
    /// Where the chunks begin, and where they end.
    first: u64,
    last: u64,
    decoder: Decoder,
    payload: Vec<u8>,
    /// The last chunk of each space.
    last_of: BTreeMap<u32, usize>,
    /// Index of the next chunk.
    next: usize,
    /// A fault after the chunks, reported when they are over.
    wrong: Option<Wrong>,
    /// Instructions of the chunks read so far.
    retired: u64,
}

/// Fault of a trace after its chunks.
#[derive(Clone, Debug)]
enum Wrong {
    /// It ends too early: chunks may be missing.
    Cut(String),
    /// Its index is whole, and that of other chunks: some may be missing.
    Chunks(String),
    /// Its index or its trailer is damaged, or bytes follow them: every chunk is there.
    End(String),
}

impl Wrong {
    fn kind(self) -> TraceErrorKind {
        match self {
            Self::Cut(what) => TraceErrorKind::Cut(what),
            Self::Chunks(what) => TraceErrorKind::Damaged(what),
            Self::End(what) => TraceErrorKind::End(what),
        }
    }
}

/// Where [`NativeReader::seek`] arrived.
#[derive(Debug)]
pub struct Sought {
    /// Instructions retired before the place: at most as many as asked for.
    pub instructions: u64,
    /// The events before the place, in order: they rebuild the address spaces. Left out are those that nothing depends
    /// on any more: ticks, dropped translations, and switches that another one followed.
    pub events: Vec<Event>,
}

impl NativeReader {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, is of another format, or its description is damaged. A cut file opens, with a warning.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|e| TraceError::io(path, e))?;
        Self::new(file, path.display().to_string())
    }

    /// Reads from `input`, called `name` in errors.
    ///
    /// # Errors
    /// Like [`NativeReader::open`].
    pub fn new(input: impl Read + Seek + Send + 'static, name: String) -> Result<Self, TraceError> {
        let input: Box<dyn ReadSeek> = Box::new(input);
        let mut this = Self {
            input: BufReader::with_capacity(BUFFER, input),
            info: TraceInfo { name, format: "native".into(), ..TraceInfo::default() },
            description: Description::default(),
            end: None,
            entries: Vec::new(),
            position: 0,
            first: 0,
            last: 0,
            decoder: Decoder::default(),
            payload: Vec::new(),
            last_of: BTreeMap::new(),
            next: 0,
            wrong: None,
            retired: 0,
        };
        this.read_description()?;
        this.read_index()?;
        this.last_of = this.entries.iter().zip(0..).map(|(entry, i)| (entry.space, i)).collect();
        this.fill_info();
        if this.is_old_cut() {
            this.info.warnings.push(OLD_CUT.into());
        }
        this.input.seek(SeekFrom::Start(this.first)).map_err(|e| this.io(this.first, e))?;
        Ok(this)
    }

    /// Whether `bytes` are the beginning of a native trace.
    pub fn recognises(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    fn error(&self, at: u64, kind: TraceErrorKind) -> TraceError {
        TraceError::new(&self.info.name, format!("byte {at}"), kind)
    }

    fn io(&self, at: u64, error: io::Error) -> TraceError {
        self.error(at, TraceErrorKind::Io(error))
    }

    fn damaged(&self, at: u64, what: impl Into<String>) -> TraceError {
        self.error(at, TraceErrorKind::Damaged(what.into()))
    }

    fn read_description(&mut self) -> Result<(), TraceError> {
        let foreign = |what: &str| TraceErrorKind::Foreign(what.into());
        let mut head = [0; FILE_HEADER];
        let got = read_up_to(&mut self.input, &mut head).map_err(|e| self.io(0, e))?;
        if got == 0 {
            return Err(self.error(0, foreign("the file is empty")));
        }
        if !head[..got].starts_with(&MAGIC[..got.min(MAGIC.len())]) {
            return Err(self.error(0, foreign("it does not begin as native traces do")));
        }
        if got < FILE_HEADER {
            return Err(self.error(0, TraceErrorKind::Cut("the file ends within its first header".into())));
        }
        let version = get32(&head, 8);
        let length = get32(&head, 12) as usize;
        if !(OLDEST..=VERSION).contains(&version) {
            let what = format!("it is of version {version}; this mmulab reads versions {OLDEST} to {VERSION}");
            return Err(self.error(8, TraceErrorKind::Foreign(what)));
        }
        if length > MAX_DESCRIPTION {
            return Err(self.damaged(12, format!("its description of {length} bytes is longer than any")));
        }
        let mut json = vec![0; length];
        let got = read_up_to(&mut self.input, &mut json).map_err(|e| self.io(FILE_HEADER as u64, e))?;
        if got < length {
            return Err(
                self.error(FILE_HEADER as u64, TraceErrorKind::Cut("the file ends within its description".into()))
            );
        }
        if xxh3_64_with_seed(&json, xxh3_64(&head[..16])) != get64(&head, 16) {
            return Err(self.damaged(0, "the checksum of its description does not hold"));
        }
        self.description = serde_json::from_slice(&json)
            .map_err(|e| self.damaged(FILE_HEADER as u64, format!("its description: {e}")))?;
        if self.description.warps == Some(0) {
            let what = "its description says that a core has 0 warps; 1 to 65535 are possible";
            return Err(self.damaged(FILE_HEADER as u64, what));
        }
        self.decoder.set_version(version);
        self.first = (FILE_HEADER + length) as u64;
        self.position = self.first;
        Ok(())
    }

    /// Finds the index by the trailer, or makes one by walking the chunks' headers.
    fn read_index(&mut self) -> Result<(), TraceError> {
        let size = self.input.seek(SeekFrom::End(0)).map_err(|e| self.io(0, e))?;
        let trailer = self.trailer(size)?;
        if let Some(tail) = &trailer {
            let (offset, end) = (index::index_of(tail), size - TRAILER as u64);
            if offset >= self.first
                && let Some((head, index)) = self.index_at(offset, end)?
                && index::trailer_holds(tail, offset, &head)
                && offset + (INDEX_HEADER + index::stored_length(&head)) as u64 == end
                && let Ok(found) = index
            {
                (self.entries, self.end, self.last) = (found.entries, Some(found.end), offset);
                return Ok(());
            }
        }
        self.walk_chunks(size, trailer.map(|tail| index::index_of(&tail)))
    }

    /// The last bytes of a file of `size` bytes, if they are a trailer by their magic number.
    fn trailer(&mut self, size: u64) -> Result<Option<[u8; TRAILER]>, TraceError> {
        let mut tail = [0; TRAILER];
        if size < self.first + (INDEX_HEADER + TRAILER) as u64 {
            return Ok(None);
        }
        self.read_at(size - TRAILER as u64, &mut tail)?;
        Ok(index::is_trailer(&tail).then_some(tail))
    }

    /// The header of the index at `at` and what the index says, or what is wrong with it; `None` if there is none that
    /// ends by `end`.
    #[expect(clippy::type_complexity, reason = "a header, and what it leads to")]
    fn index_at(
        &mut self,
        at: u64,
        end: u64,
    ) -> Result<Option<([u8; INDEX_HEADER], Result<index::Index, index::Unread>)>, TraceError> {
        let mut head = [0; INDEX_HEADER];
        if at.checked_add(INDEX_HEADER as u64).is_none_or(|body| body > end) {
            return Ok(None);
        }
        self.read_at(at, &mut head)?;
        let (body, stored) = (at + INDEX_HEADER as u64, index::stored_length(&head));
        if head[..4] != INDEX_MAGIC || body + stored as u64 > end {
            return Ok(None);
        }
        let mut bytes = vec![0; stored];
        self.read_at(body, &mut bytes)?;
        Ok(Some((head, index::parse(&head, &bytes, self.first, at))))
    }

    /// Without an index that the trailer leads to: the file was cut, its end is damaged, or something follows it.
    /// `told` is the beginning of the index by what looks like the trailer.
    fn walk_chunks(&mut self, size: u64, told: Option<u64>) -> Result<(), TraceError> {
        let mut at = self.first;
        let why = loop {
            let mut head = [0; CHUNK_HEADER];
            let here = ((size - at) as usize).min(CHUNK_HEADER);
            self.read_at(at, &mut head[..here])?;
            // Its magic number, or the trailer, says that here the chunks are over.
            let is_index = here >= INDEX_HEADER && head[..4] == INDEX_MAGIC;
            if is_index || told == Some(at) && head[..4] != CHUNK_MAGIC {
                if let Some(what) = self.damaged_end(at, size, told.is_some())? {
                    return self.found(at, (at, size), what);
                }
                break "it ends within its index".to_owned();
            }
            if here < CHUNK_HEADER {
                break if here == 0 {
                    "it has no index".to_owned()
                } else {
                    "it ends within a chunk's header".to_owned()
                };
            }
            let header = match ChunkHeader::parse(&head) {
                Ok(header) => header,
                // Reading stops here with this error; what comes before is readable.
                Err(_) => break format!("what follows byte {at} is damaged"),
            };
            let next = at + CHUNK_HEADER as u64 + header.payload();
            if next > size {
                break "it ends within a chunk".to_owned();
            }
            self.entries.push(IndexEntry::new(at, &header));
            at = next;
        };
        // A damaged header is read again, and told as the error it is.
        let last = if why.contains("damaged") { size } else { at };
        self.found(last, (at, size), Wrong::Cut(why))
    }

    /// The fault of the index at `at` or behind it; `None` if the file is cut in it. If the index is whole, its
    /// metadata are taken over.
    fn damaged_end(&mut self, at: u64, size: u64, has_trailer: bool) -> Result<Option<Wrong>, TraceError> {
        let (head, index) = match self.index_at(at, size)? {
            Some((head, Ok(index))) if index.entries == self.entries => (head, index),
            // What was written as the index of other chunks: some of them are not here.
            Some((_, Ok(index))) => {
                let (named, here) = (index.entries.len(), self.entries.len());
                let what = format!("its index, at byte {at}, names {named} chunks, which are not the {here} before it");
                return Ok(Some(Wrong::Chunks(what)));
            }
            Some((_, Err(index::Unread::Nonsense(what)))) => {
                return Ok(Some(Wrong::Chunks(format!(
                    "its index, at byte {at}, cannot be that of its chunks: {what}"
                ))));
            }
            Some((_, Err(index::Unread::Damaged))) => {
                return Ok(Some(Wrong::End(format!("the checksum of its index, at byte {at}, does not hold"))));
            }
            None if has_trailer => {
                return Ok(Some(Wrong::End(format!("its index, at byte {at}, does not begin as it was written"))));
            }
            None => return Ok(None),
        };
        self.end = Some(index.end);
        let end = at + (INDEX_HEADER + index::stored_length(&head)) as u64;
        let mut tail = [0; TRAILER];
        let left = size - end;
        if left < TRAILER as u64 {
            return Ok(None);
        }
        self.read_at(end, &mut tail)?;
        let follows = left - TRAILER as u64;
        Ok(Some(Wrong::End(match (index::trailer_holds(&tail, at, &head), follows) {
            (true, follows) => format!("{follows} bytes that are not its own follow byte {}", size - follows),
            (false, 0) => format!("its trailer, from byte {end} on, is not what was written"),
            (false, _) => format!("the {left} bytes after its index, from byte {end} on, are not its trailer"),
        })))
    }

    /// Takes note of what is wrong after byte `at` of `size`, up to which all chunks are whole by their headers.
    /// Reading goes on to byte `last`.
    fn found(&mut self, last: u64, (at, size): (u64, u64), wrong: Wrong) -> Result<(), TraceError> {
        let instructions: u64 = self.entries.iter().fold(0, |n, e| n.saturating_add(e.instructions));
        let count = self.entries.len();
        let wrong = match wrong {
            Wrong::Cut(why) => Wrong::Cut(format!(
                "{why}; {count} whole chunks with {instructions} instructions can be read, up to byte {at} of {size}"
            )),
            Wrong::Chunks(why) => {
                Wrong::Chunks(format!("{why}; {count} chunks with {instructions} instructions can be read"))
            }
            Wrong::End(why) => {
                let end = match &self.end {
                    Some(_) => "",
                    None => "; how its program ended, and what was not recorded, is not known",
                };
                Wrong::End(format!("{why}; all {count} chunks with {instructions} instructions can be read{end}"))
            }
        };
        self.last = last;
        self.info.warnings.push(wrong.clone().kind().to_string());
        self.wrong = Some(wrong);
        Ok(())
    }

    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<(), TraceError> {
        self.input.seek(SeekFrom::Start(at)).and_then(|_| self.input.read_exact(into)).map_err(|e| self.io(at, e))
    }

    fn fill_info(&mut self) {
        // Reading them finds out whether they can be true.
        let sum = |f: fn(&IndexEntry) -> u64| self.entries.iter().fold(0u64, |n, e| n.saturating_add(f(e)));
        let info = &mut self.info;
        info.program.clone_from(&self.description.program);
        info.args.clone_from(&self.description.args);
        info.isa = self.description.isa;
        info.has_address_space = self.description.has_address_space;
        info.has_heap = self.description.has_heap;
        info.misses_of.clone_from(&self.description.misses_of);
        info.warps = self.description.warps;
        info.skipped = self.description.skipped;
        info.instructions = Some(sum(|e| e.instructions));
        info.references = Some(sum(|e| e.references));
        info.hash = Some(content_hash(&self.entries));
        if let Some(end) = &self.end {
            info.warnings.extend(end.ended_early.iter().map(|why| format!("the recording ended early: {why}")));
            info.warnings.extend(end.failed.iter().map(|how| format!("the recorded program failed: {how}")));
            info.warnings.extend(end.lost.iter().map(|what| format!("not recorded: {what}")));
        }
    }

    /// Whether it is a recording that begins in the middle of its program without the pages in use. Its sign is events
    /// of system calls, or of objects, before the first instruction.
    fn is_old_cut(&mut self) -> bool {
        let is_recording = self.description.source.starts_with("qemu") && self.info.has_address_space;
        if !is_recording || self.info.skipped.is_some() || self.input.seek(SeekFrom::Start(self.first)).is_err() {
            return false;
        }
        let (mut decoder, mut batch) = (self.decoder.anew(), Batch::default());
        let opened = self.read_chunk().ok().flatten().map(|header| decoder.open(header, &self.payload, false));
        (self.position, self.next, self.retired) = (self.first, 0, 0);
        // What is damaged is told where it is read.
        if !matches!(opened, Some(Ok(()))) || decoder.decode(&mut batch).is_err() {
            return false;
        }
        let is_event = |word: &&Ref| matches!(word.item(), Item::Event(_));
        let before = batch.refs.iter().take_while(is_event).count();
        batch.events.iter().take(before).any(|event| {
            matches!(
                event,
                Event::Munmap { .. }
                    | Event::Mprotect { .. }
                    | Event::Mremap { .. }
                    | Event::Madvise { .. }
                    | Event::Malloc { .. }
                    | Event::Free { .. }
            )
        })
    }

    pub(super) fn decoder_anew(&self) -> Decoder {
        self.decoder.anew()
    }

    /// Where the chunks end.
    pub(super) fn end_of_chunks(&self) -> u64 {
        self.last
    }

    pub(super) fn input(&mut self) -> &mut (impl Read + Seek + use<>) {
        &mut self.input
    }

    /// Faults after the chunks, if any.
    pub(super) fn wrong_at_end(&self) -> Vec<String> {
        self.wrong.iter().map(|wrong| wrong.clone().kind().to_string()).collect()
    }

    /// Metadata at the start of the trace.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Metadata at the end of the trace; `None` if it was cut.
    pub fn end(&self) -> Option<&EndInfo> {
        self.end.as_ref()
    }

    /// Its chunks.
    pub fn chunks(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// Whether no chunk after number `index` is of its space, so that its dictionary is needed no more.
    pub(super) fn is_last(&self, index: usize) -> bool {
        let space = self.entries.get(index).map(|entry| entry.space);
        space.and_then(|space| self.last_of.get(&space)) == Some(&index)
    }

    /// Reads the chunk at `position` into `payload`; `None` at the end.
    fn read_chunk(&mut self) -> Result<Option<ChunkHeader>, TraceError> {
        let at = self.position;
        if at >= self.last {
            return match self.entries.get(self.next) {
                Some(entry) => {
                    Err(self.damaged(at, format!("its index names one more chunk, at byte {}", entry.offset)))
                }
                None => Ok(None),
            };
        }
        let mut head = [0; CHUNK_HEADER];
        self.input.read_exact(&mut head).map_err(|e| self.cut_or(at, e))?;
        let header = ChunkHeader::parse(&head).map_err(|e| self.damaged(at, e))?;
        let payload = header.payload();
        if at + CHUNK_HEADER as u64 + payload > self.last {
            return Err(self.damaged(at, "a chunk's lengths reach beyond the chunks' end"));
        }
        self.payload.resize(payload as usize, 0);
        self.input.read_exact(&mut self.payload).map_err(|e| self.cut_or(at, e))?;
        if checksum(&head, &self.payload) != header.checksum {
            return Err(self.damaged(at, "the checksum of the chunk that begins here does not hold"));
        }
        self.check_entry(at, &header).map_err(|what| self.damaged(at, what))?;
        self.retired = self.retired.saturating_add(header.instructions);
        if self.retired > MAX_INSTRUCTIONS {
            return Err(self.damaged(at, format!("its chunks say more than {MAX_INSTRUCTIONS} instructions, the most")));
        }
        self.position = at + CHUNK_HEADER as u64 + payload;
        self.next += 1;
        Ok(Some(header))
    }

    /// Whether the index says of the next chunk, at byte `at`, what its header does.
    fn check_entry(&self, at: u64, header: &ChunkHeader) -> Result<(), String> {
        match self.entries.get(self.next) {
            Some(entry) => entry.check(at, header),
            None => Err("its index does not name the chunk that begins here".into()),
        }
    }

    /// The chunks are over: that is the end, or the place of what is wrong there.
    fn over(&mut self, batch: &Batch) -> Result<bool, TraceError> {
        match self.wrong.take() {
            Some(wrong) => Err(self.error(self.position, wrong.kind())),
            None => Ok(!batch.refs.is_empty()),
        }
    }

    fn cut_or(&self, at: u64, error: io::Error) -> TraceError {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return self.error(at, TraceErrorKind::Cut("the file ends within the chunk that begins here".into()));
        }
        self.io(at, error)
    }

    /// Goes to the last place at or before instruction `instruction` where reading can begin: the start of the chunk
    /// that holds it. Chunks before are read, but only those since the last fresh start of each process are decoded.
    ///
    /// # Errors
    /// Damage on the way.
    pub fn seek(&mut self, instruction: u64) -> Result<Sought, TraceError> {
        let (mut target, mut before) = (0, 0u64);
        while let Some(entry) = self.entries.get(target) {
            let after = before.saturating_add(entry.instructions);
            if after > instruction {
                break;
            }
            (target, before) = (target + 1, after);
        }
        // Where each process's predictions last started anew at or before the target.
        let mut keys: BTreeMap<u32, usize> = BTreeMap::new();
        for (i, entry) in self.entries.iter().enumerate().take(target) {
            if entry.flags & u32::from(super::layout::FLAG_KEY) != 0 {
                keys.insert(entry.space, i);
            }
        }
        self.decoder = self.decoder.anew();
        (self.position, self.next, self.retired) = (self.first, 0, 0);
        self.input.seek(SeekFrom::Start(self.first)).map_err(|e| self.io(self.first, e))?;
        let (mut events, mut batch) = (Vec::new(), Batch::default());
        while self.next < target {
            let at = self.position;
            let index = self.next;
            let Some(header) = self.read_chunk()? else { break };
            if index < keys.get(&header.space).copied().unwrap_or(0) {
                self.decoder.skim(header, &self.payload, &mut events).map_err(|e| self.damaged(at, e))?;
                continue;
            }
            let last = self.is_last(index);
            self.decoder.open(header, &self.payload, last).map_err(|e| self.damaged(at, e))?;
            while self.decoder.is_open() {
                batch.clear();
                self.decoder.decode(&mut batch).map_err(|e| self.damaged(at, e))?;
                batch.events.drain(..).for_each(|event| remember(event, &mut events));
            }
        }
        Ok(Sought { instructions: before, events })
    }
}

impl Source for NativeReader {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        while !batch.is_full() {
            if !self.decoder.is_open() {
                let at = self.position;
                let Some(header) = self.read_chunk()? else { return self.over(batch) };
                let last = self.is_last(self.next - 1);
                self.decoder.open(header, &self.payload, last).map_err(|e| self.damaged(at, e))?;
            }
            let at = self.entries.get(self.next.saturating_sub(1)).map_or(self.position, |e| e.offset);
            self.decoder.decode(batch).map_err(|e| self.damaged(at, e))?;
        }
        Ok(true)
    }

    fn verify(&mut self, on_progress: &mut dyn FnMut(Option<f64>) -> bool) -> Verified {
        self.check(on_progress)
    }

    fn tell_code(&mut self) -> bool {
        self.decoder.tell_code();
        true
    }

    fn description(&self) -> Description {
        self.description.clone()
    }

    fn end(&self) -> Option<&EndInfo> {
        self.end.as_ref()
    }

    fn progress(&self) -> Option<f64> {
        let all = self.last.saturating_sub(self.first).max(1);
        Some(self.position.saturating_sub(self.first) as f64 / all as f64)
    }
}
