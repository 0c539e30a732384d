//! Compressed trace files: gzip, xz and zstd. Reading recognises the compression by the first bytes, and writing
//! selects one by the file extension. A counter of the compressed bytes read serves progress reports.

use crate::TraceError;
use liblzma::stream::{CONCATENATED, Stream};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// How a file is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Packing {
    Gzip,
    Xz,
    Zstd,
}

/// Most memory xz may take to unpack: `xz -9` needs 65 MiB.
const XZ_MEMORY: u64 = 512 << 20;
/// Bytes read at once.
const BUFFER: usize = 256 << 10;

impl Packing {
    /// By the first bytes: RFC 1952 section 2.3.1; the .xz file format 1.2.1 section 2.1.1.1; RFC 8878 section 3.1.1.
    pub fn of(start: &[u8]) -> Option<Self> {
        [(Self::Gzip, &b"\x1f\x8b"[..]), (Self::Xz, b"\xfd7zXZ\0"), (Self::Zstd, b"\x28\xb5\x2f\xfd")]
            .into_iter()
            .find(|(_, magic)| start.starts_with(magic))
            .map(|(packing, _)| packing)
    }

    /// How a file of this name is to be packed.
    pub fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "gz" => Some(Self::Gzip),
            "xz" => Some(Self::Xz),
            "zst" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Contents of `input`. Several packed files one after the other are one.
    pub fn unpack(self, input: impl BufRead + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
            Self::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED).map_err(io::Error::other)?;
                Box::new(liblzma::bufread::XzDecoder::new_stream(input, stream))
            }
            Self::Zstd => Box::new(zstd::Decoder::with_buffer(input)?),
        })
    }
}

/// Contents of the file at `path`, unpacked.
///
/// # Errors
/// It cannot be read.
pub(crate) fn open_unpacked(path: &Path) -> Result<Box<dyn BufRead + Send>, TraceError> {
    let failed = |e| TraceError::io(path, e);
    let mut packed = BufReader::new(File::open(path).map_err(failed)?);
    Ok(match Packing::of(packed.fill_buf().map_err(failed)?) {
        Some(packing) => Box::new(BufReader::new(packing.unpack(packed).map_err(failed)?)),
        None => Box::new(packed),
    })
}

/// Counts what is read through it.
pub(super) struct Counting<R> {
    input: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Counting<R> {
    /// Reads `input`; the count so far is in what is given beside it.
    pub fn new(input: R) -> (BufReader<Self>, Arc<AtomicU64>) {
        let count = Arc::new(AtomicU64::new(0));
        (BufReader::with_capacity(BUFFER, Self { input, count: Arc::clone(&count) }), count)
    }
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// A file written packed or as it is.
pub(super) enum PackedWriter {
    Plain(BufWriter<File>),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
    Xz(liblzma::write::XzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

/// Levels of packing: those the programs gzip, xz and zstd choose themselves.
const LEVELS: (u32, u32, i32) = (6, 6, 3);

impl PackedWriter {
    pub fn new(file: File, packing: Option<Packing>) -> io::Result<Self> {
        let out = BufWriter::with_capacity(BUFFER, file);
        Ok(match packing {
            None => Self::Plain(out),
            Some(Packing::Gzip) => Self::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::new(LEVELS.0))),
            Some(Packing::Xz) => Self::Xz(liblzma::write::XzEncoder::new(out, LEVELS.1)),
            Some(Packing::Zstd) => Self::Zstd(zstd::Encoder::new(out, LEVELS.2)?),
        })
    }

    /// Writes what is left.
    pub fn finish(self) -> io::Result<()> {
        let mut out = match self {
            Self::Plain(out) => out,
            Self::Gzip(packer) => packer.finish()?,
            Self::Xz(packer) => packer.finish()?,
            Self::Zstd(packer) => packer.finish()?,
        };
        out.flush()
    }
}

impl Write for PackedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(out) => out.write(bytes),
            Self::Xz(out) => out.write(bytes),
            Self::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(out) => out.flush(),
            Self::Xz(out) => out.flush(),
            Self::Zstd(out) => out.flush(),
        }
    }
}
