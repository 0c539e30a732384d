//! Opening of trace files. The first bytes of a file select decompression and reader. The file name decides only if the
//! content fits no format. Users therefore need neither options nor file extensions for most traces.
//!
//! ```text
//! file -- native magic --------------------------------------------------> NativeReader
//!   '---- unpack gzip, xz, zstd -- format by content, else by file name --> reader of that format
//! ```

use super::{
    format::{Format, START},
    packed::{Counting, Packing},
};
use crate::{
    AccelSimReader, Batch, ChampSimReader, DrmemtraceReader, LackeyReader, NativeReader, Source, TextReader,
    TraceError, TraceErrorKind, TraceInfo, WarpShape,
    foreign::{is_list_line, kernels_of, unpacking_error},
    full_read::read_up_to,
};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Cursor, Read},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use xxhash_rust::xxh3::Xxh3;

/// Opens the trace in the file at `path`. Its content decides the format, and whether gzip, xz or zstd packed it. If
/// the content has no known format, the ending of the name decides which one was meant.
///
/// # Errors
/// It cannot be read, or is of no known format.
pub fn open_file(path: &Path) -> Result<Box<dyn Source>, TraceError> {
    open_warps(path, WarpShape::default())
}

/// As [`open_file`]; if the file holds thread blocks, they are dealt to cores of this shape.
///
/// # Errors
/// It cannot be read, or is of no known format.
pub fn open_warps(path: &Path, shape: WarpShape) -> Result<Box<dyn Source>, TraceError> {
    let name = path.display().to_string();
    let failed = |e| TraceError::io(path, e);
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if about.is_dir() {
        return Err(foreign(name, "it is a directory"));
    }
    let size = about.is_file().then_some(about.len());
    let (mut packed, consumed) = Counting::new(file);
    let start = packed.fill_buf().map_err(failed)?;
    if start.is_empty() {
        return Err(foreign(name, "the file is empty"));
    }
    if NativeReader::recognises(start) {
        if size.is_none() {
            return Err(foreign(name, "a native trace is read from a file, not from a pipe: its index is at its end"));
        }
        return Ok(Box::new(NativeReader::open(path)?));
    }
    let packing = Packing::of(start);
    let mut input: Box<dyn Read + Send> = match packing {
        Some(packing) => packing.unpack(packed).map_err(failed)?,
        None => Box::new(packed),
    };
    let (start, failure) = read_start(&mut input);
    if let Some(error) = failure {
        if start.is_empty() {
            return Err(unpacking_error(&name, "byte 0".into(), error));
        }
        // What comes before the damage is read; the error is met again behind it.
        input = Box::new(Failing(Some(error)));
    }
    if start.is_empty() {
        return Err(foreign(name, "what was packed in it is empty"));
    }
    let of_name = Format::of_name(path).filter(|f| *f != Format::Text || !start.contains(&0));
    let format = Format::of_content(&start).or(of_name);
    let mut hash = match size {
        Some(_) => Some(content_hash(path).map_err(failed)?),
        None => None,
    };
    let input = BufReader::new(Cursor::new(start).chain(input));
    let source: Box<dyn Source> = match format {
        Some(Format::Native) if packing.is_some() => {
            return Err(foreign(name, "a native trace needs no packing: unpack it first"));
        }
        Some(Format::Native) => return Ok(Box::new(NativeReader::open(path)?)),
        Some(Format::Text) => Box::new(TextReader::new(input, name)),
        Some(Format::ChampSim) => Box::new(ChampSimReader::new(input, name)),
        Some(Format::Drmemtrace) => Box::new(DrmemtraceReader::new(input, name)),
        Some(Format::Lackey) => Box::new(LackeyReader::new(input, name)),
        Some(Format::AccelSim) => {
            let mut input = input;
            let is_list =
                input.fill_buf().ok().and_then(|start| start.split(|&b| b == b'\n').next()).is_some_and(is_list_line);
            if is_list {
                return open_list(path, input, shape, hash);
            }
            hash = hash.map(|hash| dealt(&hash, shape));
            Box::new(AccelSimReader::new(Box::new(input), name, shape))
        }
        None => {
            let known = "it begins as none of these do: native (.mmt), text (.mmtx), ChampSim, drmemtrace view, \
                         lackey, Accel-Sim";
            return Err(foreign(name, known));
        }
    };
    let info = TraceInfo { hash, ..source.info().clone() };
    Ok(Box::new(FileSource { source, info, consumed, size }))
}

/// Opens a list of kernels, whose hash is that of all the files.
fn open_list(
    path: &Path,
    input: impl Read,
    shape: WarpShape,
    hash: Option<String>,
) -> Result<Box<dyn Source>, TraceError> {
    let mut list = String::new();
    input
        .take(LIST_MAX)
        .read_to_string(&mut list)
        .map_err(|e| unpacking_error(&path.display().to_string(), String::new(), e))?;
    let mut reader = AccelSimReader::of_list(path, &list, shape)?;
    let mut all = Xxh3::new();
    all.update(hash.unwrap_or_default().as_bytes());
    for file in kernels_of(path, &list).unwrap_or_default() {
        all.update(content_hash(&file).map_err(|e| TraceError::io(&file, e))?.as_bytes());
    }
    reader.set_hash(dealt(&format!("{:032x}", all.digest128()), shape));
    Ok(Box::new(reader))
}

/// The identity of a trace is its files and the cores that its blocks were dealt to.
fn dealt(hash: &str, WarpShape { cores, warps }: WarpShape) -> String {
    format!("{hash} cores={cores} warps={warps}")
}

/// Longest list of kernels taken: of a million of them.
const LIST_MAX: u64 = 64 << 20;

/// The first bytes, and why there are no more of them.
fn read_start(input: &mut impl Read) -> (Vec<u8>, Option<io::Error>) {
    let mut start = Vec::with_capacity(START);
    let error = input.take(START as u64).read_to_end(&mut start).err();
    (start, error)
}

/// Fails.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(self.0.take().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    }
}

fn foreign(name: String, what: &str) -> TraceError {
    TraceError::new(name, "byte 0", TraceErrorKind::Foreign(what.into()))
}

/// XXH3-128 of the file's bytes, in hexadecimal. Hashing is ten times as fast as reading any of these formats.
fn content_hash(path: &Path) -> io::Result<String> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Xxh3::new(), vec![0; 1 << 20]);
    loop {
        let got = read_up_to(&mut file, &mut buffer)?;
        if got == 0 {
            return Ok(format!("{:032x}", hash.digest128()));
        }
        hash.update(&buffer[..got]);
    }
}

/// A source with what is known of the file it reads.
struct FileSource {
    source: Box<dyn Source>,
    info: TraceInfo,
    consumed: Arc<AtomicU64>,
    size: Option<u64>,
}

impl Source for FileSource {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        self.source.next_batch(batch)
    }

    fn tell_code(&mut self) -> bool {
        self.source.tell_code()
    }

    fn progress(&self) -> Option<f64> {
        self.size.map(|size| (self.consumed.load(Ordering::Relaxed) as f64 / size.max(1) as f64).min(1.0))
    }
}
