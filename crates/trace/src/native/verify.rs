//! Verification of native traces: the checksum of every chunk, agreement with the index, and, up to the first problem,
//! a full decoding. The result lists damaged chunks by byte offset, so that damage is found before a trace is used.

use super::{
    decode::Decoder,
    layout::{CHUNK_HEADER, ChunkHeader, checksum},
    reader::NativeReader,
};
use crate::{Batch, Verified};
use std::io::{Read, Seek, SeekFrom};

/// Problems listed; more are only counted.
const MAX_PROBLEMS: usize = 20;

impl NativeReader {
    /// Checks every chunk: its checksum, and that the index agrees with it. Up to the first problem, it also checks
    /// that the chunk decodes to as many instructions and references as it says. `on_progress` gets the share done, and
    /// false from it ends the work early.
    pub(super) fn check(&mut self, on_progress: &mut dyn FnMut(Option<f64>) -> bool) -> Verified {
        let mut found = Verified { checksums: true, problems: self.wrong_at_end(), ..Verified::default() };
        let cut = found.problems.len();
        let mut more = 0u64;
        let mut decoder = self.decoder_anew();
        let entries = self.chunks().to_vec();
        for (i, entry) in entries.iter().enumerate() {
            if !on_progress(Some(i as f64 / entries.len() as f64)) {
                found.problems.push(format!("interrupted: chunks from byte {} on were not checked", entry.offset));
                break;
            }
            let checked = self.check_chunk(entry.offset).and_then(|(header, payload)| {
                entry.check(entry.offset, &header)?;
                if found.problems.len() == cut {
                    check_content(&mut decoder, header, &payload, self.is_last(i))?;
                }
                Ok(header)
            });
            match checked {
                Ok(header) => {
                    found.chunks += 1;
                    found.instructions = found.instructions.wrapping_add(header.instructions);
                    found.references = found.references.wrapping_add(header.references);
                }
                Err(what) if found.problems.len() < MAX_PROBLEMS => {
                    found.problems.push(format!("byte {}: chunk {i}: {what}", entry.offset));
                }
                Err(_) => more += 1,
            }
        }
        if more > 0 {
            found.problems.push(format!("{more} more chunks are damaged"));
        }
        found
    }

    /// Reads the chunk at `offset`, whatever was read before.
    fn check_chunk(&mut self, offset: u64) -> Result<(ChunkHeader, Vec<u8>), String> {
        let last = self.end_of_chunks();
        let input = self.input();
        let mut head = [0; CHUNK_HEADER];
        input.seek(SeekFrom::Start(offset)).and_then(|_| input.read_exact(&mut head)).map_err(|e| e.to_string())?;
        let header = ChunkHeader::parse(&head)?;
        if offset + CHUNK_HEADER as u64 + header.payload() > last {
            return Err(format!("its lengths are damaged: they reach beyond byte {last}, where the chunks end"));
        }
        let mut payload = vec![0; header.payload() as usize];
        input.read_exact(&mut payload).map_err(|e| e.to_string())?;
        if checksum(&head, &payload) != header.checksum {
            return Err("its checksum does not hold".into());
        }
        Ok((header, payload))
    }
}

/// Decodes a chunk, which compares its counts with those of its header.
fn check_content(decoder: &mut Decoder, header: ChunkHeader, payload: &[u8], last: bool) -> Result<(), String> {
    decoder.open(header, payload, last)?;
    let mut batch = Batch::default();
    while decoder.is_open() {
        batch.clear();
        decoder.decode(&mut batch)?;
    }
    Ok(())
}
