//! A recording as it would be under another heap allocator. Each object gets a place from a modelled allocator, in a
//! window of addresses that the recorded program does not use. References inside it move there with it, and the
//! modelled allocator's own system calls stand between them. Memory that is not an object stays where it is. That is
//! the recorded allocator's records, the memory it zeroes and copies before it returns, and the memory it had from the
//! system.

mod allocator;
mod blocks;
mod classes;
mod decay;
mod desc;
mod glibc;
mod jemalloc;
mod mappings;
mod objects;
mod runs;
mod space;
mod window;

pub use desc::{BlocksDesc, Bookkeeping, GlibcDesc, HeapDesc, JemallocDesc};

use crate::ReshapeError;
use crate::rewrite::{Refused, Rewrite, Rewritten};
use desc::WINDOW_BYTES;
use mmulab_addr::{VirtAddr, VirtRange};
use mmulab_trace::{Backing, Batch, Description, Event, Item, Ref, Source, TraceInfo};
use objects::Found;
use serde_json::json;
use space::Spaces;
use std::sync::Arc;

/// `source` with its heap kept as `desc` says.
///
/// # Errors
/// The description cannot be met, or the trace does not tell of the heap.
pub fn reshape(desc: &HeapDesc, source: Box<dyn Source>) -> Result<Box<dyn Source>, ReshapeError> {
    desc.check()?;
    let info = source.info();
    if !info.has_heap || !info.has_address_space {
        return Err(ReshapeError::NoHeap(info.name.clone()));
    }
    let window = VirtRange::sized(VirtAddr::new(desc.window()), WINDOW_BYTES);
    let instructions_per_ms = match desc {
        HeapDesc::Jemalloc(desc) => desc.instructions_per_ms,
        HeapDesc::Glibc(_) | HeapDesc::Blocks(_) => 1,
    };
    let anew = Anew {
        desc: desc.clone(),
        raw: Batch::default(),
        spaces: Spaces::new(desc.clone()),
        window,
        instructions: 0,
        instructions_per_ms,
        moved: 0,
        between: 0,
        named: None,
    };
    Ok(Box::new(Rewritten::new(source, anew)))
}

/// In place of a reference that is left out.
const NOTHING: Ref = Ref::retire(0);

/// A source with its objects moved.
struct Anew {
    desc: HeapDesc,
    /// What the source said, while it is told otherwise.
    raw: Batch,
    spaces: Spaces,
    /// Where modelled allocators have objects.
    window: VirtRange,
    instructions: u64,
    instructions_per_ms: u64,
    /// Loads and stores in objects; and in what the recorded allocator keeps between them.
    moved: u64,
    between: u64,
    /// The range that a name was last given to, and the name.
    named: Option<(VirtRange, Arc<str>)>,
}

impl Anew {
    fn now_ns(&self) -> u64 {
        let ns = u128::from(self.instructions) * 1_000_000 / u128::from(self.instructions_per_ms);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Moves the references of `words`, among which are no events. Those to be left out become [`NOTHING`].
    fn move_all(&mut self, words: &mut [Ref]) {
        let drops = self.desc.bookkeeping() == Bookkeeping::Drop;
        let objects = self.spaces.objects();
        let (mut moved, mut between) = (0, 0);
        for word in words {
            if word.is_fetch() {
                self.instructions += u64::from(word.instructions());
            } else if word.is_control() {
                if let Item::Retire(count) = word.item() {
                    self.instructions = self.instructions.saturating_add(count);
                }
            } else {
                match objects.find(word.va().raw()) {
                    Found::Object(delta) => {
                        *word = word.moved(delta);
                        moved += 1;
                    }
                    Found::Between => {
                        between += 1;
                        if drops {
                            *word = NOTHING;
                        }
                    }
                    Found::Elsewhere => {}
                }
            }
        }
        self.moved += moved;
        self.between += between;
    }

    /// Tells what was said, among which are events.
    fn tell_events(&mut self, batch: &mut Batch) -> Result<(), String> {
        let mut raw = std::mem::take(&mut self.raw);
        let mut rest = raw.refs.as_mut_slice();
        let mut done = Ok(());
        while !rest.is_empty() && done.is_ok() {
            let until = rest.iter().position(|w| matches!(w.item(), Item::Event(_))).unwrap_or(rest.len());
            let (words, after) = rest.split_at_mut(until);
            self.move_all(words);
            batch.refs.extend_from_slice(words);
            let Some((word, after)) = after.split_first_mut() else { break };
            if let Item::Event(index) = word.item() {
                // Each event has one word: it may be moved.
                let event = std::mem::replace(&mut raw.events[index], Event::Tick);
                done = self.event(event, batch);
            }
            rest = after;
        }
        raw.clear();
        self.raw = raw;
        done
    }

    fn event(&mut self, mut event: Event, batch: &mut Batch) -> Result<(), String> {
        let now = self.now_ns();
        match &mut event {
            Event::Malloc { addr, len, align } => {
                let recorded = *addr;
                *addr = self.spaces.malloc(addr.raw(), *len, *align, now, batch)?;
                // The recorded allocator mapped the object, and the mapping has a name already.
                let named = self.named.take().filter(|(range, _)| range.contains(recorded));
                if let Some((_, name)) = named {
                    let name = Event::Name { addr: *addr, len: *len, name };
                    batch.push_event(event);
                    batch.push_event(name);
                    return Ok(());
                }
            }
            Event::Name { addr, len, name } => {
                self.named = Some((VirtRange::sized(*addr, *len), Arc::clone(name)));
                // A name that ends may be of some bytes more than the program asked for.
                *addr = self.spaces.moved(*addr, 1);
            }
            Event::Free { addr } => match self.spaces.free(addr.raw(), now, batch) {
                Some(to) => *addr = to,
                // It was given out before the recording, or by a function that is not recorded.
                None => return Ok(()),
            },
            // Of an object, as of a buffer that the program aligned: it is told of where that is now. Of all else, as
            // of memory that the recorded allocator frees, nothing moved.
            Event::Madvise { addr, len, .. } | Event::Mprotect { addr, len, .. } => {
                *addr = self.spaces.moved(*addr, *len);
            }
            Event::Mmap { addr, len, flags, backing, .. } => {
                self.keep_out(*addr, *len)?;
                let can_hold = *backing == Backing::Anon && !flags.shared && !flags.grows_down;
                self.spaces.map(*addr, *len, can_hold);
            }
            Event::Mremap { old, old_len, new, new_len, keep_old } => {
                self.keep_out(*new, *new_len)?;
                self.spaces.remap((*old, *old_len), (*new, *new_len), *keep_old);
            }
            Event::Munmap { addr, len } => self.spaces.map(*addr, *len, false),
            Event::Brk { start, end } => {
                self.keep_out(*start, end.raw().saturating_sub(start.raw()))?;
                self.spaces.brk(*start, *end);
            }
            Event::Switch { pid, .. } => self.spaces.switch(*pid),
            Event::Fork { child, shares_memory } => self.spaces.fork(*child, *shares_memory),
            Event::Exec { .. } | Event::Exit { .. } => self.spaces.leave(),
            Event::Image { .. }
            | Event::Clone { .. }
            | Event::ExitThread
            | Event::Prctl { .. }
            | Event::Pin { .. }
            | Event::Invlpg { .. }
            | Event::Tick
            | Event::Resume
            | Event::Pause
            | Event::Continue { .. }
            | Event::Frames { .. }
            | Event::Lost { .. } => {}
        }
        batch.push_event(event);
        Ok(())
    }

    fn keep_out(&self, addr: VirtAddr, len: u64) -> Result<(), String> {
        if len > 0 && VirtRange::sized(addr, len).overlaps(self.window) {
            return Err(format!(
                "the program maps {addr}, among the addresses that its heap is given; name others with heap.window"
            ));
        }
        Ok(())
    }
}

impl Rewrite for Anew {
    fn rewrite(&mut self, batch: &mut Batch) -> Result<(), Refused> {
        // Many batches have no events: they are told in place.
        let told = if batch.events.is_empty() {
            self.move_all(&mut batch.refs);
            Ok(())
        } else {
            std::mem::swap(batch, &mut self.raw);
            batch.clear();
            batch.code = std::mem::take(&mut self.raw.code);
            self.tell_events(batch)
        };
        if self.desc.bookkeeping() == Bookkeeping::Drop {
            batch.refs.retain(|&word| word != NOTHING);
        }
        told.map_err(|why| Refused { at: format!("instruction {}", self.instructions), why })
    }

    fn enter(&mut self, info: &mut TraceInfo) {
        let mut heap = json!(self.desc);
        heap["counts"] = json!(self.spaces.counts);
        heap["counts"]["references_moved"] = json!(self.moved);
        heap["counts"]["references_between"] = json!(self.between);
        info.reshaped.insert("heap".into(), heap);
    }

    fn has_news(&self) -> bool {
        true
    }

    fn describe(&self, description: &mut Description) {
        let kind = match &self.desc {
            HeapDesc::Jemalloc(_) => "jemalloc",
            HeapDesc::Glibc(_) => "glibc",
            HeapDesc::Blocks(_) => "blocks",
        };
        description.source.push_str(&format!("; its heap kept as by {kind}"));
    }
}
