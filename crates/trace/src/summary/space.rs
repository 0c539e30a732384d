//! Address spaces of a trace summary: the VMAs of each process, rebuilt from mapping events, and the pages touched in
//! each mapping. A summary thus shows the use of memory by mapping name without a simulated kernel.

use super::pages::{Distinct, Pages};
use crate::{Backing, Event};
use mmulab_addr::{BASE_BYTES, Pid, Prot, VirtAddr, Vpn};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

/// Memory mapped under one name with the same rights, in all processes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MappingSummary {
    /// The file, the label, or what it is.
    pub name: String,
    /// `file`, `anon`, `heap`, `stack`; `none` for memory that no event mapped.
    pub kind: &'static str,
    /// Its rights when it was mapped, as `r-x`.
    pub rights: String,
    /// Mappings of it that were made.
    pub mappings: u64,
    /// The most bytes that were mapped at once.
    pub mapped_bytes: u64,
    /// Base pages fetched from; counted again when mapped again.
    pub code_pages: u64,
    /// Base pages loaded from or stored to; counted again when mapped again.
    pub data_pages: u64,
    /// Bytes of the pages touched in either way, at most: a page that is both counts twice.
    pub touched_bytes: u64,
}

/// Most mappings of all processes at once: as many as a simulated kernel holds.
const MAPPINGS_MAX: usize = 1 << 20;
/// Most blocks of 2 MiB touched, in all processes. Each takes some hundred bytes. Full, they would be 8 TiB.
const BLOCKS_MAX: usize = 1 << 22;
/// Names of mappings told apart; those after are one.
const MAX_NAMES: usize = 4096;
/// How far below a stack its next page may lie: Linux's usual limit of a stack, 8 MiB.
const STACK_PAGES: u64 = (8 << 20) / BASE_BYTES;

/// The address spaces of a trace, and what was touched in them.
pub(super) struct Spaces {
    /// By process; processes that share memory have the same.
    of: BTreeMap<Pid, usize>,
    spaces: Vec<Space>,
    acting: Pid,
    current: usize,
    groups: Groups,
    /// The page touched last on each side: most references touch it again.
    last: [Vpn; 2],
    /// Mappings, and blocks of 2 MiB touched, in all spaces.
    held: [usize; 2],
}

#[derive(Default)]
struct Space {
    /// By first page.
    vmas: BTreeMap<u64, Vma>,
    pages: Pages,
    /// The page the heap begins with, for moving its end.
    heap: Option<u64>,
}

#[derive(Clone, Copy)]
struct Vma {
    end: u64,
    group: usize,
    grows_down: bool,
}

/// Mappings by name, kind and rights.
#[derive(Default)]
struct Groups {
    known: BTreeMap<(Arc<str>, &'static str, u8), usize>,
    all: Vec<Group>,
}

struct Group {
    summary: MappingSummary,
    /// Pages mapped now.
    pages: u64,
    most: u64,
}

impl Groups {
    fn named(&mut self, name: &Arc<str>, kind: &'static str, prot: Prot) -> usize {
        let mut key = (Arc::clone(name), kind, prot.bits());
        if self.all.len() >= MAX_NAMES && !self.known.contains_key(&key) {
            key = ("(others)".into(), "anon", 0);
        }
        let next = self.all.len();
        let group = *self.known.entry(key.clone()).or_insert(next);
        if group == next {
            let letter = |right, letter| if prot.has(right) { letter } else { '-' };
            let rights = [letter(Prot::R, 'r'), letter(Prot::W, 'w'), letter(Prot::X, 'x')].iter().collect();
            let summary = MappingSummary {
                name: key.0.to_string(),
                kind: key.1,
                rights,
                mappings: 0,
                mapped_bytes: 0,
                code_pages: 0,
                data_pages: 0,
                touched_bytes: 0,
            };
            self.all.push(Group { summary, pages: 0, most: 0 });
        }
        group
    }

    fn grow(&mut self, group: usize, pages: u64) {
        let group = &mut self.all[group];
        group.pages = group.pages.saturating_add(pages);
        group.most = group.most.max(group.pages);
    }

    fn shrink(&mut self, group: usize, pages: u64) {
        let group = &mut self.all[group];
        group.pages = group.pages.saturating_sub(pages);
    }
}

impl Default for Spaces {
    fn default() -> Self {
        Self {
            of: BTreeMap::from([(Pid(1), 0)]),
            spaces: vec![Space::default()],
            acting: Pid(1),
            current: 0,
            groups: Groups::default(),
            last: [Vpn(u64::MAX); 2],
            held: [0; 2],
        }
    }
}

/// First page and end of a range of bytes, rounded outwards.
fn pages(addr: VirtAddr, len: u64) -> (u64, u64) {
    let start = addr.vpn().0;
    let inside = addr.raw() & (BASE_BYTES - 1);
    // The number of pages that a 57-bit space has bounds what a hostile length can say.
    let count = len.saturating_add(inside).div_ceil(BASE_BYTES).min(1 << 45);
    (start, start + count)
}

impl Spaces {
    /// A reference of the acting process; true if its page was not the one before.
    #[inline]
    pub fn touch(&mut self, va: VirtAddr, code: bool) -> bool {
        let vpn = va.vpn();
        let last = &mut self.last[usize::from(!code)];
        if *last == vpn {
            return false;
        }
        *last = vpn;
        let pages = &mut self.spaces[self.current].pages;
        let before = pages.blocks();
        let new = pages.touch(vpn, code);
        self.held[1] += pages.blocks() - before;
        if new {
            let group = self.group_at(vpn.0);
            let summary = &mut self.groups.all[group].summary;
            *(if code { &mut summary.code_pages } else { &mut summary.data_pages }) += 1;
        }
        true
    }

    /// The mapping at `page`.
    fn group_at(&mut self, page: u64) -> usize {
        let space = &mut self.spaces[self.current];
        if let Some((_, vma)) = space.vmas.range(..=page).next_back().filter(|(_, vma)| page < vma.end) {
            return vma.group;
        }
        let above = space.vmas.range(page..).next().map(|(&start, &vma)| (start, vma));
        if let Some((start, vma)) = above.filter(|(start, vma)| vma.grows_down && start - page <= STACK_PAGES) {
            space.vmas.remove(&start);
            // As many as before: it takes the place of the one that grew.
            space.vmas.insert(page, vma);
            self.groups.grow(vma.group, start - page);
            return vma.group;
        }
        self.groups.named(&"(no mapping told)".into(), "none", Prot::NONE)
    }

    /// Whether there is room for what was taken in.
    pub fn check(&self) -> Result<(), String> {
        let limits = [("mappings at once", MAPPINGS_MAX), ("touched blocks of 2 MB", BLOCKS_MAX)];
        for (held, (what, most)) in self.held.into_iter().zip(limits) {
            if held > most {
                return Err(format!("its processes have more than {most} {what}, the most that are summarised"));
            }
        }
        Ok(())
    }

    /// Takes in an event of the acting process.
    pub fn event(&mut self, event: &Event) {
        self.last = [Vpn(u64::MAX); 2];
        let before = self.spaces[self.current].vmas.len();
        if let Event::Fork { shares_memory: false, .. } = event
            && self.held[0] + before > MAPPINGS_MAX
        {
            // Not even made: that it is too much is found out right after.
            self.held[0] += before;
            return;
        }
        let at = self.current;
        self.take(event);
        match event {
            Event::Switch { .. } => {}
            Event::Fork { shares_memory, .. } => self.held[0] += if *shares_memory { 0 } else { before },
            _ => self.held[0] = self.held[0] + self.spaces[at].vmas.len() - before,
        }
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Switch { pid, .. } => {
                self.acting = *pid;
                let next = self.spaces.len();
                self.current = *self.of.entry(*pid).or_insert(next);
                if self.current == next {
                    self.spaces.push(Space::default());
                }
            }
            Event::Mmap { addr, len, prot, flags, backing } => {
                let (name, kind): (Arc<str>, _) = match (&flags.label, backing) {
                    _ if flags.grows_down => (flags.label.clone().unwrap_or_else(|| "[stack]".into()), "stack"),
                    (Some(label), _) if label.starts_with("[stack") => (Arc::clone(label), "stack"),
                    (_, Backing::File { path, .. }) => (Arc::clone(path), "file"),
                    (Some(label), Backing::Anon) => (Arc::clone(label), "anon"),
                    (None, Backing::Anon) => ("anon".into(), "anon"),
                };
                let group = self.groups.named(&name, kind, *prot);
                let (start, end) = pages(*addr, *len);
                self.map(start, end, group, flags.grows_down);
            }
            Event::Munmap { addr, len } => {
                let (start, end) = pages(*addr, *len);
                self.clear(start, end);
            }
            Event::Mremap { old, old_len, new, new_len, keep_old } => {
                let (start, end) = pages(*old, *old_len);
                let vmas = &self.spaces[self.current].vmas;
                let Some(vma) = vmas.range(..end).next_back().map(|(_, &vma)| vma).filter(|v| v.end > start) else {
                    return;
                };
                if !keep_old {
                    self.clear(start, end);
                }
                let (start, end) = pages(*new, *new_len);
                self.map(start, end, vma.group, false);
            }
            Event::Brk { start, end } => {
                self.move_heap(start.vpn().0, pages(*start, end.raw().saturating_sub(start.raw())).1)
            }
            Event::Name { addr, len, name } => self.name(*addr, *len, name),
            Event::Fork { child, shares_memory } => self.fork(*child, *shares_memory),
            Event::Exec { .. } => self.renew(),
            Event::Exit { .. } => {
                self.renew();
                self.of.remove(&self.acting);
            }
            _ => {}
        }
    }

    fn map(&mut self, start: u64, end: u64, group: usize, grows_down: bool) {
        self.clear(start, end);
        if start < end {
            self.spaces[self.current].vmas.insert(start, Vma { end, group, grows_down });
            self.groups.grow(group, end - start);
            self.groups.all[group].summary.mappings += 1;
        }
    }

    /// Anonymous mappings have a name from here on, or none, on the whole pages of a range. The heap is one mapping
    /// here, so its parts have no names.
    fn name(&mut self, addr: VirtAddr, len: u64, name: &str) {
        let (start, end) = (addr.raw().div_ceil(BASE_BYTES), addr.raw().saturating_add(len) / BASE_BYTES);
        let vmas = &self.spaces[self.current].vmas;
        let below = vmas.range(..start).next_back().filter(|(_, vma)| vma.end > start).map(|(&at, _)| at);
        let within: Vec<u64> = below.into_iter().chain(vmas.range(start..end.max(start)).map(|(&at, _)| at)).collect();
        for at in within {
            let Some(vma) = self.spaces[self.current].vmas.get(&at).copied() else { continue };
            let summary = &self.groups.all[vma.group].summary;
            if summary.kind != "anon" || !(summary.name == "anon" || summary.name.starts_with("anon: ")) {
                continue;
            }
            let (first, last) = (at.max(start), vma.end.min(end));
            if first >= last {
                continue;
            }
            let letters = summary.rights.bytes().zip([Prot::R, Prot::W, Prot::X]);
            let prot =
                letters.filter(|(letter, _)| *letter != b'-').fold(Prot::NONE, |all, (_, right)| all.with(right));
            let group = match name {
                "" => self.groups.named(&"anon".into(), "anon", prot),
                stack if stack.starts_with("[stack") => self.groups.named(&stack.into(), "stack", prot),
                site => self.groups.named(&format!("anon: {site}").into(), "anon", prot),
            };
            self.groups.shrink(vma.group, last - first);
            self.groups.grow(group, last - first);
            // A mapping that is named as a whole is the name's, not one more.
            if first == at && last == vma.end {
                let old = &mut self.groups.all[vma.group].summary.mappings;
                *old = old.saturating_sub(1);
            }
            self.groups.all[group].summary.mappings += 1;
            let vmas = &mut self.spaces[self.current].vmas;
            vmas.remove(&at);
            let parts = [(at, first, vma.group), (first, last, group), (last, vma.end, vma.group)];
            for (from, to, group) in parts.into_iter().filter(|(from, to, _)| from < to) {
                vmas.insert(from, Vma { end: to, group, grows_down: false });
            }
        }
    }

    /// Unmaps a range, splitting what reaches beyond it.
    fn clear(&mut self, start: u64, end: u64) {
        let space = &mut self.spaces[self.current];
        let first = space.vmas.range(..start).next_back().filter(|(_, vma)| vma.end > start).map(|(&at, _)| at);
        let inside: Vec<u64> = first.into_iter().chain(space.vmas.range(start..end).map(|(&at, _)| at)).collect();
        for at in inside {
            let Some(vma) = space.vmas.remove(&at) else { continue };
            self.groups.shrink(vma.group, vma.end.min(end) - at.max(start));
            if at < start {
                space.vmas.insert(at, Vma { end: start, ..vma });
            }
            if vma.end > end {
                space.vmas.insert(end, Vma { grows_down: false, ..vma });
            }
        }
        space.pages.forget(start, end);
    }

    /// The heap is `start..end` from here on.
    fn move_heap(&mut self, start: u64, end: u64) {
        let group = self.groups.named(&"[heap]".into(), "heap", Prot::RW);
        let space = &self.spaces[self.current];
        let old = space.heap.filter(|&heap| heap == start);
        let old_end = old.and_then(|_| space.vmas.get(&start)).filter(|vma| vma.group == group).map(|vma| vma.end);
        match old_end {
            Some(old_end) if end < old_end => self.clear(end.max(start), old_end),
            Some(old_end) => {
                self.clear(old_end, end);
                if let Some(vma) = self.spaces[self.current].vmas.get_mut(&start) {
                    vma.end = end;
                }
                self.groups.grow(group, end - old_end);
            }
            None => self.map(start, end, group, false),
        }
        self.spaces[self.current].heap = Some(start);
    }

    fn fork(&mut self, child: Pid, shares_memory: bool) {
        let space = if shares_memory {
            self.current
        } else {
            let parent = &self.spaces[self.current];
            let copy = Space { vmas: parent.vmas.clone(), heap: parent.heap, ..Space::default() };
            copy.vmas.iter().for_each(|(start, vma)| self.groups.grow(vma.group, vma.end - start));
            self.spaces.push(copy);
            self.spaces.len() - 1
        };
        self.of.insert(child, space);
    }

    /// The acting process has an empty space of its own from here on.
    fn renew(&mut self) {
        let borrowed = self.of.iter().any(|(&pid, &space)| space == self.current && pid != self.acting);
        if !borrowed {
            for (start, vma) in std::mem::take(&mut self.spaces[self.current].vmas) {
                self.groups.shrink(vma.group, vma.end - start);
            }
        }
        self.current = self.spaces.len();
        self.spaces.push(Space::default());
        self.of.insert(self.acting, self.current);
    }

    /// Counts accesses anew from here on; returns the pages that were in use.
    pub fn count_anew(&mut self) -> u64 {
        for group in &mut self.groups.all {
            (group.summary.code_pages, group.summary.data_pages) = (0, 0);
        }
        self.last = [Vpn(u64::MAX); 2];
        self.held[1] = 0;
        self.spaces.iter_mut().map(|space| std::mem::take(&mut space.pages).in_use()).sum()
    }

    /// The pages ever touched in all spaces.
    pub fn distinct(&self) -> Distinct {
        self.spaces.iter().map(|s| s.pages.distinct()).fold(Distinct::default(), |a, b| Distinct {
            code: a.code + b.code,
            data: a.data + b.data,
            either: a.either + b.either,
        })
    }

    /// Mappings, the most accessed first.
    pub fn mappings(self) -> Vec<MappingSummary> {
        let mut all: Vec<MappingSummary> = self
            .groups
            .all
            .into_iter()
            .map(|Group { summary: s, most, .. }| MappingSummary {
                mapped_bytes: most.saturating_mul(BASE_BYTES),
                touched_bytes: (s.code_pages + s.data_pages) * BASE_BYTES,
                ..s
            })
            .collect();
        let rank = |m: &MappingSummary| (std::cmp::Reverse((m.touched_bytes, m.mapped_bytes)), m.name.clone());
        all.sort_by_cached_key(rank);
        all
    }
}
