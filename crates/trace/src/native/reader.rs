use super::{
    decode::Decoder,
    index::{self, EndInfo, INDEX_HEADER, INDEX_MAGIC, IndexEntry, TRAILER, content_hash},
    layout::{
        CHUNK_HEADER, ChunkHeader, Description, FILE_HEADER, MAGIC, MAX_DESCRIPTION, VERSION, checksum, get32, get64,
    },
};
use crate::{Batch, Event, Source, TraceError, TraceErrorKind, TraceInfo, Verified, read_up_to};
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
    /// Why there is no index, told once the chunks are over.
    cut: Option<String>,
}

/// Where [`NativeReader::seek`] arrived.
#[derive(Debug)]
pub struct Sought {
    /// Instructions retired before the place: at most as many as asked for.
    pub instructions: u64,
    /// Every event before the place, in order: they rebuild the address spaces.
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
            cut: None,
        };
        this.read_description()?;
        this.read_index()?;
        this.last_of = this.entries.iter().zip(0..).map(|(entry, i)| (entry.space, i)).collect();
        this.fill_info();
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
        if version != VERSION {
            let what = format!("it is of version {version}; this mmulab reads version {VERSION}");
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
        self.first = (FILE_HEADER + length) as u64;
        self.position = self.first;
        Ok(())
    }

    /// Finds the index by the trailer, or makes one by walking the chunks' headers.
    fn read_index(&mut self) -> Result<(), TraceError> {
        let size = self.input.seek(SeekFrom::End(0)).map_err(|e| self.io(0, e))?;
        let mut tail = [0; TRAILER];
        if size >= self.first + (INDEX_HEADER + TRAILER) as u64 {
            let at = size - TRAILER as u64;
            self.read_at(at, &mut tail)?;
            let offset = get64(&tail, 0);
            if offset >= self.first && offset <= at.saturating_sub(INDEX_HEADER as u64) {
                let mut head = [0; INDEX_HEADER];
                self.read_at(offset, &mut head)?;
                let stored = index::stored_length(&head);
                if index::trailer_holds(&tail, offset, &head)
                    && offset + (INDEX_HEADER + stored) as u64 == at
                    && head[..4] == INDEX_MAGIC
                {
                    let mut bytes = vec![0; stored];
                    self.read_at(offset + INDEX_HEADER as u64, &mut bytes)?;
                    let found = index::parse(&head, &bytes).map_err(|e| self.damaged(offset, e))?;
                    (self.entries, self.end, self.last) = (found.entries, Some(found.end), offset);
                    return Ok(());
                }
            }
        }
        self.walk_chunks(size)
    }

    /// Without an index: the file was cut, or its end is damaged.
    fn walk_chunks(&mut self, size: u64) -> Result<(), TraceError> {
        let mut at = self.first;
        let why = loop {
            let mut head = [0; CHUNK_HEADER];
            let here = ((size - at) as usize).min(CHUNK_HEADER);
            self.read_at(at, &mut head[..here])?;
            if here >= INDEX_HEADER && head[..4] == INDEX_MAGIC {
                let mut index = [0; INDEX_HEADER];
                index.copy_from_slice(&head[..INDEX_HEADER]);
                let whole = at + (INDEX_HEADER + index::stored_length(&index) + TRAILER) as u64;
                if size >= whole {
                    return Err(self.damaged(at, "the index or the trailer after it is not what was written"));
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
        let instructions: u64 = self.entries.iter().fold(0, |n, e| n.wrapping_add(e.instructions));
        let count = self.entries.len();
        let what = format!(
            "{why}; {count} whole chunks with {instructions} instructions can be read, up to byte {at} of {size}"
        );
        self.info.warnings.push(format!("cut short: {what}"));
        self.cut = Some(what);
        // A damaged header is read again, and told as the error it is.
        self.last = if why.contains("damaged") { size } else { at };
        Ok(())
    }

    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<(), TraceError> {
        self.input.seek(SeekFrom::Start(at)).and_then(|_| self.input.read_exact(into)).map_err(|e| self.io(at, e))
    }

    fn fill_info(&mut self) {
        let sum = |f: fn(&IndexEntry) -> u64| self.entries.iter().fold(0u64, |n, e| n.wrapping_add(f(e)));
        let info = &mut self.info;
        info.program.clone_from(&self.description.program);
        info.args.clone_from(&self.description.args);
        info.isa = self.description.isa;
        info.has_address_space = self.description.has_address_space;
        info.has_heap = self.description.has_heap;
        info.misses_of.clone_from(&self.description.misses_of);
        info.warps = self.description.warps;
        info.instructions = Some(sum(|e| e.instructions));
        info.references = Some(sum(|e| e.references));
        info.hash = Some(content_hash(&self.entries));
        if let Some(end) = &self.end {
            info.warnings.extend(end.ended_early.iter().map(|why| format!("the recording ended early: {why}")));
            info.warnings.extend(end.lost.iter().map(|what| format!("not recorded: {what}")));
        }
    }

    pub(super) fn input(&mut self) -> &mut (impl Read + Seek + use<>) {
        &mut self.input
    }

    /// That the file was cut, if it was.
    pub(super) fn cut_told(&self) -> Vec<String> {
        self.cut.iter().map(|what| format!("cut short: {what}")).collect()
    }

    /// What the trace says of its making.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// What the trace says at its end; `None` when it was cut.
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
        if self.position >= self.last {
            return Ok(None);
        }
        let at = self.position;
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
        self.position = at + CHUNK_HEADER as u64 + payload;
        self.next += 1;
        Ok(Some(header))
    }

    /// The chunks are over: that is the end, or the place of the cut.
    fn over(&mut self, batch: &Batch) -> Result<bool, TraceError> {
        match self.cut.take() {
            Some(what) => Err(self.error(self.position, TraceErrorKind::Cut(what))),
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
        self.seek_heard(instruction, &mut |_| true)
    }

    /// As [`NativeReader::seek`]; `hear` is told the share of the chunks that were passed, and false ends it.
    fn seek_heard(&mut self, instruction: u64, hear: &mut dyn FnMut(f64) -> bool) -> Result<Sought, TraceError> {
        let (mut target, mut before) = (0, 0u64);
        while let Some(entry) = self.entries.get(target) {
            let after = before.wrapping_add(entry.instructions);
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
        self.decoder = Decoder::default();
        (self.position, self.next) = (self.first, 0);
        self.input.seek(SeekFrom::Start(self.first)).map_err(|e| self.io(self.first, e))?;
        let (mut events, mut batch) = (Vec::new(), Batch::default());
        while self.next < target {
            let at = self.position;
            let index = self.next;
            if !hear(index as f64 / self.entries.len() as f64) {
                return Err(self.error(at, TraceErrorKind::Interrupted));
            }
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
                events.append(&mut batch.events);
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

    fn skip_to(&mut self, instruction: u64, hear: &mut dyn FnMut(f64) -> bool) -> Result<Option<Sought>, TraceError> {
        self.seek_heard(instruction, hear).map(Some)
    }

    fn verify(&mut self, hear: &mut dyn FnMut(Option<f64>) -> bool) -> Verified {
        self.check(hear)
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
