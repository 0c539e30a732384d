//! The ELF files of one address space. The loader maps files piece by piece, and this state decides when a mapping is a
//! program, a library, or only data.

use super::{
    desc::Window,
    file::{Relinked, Unfit, down},
    files::Files,
    loaded::{Loaded, page_range},
    spans::{Kind, Span, Spans},
};
use mmulab_addr::{Prot, VirtAddr};
use mmulab_trace::{Backing, Event, MapFlags};
use std::sync::Arc;

/// A mapping of a file's beginning. It may become a program's, which its code's mapping tells, or be data.
#[derive(Clone, Debug)]
struct Waiting {
    event: Event,
    start: u64,
    end: u64,
    path: Arc<str>,
    bias: u64,
}

/// An address space: what is mapped of ELF files, as recorded and as told.
#[derive(Clone, Debug)]
pub struct Space {
    window: Window,
    loaded: Vec<Loaded>,
    /// Files that were loaded where and as they would be anew, each with how far it is from where its headers place it.
    same: Vec<(Arc<Relinked>, u64)>,
    waiting: Vec<Waiting>,
    pub spans: Spans,
}

/// Why a recording cannot be told with its files linked anew.
pub type Refusal = String;

impl Space {
    /// An empty one, whose files are told at `window`.
    pub fn new(window: Window) -> Self {
        let mut space =
            Self { window, loaded: Vec::new(), same: Vec::new(), waiting: Vec::new(), spans: Spans::default() };
        space.rebuild_spans();
        space
    }

    /// Rebuilds the table of recorded addresses and how far they move.
    fn rebuild_spans(&mut self) {
        let mut known = vec![Span { start: self.window.start, bytes: self.window.bytes, delta: 0, kind: Kind::Kept }];
        self.loaded.iter().for_each(|image| image.spans(&mut known));
        let waiting = |w: &Waiting| Span { start: w.start, bytes: w.end - w.start, delta: 0, kind: Kind::Waiting };
        known.extend(self.waiting.iter().filter(|w| w.start < w.end).map(waiting));
        self.spans = Spans::new(known);
    }

    /// Takes in what the acting process did to its memory; `out` is what is told instead.
    pub fn event(&mut self, event: Event, files: &mut Files, out: &mut Vec<Event>) -> Result<(), Refusal> {
        match &event {
            Event::Mmap { addr, len, prot, flags, backing } => {
                if let Backing::File { path, offset } = backing
                    && !flags.shared
                    && self.map_file(&event, path, *offset, files, out)?
                {
                    return Ok(());
                }
                let (start, end) = page_range(*addr, *len);
                if *backing == Backing::Anon && self.map_zeroes((start, end), *prot, flags, out) {
                    return Ok(());
                }
                self.keep_free(start, end, "maps memory")?;
                self.release(start, end, out);
                self.unmap(start, end, out);
                out.push(event);
            }
            Event::Munmap { addr, len } => {
                let (start, end) = page_range(*addr, *len);
                self.release(start, end, out);
                let rest = self.spans.outside(start, end);
                self.unmap(start, end, out);
                tell_rest(rest, (start, end), &event, out);
            }
            Event::Mprotect { addr, len, prot } => {
                let (start, end) = page_range(*addr, *len);
                self.release(start, end, out);
                self.loaded.iter_mut().for_each(|image| image.protect(start, end, *prot, out));
                tell_rest(self.spans.outside(start, end), (start, end), &event, out);
            }
            Event::Madvise { addr, len, advice } => {
                let (start, end) = page_range(*addr, *len);
                self.release(start, end, out);
                self.loaded.iter().for_each(|image| image.advise(start, end, *advice, out));
                tell_rest(self.spans.outside(start, end), (start, end), &event, out);
            }
            Event::Mremap { .. } => self.mremap(event, out)?,
            Event::Brk { start, end } => {
                self.keep_free(down(start.raw()), end.raw(), "has its heap")?;
                out.push(event);
            }
            Event::Invlpg { addr } => {
                let delta = self.spans.find(*addr).delta;
                out.push(Event::Invlpg { addr: addr.add(delta) });
            }
            _ => out.push(event),
        }
        Ok(())
    }

    /// Refuses what lies where files are told.
    fn keep_free(&self, start: u64, end: u64, what: &str) -> Result<(), Refusal> {
        if start >= self.window.end() || end <= self.window.start {
            return Ok(());
        }
        Err(format!(
            "the program {what} at {start:#x}, among the addresses from {:#x} on that files linked anew are given; \
             name others with image.window",
            self.window.start
        ))
    }

    /// A private mapping of a file; true if it was told.
    fn map_file(
        &mut self,
        event: &Event,
        path: &Arc<str>,
        offset: u64,
        files: &mut Files,
        out: &mut Vec<Event>,
    ) -> Result<bool, Refusal> {
        let Event::Mmap { addr, len, prot, .. } = event else { return Ok(false) };
        let (start, end) = page_range(*addr, *len);
        if self.map_loaded(event, path, (start, end), offset, out) {
            return Ok(true);
        }
        let is_same = |(file, bias): &(Arc<Relinked>, u64)| {
            *file.path == **path && file.shown(start.wrapping_sub(*bias), offset).is_some()
        };
        if self.same.iter().any(is_same) {
            return Ok(false);
        }
        let is_code = prot.has(Prot::X);
        let file = match files.get(path) {
            Ok(file) => Arc::clone(file),
            Err(Unfit::NoHeaders) if is_code && files.is_empty() => {
                return Err(format!(
                    "this recording does not hold the program headers of {path}, so where its segments end is unknown; \
                     `mmulab trace convert --program-headers` adds them where the recorded files still are"
                ));
            }
            Err(why) => {
                if is_code {
                    files.left(path, why);
                }
                return Ok(false);
            }
        };
        let begins = |index: &usize| down(file.pieces[*index].old.offset) == offset;
        let bias_of = |index: usize| start.wrapping_sub(down(file.pieces[index].old.address));
        let of_this = |bias: u64| self.waiting.iter().any(|w| w.path == *path && w.bias == bias);
        let mut shown = (0..file.pieces.len()).filter(begins);
        let continued = shown.clone().map(bias_of).find(|&bias| of_this(bias));
        let has_code = |index: &usize| file.pieces[*index].old.prot.has(Prot::X);
        let bias = match continued {
            Some(bias) => bias,
            None if is_code => match shown.find(has_code) {
                Some(index) => bias_of(index),
                None => {
                    files.left(path, Unfit::Apart);
                    return Ok(false);
                }
            },
            // Only a file's beginning can be the first of it.
            None if offset == 0 => bias_of(0),
            None => return Ok(false),
        };
        if !is_code {
            self.keep_free(start, end, "maps a file")?;
            if continued.is_none() {
                self.release(start, end, out);
            }
            self.unmap(start, end, out);
            let overlaps = |w: &Waiting| w.start < end && start < w.end;
            // What is mapped over the whole file's place is looked for by the whole place.
            let end = if self.waiting.iter().any(overlaps) { start } else { end };
            let path = Arc::clone(path);
            self.waiting.push(Waiting { event: event.clone(), start, end, path, bias });
            self.rebuild_spans();
            return Ok(true);
        }
        self.load(&file, bias, files, out)?;
        // Unless it stays where it was.
        Ok(self.map_loaded(event, path, (start, end), offset, out))
    }

    /// A mapping of `path` at `start..end`: true if it is one of a loaded file, and told.
    fn map_loaded(
        &mut self,
        event: &Event,
        path: &str,
        (start, end): (u64, u64),
        offset: u64,
        out: &mut Vec<Event>,
    ) -> bool {
        let Some(index) = self.loaded.iter().position(|image| image.shows(path, start, offset)) else { return false };
        for (other, image) in self.loaded.iter_mut().enumerate() {
            if other != index {
                image.unmap(start, end, out);
            }
        }
        self.loaded[index].map_file(event, out);
        self.loaded.retain(Loaded::is_mapped);
        self.rebuild_spans();
        true
    }

    /// `file` is loaded, `bias` bytes from where its headers place it.
    fn load(
        &mut self,
        file: &Arc<Relinked>,
        bias: u64,
        files: &mut Files,
        out: &mut Vec<Event>,
    ) -> Result<(), Refusal> {
        let first = bias.wrapping_add(down(file.pieces[0].old.address));
        let Some(last) = first.checked_add(file.old_reach).filter(|&end| end <= down(u64::MAX)) else {
            files.left(&file.path, Unfit::Apart);
            return Ok(());
        };
        self.keep_free(first, last, "maps a file")?;
        files.loaded(file);
        let mine = |w: &mut Waiting| w.path == file.path && w.bias == bias;
        let mapped: Vec<Waiting> = self.waiting.extract_if(.., mine).collect();
        if file.same && first.is_multiple_of(files.max_page_size()) {
            out.extend(mapped.into_iter().map(|w| w.event));
            if !self.same.iter().any(|(known, at)| Arc::ptr_eq(known, file) && *at == bias) {
                self.same.push((Arc::clone(file), bias));
            }
            self.rebuild_spans();
            return Ok(());
        }
        // Whatever of another file was there is gone.
        for w in &mapped {
            self.unmap(w.start, w.end, out);
        }
        let base = self.place(first, file.reach, files.max_page_size()).ok_or_else(|| {
            format!("there is no room for {} among the addresses files linked anew are given", file.path)
        })?;
        let mut image = Loaded::new(file, bias, base);
        mapped.iter().for_each(|w| image.map_file(&w.event, out));
        self.loaded.push(image);
        Ok(())
    }

    /// Where a file of `reach` bytes is loaded that was at `first`. It is a multiple of maxpagesize, as Linux's loader
    /// and ld.so choose it. As far as that allows, it is as far into 2 MiB as it was.
    fn place(&self, first: u64, reach: u64, max_page_size: u64) -> Option<u64> {
        const SUPER: u64 = 2 << 20;
        let step = max_page_size.max(SUPER);
        let into = (first % SUPER).next_multiple_of(max_page_size) % step;
        let (first_told, end) = (self.window.start, self.window.end());
        let mut used: Vec<(u64, u64)> = self.loaded.iter().map(Loaded::told).collect();
        used.sort_unstable();
        let next = |from: u64| from.saturating_sub(into).checked_next_multiple_of(step)?.checked_add(into);
        let mut at = next(first_told)?;
        for (start, taken) in used {
            if at.checked_add(reach)? > start && at < taken {
                at = next(taken)?;
            }
        }
        (at >= first_told && at.checked_add(reach)? <= end).then_some(at)
    }

    /// Memory of no file: what a segment has beyond its part of the file? True if it was told.
    fn map_zeroes(&mut self, (start, end): (u64, u64), prot: Prot, flags: &MapFlags, out: &mut Vec<Event>) -> bool {
        let told = self.loaded.iter_mut().any(|image| image.map_zeroes(start, end, prot, flags, out));
        if told {
            self.rebuild_spans();
        }
        told
    }

    /// Nothing of a loaded file is at `start..end` any more.
    fn unmap(&mut self, start: u64, end: u64, out: &mut Vec<Event>) {
        let mut changed = false;
        self.loaded.iter_mut().for_each(|image| changed |= image.unmap(start, end, out));
        if changed {
            self.loaded.retain(Loaded::is_mapped);
            self.rebuild_spans();
        }
    }

    /// Mappings that wait in `start..end` are data.
    fn release(&mut self, start: u64, end: u64, out: &mut Vec<Event>) {
        let Some(found) = self.waiting.iter().find(|w| w.start < end && start < w.end) else { return };
        // Those over it share its fate.
        let (path, bias) = (Arc::clone(&found.path), found.bias);
        out.extend(self.waiting.extract_if(.., |w| w.path == path && w.bias == bias).map(|w| w.event));
        self.rebuild_spans();
        self.release(start, end, out);
    }

    /// The mapping that waits at `va` is data: the program uses it before any code of it is mapped.
    pub fn release_at(&mut self, va: VirtAddr, out: &mut Vec<Event>) {
        self.release(va.raw(), va.raw() + 1, out);
    }

    /// All mappings that wait are data.
    pub fn release_all(&mut self, out: &mut Vec<Event>) {
        out.extend(self.waiting.drain(..).map(|w| w.event));
        self.rebuild_spans();
    }

    fn mremap(&mut self, event: Event, out: &mut Vec<Event>) -> Result<(), Refusal> {
        let Event::Mremap { old, old_len, new, new_len, keep_old } = event else { return Ok(()) };
        let ((start, end), (to, to_end)) = (page_range(old, old_len), page_range(new, new_len));
        self.keep_free(to, to_end, "moves memory")?;
        self.release(start, end, out);
        self.release(to, to_end, out);
        let outside = self.spans.outside(start, end);
        if start == end || outside == [(start, end)] {
            // Growing in place takes nothing of others, and a mapping that moves replaces what was there.
            if to != start {
                self.unmap(to, to_end, out);
            }
            out.push(event);
            return Ok(());
        }
        let moved = self.loaded.iter_mut().find_map(|image| image.move_out(start, end, keep_old));
        let Some(old) = moved.filter(|_| outside.is_empty()) else {
            return Err(format!("the program moves {start:#x}..{end:#x}, pages that linked anew hold parts of others"));
        };
        self.loaded.retain(Loaded::is_mapped);
        self.rebuild_spans();
        self.unmap(to, to_end, out);
        out.push(Event::Mremap { old, old_len, new, new_len, keep_old });
        Ok(())
    }
}

/// Tells `event` of the parts of its range that stay where they are.
fn tell_rest(rest: Vec<(u64, u64)>, whole: (u64, u64), event: &Event, out: &mut Vec<Event>) {
    if rest == [whole] {
        out.push(event.clone());
        return;
    }
    for (start, end) in rest {
        let (addr, len) = (VirtAddr::new(start), end - start);
        out.push(match event {
            Event::Mprotect { prot, .. } => Event::Mprotect { addr, len, prot: *prot },
            Event::Madvise { advice, .. } => Event::Madvise { addr, len, advice: *advice },
            _ => Event::Munmap { addr, len },
        });
    }
}
