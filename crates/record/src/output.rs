//! Trace file of a recording: first the head, then chunks, at the end the index. If the disk is full, the last chunks
//! are removed until the index fits, so that the trace stays readable.

use mmulab_trace::{ChunkHeader, Description, EndInfo, IndexEntry, write_index};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// The trace being written. An earlier file stays until the first byte of the new one.
pub(crate) struct Output {
    path: PathBuf,
    file: File,
    /// Whether the file was made here.
    made: bool,
    begun: bool,
    written: u64,
    entries: Vec<IndexEntry>,
    pub instructions: u64,
    pub references: u64,
}

impl Output {
    /// Makes sure that `path` can be written.
    pub fn open(path: &Path) -> io::Result<Self> {
        let made = !path.exists();
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(path)?;
        Ok(Self {
            path: path.into(),
            file,
            made,
            begun: false,
            written: 0,
            entries: Vec::new(),
            instructions: 0,
            references: 0,
        })
    }

    /// Writes the trace's head.
    pub fn begin(&mut self, description: &Description) -> io::Result<()> {
        if !self.begun {
            self.truncate(0)?;
            self.begun = true;
            let head = description.to_bytes();
            self.file.write_all(&head)?;
            self.written = head.len() as u64;
        }
        Ok(())
    }

    /// Goes on writing at `at`. Devices have no length to cut.
    fn truncate(&mut self, at: u64) -> io::Result<()> {
        if self.file.metadata()?.is_file() {
            self.file.set_len(at)?;
            self.file.seek(SeekFrom::Start(at))?;
        }
        Ok(())
    }

    /// Appends a chunk.
    pub fn chunk(&mut self, bytes: &[u8], header: &ChunkHeader) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.entries.push(IndexEntry::new(self.written, header));
        self.written += bytes.len() as u64;
        self.instructions += header.instructions;
        self.references += header.references;
        Ok(())
    }

    /// Writes the index. When the disk is full, chunks are given up until there is room for it; how many.
    pub fn finish(&mut self, end: &EndInfo) -> io::Result<usize> {
        let whole = self.entries.len();
        loop {
            let mut index = Vec::new();
            write_index(&mut index, self.written, &self.entries, end)?;
            self.truncate(self.written)?;
            match self.file.write_all(&index) {
                Ok(()) => return Ok(whole - self.entries.len()),
                Err(error) => {
                    let Some(last) = self.entries.pop() else { return Err(error) };
                    self.written = last.offset;
                    self.instructions -= last.instructions;
                    self.references -= last.references;
                }
            }
        }
    }

    /// Bytes written.
    pub fn bytes(&self) -> u64 {
        fs::metadata(&self.path).map_or(self.written, |m| m.len())
    }

    /// Nothing came: leaves things as they were.
    pub fn abandon(self) {
        if self.made && !self.begun {
            // An empty file left behind would do no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}
