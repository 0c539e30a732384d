//! A recording as it would be had its functions been linked in another order. Each fetch, load and store of code goes
//! to the new place of its byte. Mappings, and all other memory, stay as they were.

use super::{
    code::{CodeMaps, Place},
    file::OrderFile,
};
use crate::{
    error::ReshapeError,
    rewrite::{Refused, Rewrite, Rewritten},
};
use mmulab_trace::{Batch, Description, Item, Source, TraceInfo};
use serde_json::json;

/// `source` with the functions of its files ordered as `file` says.
///
/// # Errors
/// The trace has no mappings, or the order is none.
pub fn reshape(file: &OrderFile, source: Box<dyn Source>) -> Result<Box<dyn Source>, ReshapeError> {
    file.check()?;
    if !source.info().has_address_space {
        return Err(ReshapeError::NoMappings(source.info().name.clone()));
    }
    let maps = CodeMaps::of(file.files.iter().map(|file| file.path.as_str().into()).collect());
    let mut moves: Vec<Vec<Moved>> = Vec::new();
    for file in &file.files {
        let moved = file.moves.iter().map(|part| Moved {
            start: part.offset,
            end: part.offset + part.bytes,
            delta: part.to.wrapping_sub(part.offset),
        });
        let mut moved: Vec<Moved> = moved.collect();
        moved.sort_unstable_by_key(|part| part.start);
        moves.push(moved);
    }
    let functions = file.files.iter().map(|file| file.moves.len()).sum();
    let ordered = Ordered { method: file.method.clone(), files: file.files.len(), functions, maps, moves };
    Ok(Box::new(Rewritten::new(source, ordered)))
}

/// Bytes of a file that move alike.
#[derive(Clone, Copy)]
struct Moved {
    start: u64,
    end: u64,
    delta: u64,
}

struct Ordered {
    method: String,
    files: usize,
    functions: usize,
    maps: CodeMaps,
    /// By number of the file, in order.
    moves: Vec<Vec<Moved>>,
}

impl Ordered {
    fn delta(&mut self, va: u64) -> u64 {
        let Some(Place { file, offset }) = self.maps.find(va) else { return 0 };
        let moves = &self.moves[file];
        let next = moves.partition_point(|part| part.start <= offset);
        next.checked_sub(1).map(|at| moves[at]).filter(|part| offset < part.end).map_or(0, |part| part.delta)
    }
}

impl Rewrite for Ordered {
    fn rewrite(&mut self, batch: &mut Batch) -> Result<(), Refused> {
        for word in &mut batch.refs {
            if !word.is_control() {
                *word = word.moved(self.delta(word.va().raw()));
            } else if let Item::Event(index) = word.item() {
                self.maps.event(&batch.events[index]);
            }
        }
        Ok(())
    }

    fn enter(&mut self, info: &mut TraceInfo) {
        let Self { method, files, functions, .. } = self;
        info.reshaped.insert("order".into(), json!({ "method": method, "files": files, "functions": functions }));
    }

    fn describe(&self, description: &mut Description) {
        description.source.push_str("; its functions in another order");
    }
}
