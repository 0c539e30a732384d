//! The pieces of a program's memory that reports speak of.
//!
//! A region is what the program asked for in one piece: a mapping of a file with its rights, the brk heap, a stack,
//! an anonymous mapping with those that were put beside it. Later mprotect and madvise calls do not divide it. Regions
//! depend on the trace's events alone, so their numbers are the same under every policy and on every machine, and
//! results can be compared region by region.

use crate::spans::{Piece, Spans};
use mmulab_addr::{PageOrder, Pid, Prot, VirtAddr};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of a region, an index into [`crate::Kernel::regions`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct RegionId(pub u32);

impl RegionId {
    /// Addresses no mapping holds.
    pub const NONE: Self = Self(0);

    /// Its index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a region is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RegionKind {
    /// Not mapped: region 0.
    Unmapped,
    /// A file.
    File,
    /// Anonymous memory.
    Anon,
    /// Anonymous memory shared with other processes.
    Shared,
    /// The brk heap.
    Heap,
    /// A stack.
    Stack,
    /// Something named by the trace, such as `[vdso]`.
    Special,
}

/// A piece of a program's memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Region {
    /// Its number.
    pub id: RegionId,
    /// The process that mapped it.
    pub pid: Pid,
    /// What reports call it: the file with the rights it was mapped with, `[heap]`, `[stack]`, `anon`.
    pub name: Arc<str>,
    /// What it is.
    pub kind: RegionKind,
    /// The lowest address it had.
    pub start: VirtAddr,
    /// The address after the highest it had.
    pub end: VirtAddr,
    /// The rights it was first mapped with.
    #[serde(serialize_with = "rights")]
    pub prot: Prot,
    /// The file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Arc<str>>,
    /// The offset in the file of `start`, in bytes.
    pub offset: u64,
    /// What is mapped in it, by page size.
    pub mapped: BySize,
}

fn rights<S: serde::Serializer>(prot: &Prot, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(&Rights(*prot))
}

/// Rights as `/proc/PID/maps` writes them: `rw-`.
pub(crate) struct Rights(pub Prot);

impl std::fmt::Display for Rights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (right, letter) in [(Prot::R, 'r'), (Prot::W, 'w'), (Prot::X, 'x')] {
            std::fmt::Write::write_char(f, if self.0.has(right) { letter } else { '-' })?;
        }
        Ok(())
    }
}

/// Pages mapped, by size. Written out as bytes: `{"4K": {"now": 8192, "peak": 12288}}`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BySize(Vec<(PageOrder, u64, u64)>);

impl BySize {
    /// Counts pages of `order` in.
    #[inline]
    pub(crate) fn add(&mut self, order: PageOrder, pages: u64) {
        let at = match self.0.iter().position(|e| e.0 >= order) {
            Some(at) if self.0[at].0 == order => at,
            Some(at) => {
                self.0.insert(at, (order, 0, 0));
                at
            }
            None => {
                self.0.push((order, 0, 0));
                self.0.len() - 1
            }
        };
        let entry = &mut self.0[at];
        entry.1 += pages;
        entry.2 = entry.2.max(entry.1);
    }

    /// Counts pages of `order` out.
    #[inline]
    pub(crate) fn sub(&mut self, order: PageOrder, pages: u64) {
        if let Some(entry) = self.0.iter_mut().find(|e| e.0 == order) {
            debug_assert!(entry.1 >= pages);
            entry.1 = entry.1.saturating_sub(pages);
        }
    }

    /// Sizes with the bytes mapped now and at that size's peak, smallest size first.
    pub fn iter(&self) -> impl Iterator<Item = (PageOrder, u64, u64)> + '_ {
        self.0.iter().map(|&(order, now, peak)| (order, now * order.bytes(), peak * order.bytes()))
    }

    /// Bytes mapped now by pages of `order`.
    pub fn bytes(&self, order: PageOrder) -> u64 {
        self.iter().find(|e| e.0 == order).map_or(0, |e| e.1)
    }

    /// Bytes mapped now by pages of any size.
    pub fn total(&self) -> u64 {
        self.iter().map(|e| e.1).sum()
    }
}

impl Serialize for BySize {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Bytes {
            now: u64,
            peak: u64,
        }
        s.collect_map(self.iter().map(|(order, now, peak)| (order, Bytes { now, peak })))
    }
}

/// Which region lies on a stretch of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lies(pub RegionId);

impl Piece for Lies {
    fn advance(&mut self, _: u64) {}
    fn joins(&self, _: u64, next: &Self) -> bool {
        self == next
    }
    fn absorb(&mut self, _: &Self) {}
}

/// What makes two mappings of one address space the same region, if they touch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Identity {
    pub kind: RegionKind,
    pub name: Arc<str>,
    pub prot: Prot3,
    /// For files: the address that offset 0 would lie at, so that only true continuations are one region.
    pub origin: u64,
}

/// Rights that can be ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Prot3(pub u8);

/// All regions of a run.
pub(crate) struct Regions {
    list: Vec<Region>,
    /// By address space, identity and first address.
    known: BTreeMap<(u64, Identity, u64), RegionId>,
}

impl Regions {
    pub fn new() -> Self {
        let none = Region {
            id: RegionId::NONE,
            pid: Pid(0),
            name: "(unmapped)".into(),
            kind: RegionKind::Unmapped,
            start: VirtAddr::new(0),
            end: VirtAddr::new(0),
            prot: Prot::NONE,
            file: None,
            offset: 0,
            mapped: BySize::default(),
        };
        Self { list: vec![none], known: BTreeMap::new() }
    }

    pub fn all(&self) -> &[Region] {
        &self.list
    }

    pub fn get_mut(&mut self, id: RegionId) -> &mut Region {
        &mut self.list[id.index()]
    }

    /// The region of a mapping of `start..end`: one of the same identity that it touches or overlaps, grown to hold
    /// it, or a new one. Programs that map and unmap in turn thus do not number a region each time.
    pub fn place(&mut self, space: u64, identity: &Identity, start: u64, end: u64, pid: Pid) -> RegionId {
        let from = (space, identity.clone(), 0);
        let to = (space, identity.clone(), end);
        let near = self.known.range(from..=to).next_back().map(|(key, &id)| (key.clone(), id));
        if let Some((key, id)) = near
            && self.list[id.index()].end.raw() >= start
            && self.list[id.index()].start.raw() <= end
        {
            let region = &mut self.list[id.index()];
            region.end = VirtAddr::new(region.end.raw().max(end));
            if start < key.2 {
                region.start = VirtAddr::new(start);
                region.offset = start.wrapping_sub(identity.origin);
                self.known.remove(&key);
                self.known.insert((space, identity.clone(), start), id);
            }
            return id;
        }
        let id = RegionId(self.list.len() as u32);
        let is_file = identity.kind == RegionKind::File;
        let name = if is_file {
            format!("{} {}", identity.name, Rights(Prot::from_bits(identity.prot.0))).into()
        } else {
            identity.name.clone()
        };
        self.list.push(Region {
            id,
            pid,
            name,
            kind: identity.kind,
            start: VirtAddr::new(start),
            end: VirtAddr::new(end),
            prot: Prot::from_bits(identity.prot.0),
            file: is_file.then(|| identity.name.clone()),
            offset: if is_file { start.wrapping_sub(identity.origin) } else { 0 },
            mapped: BySize::default(),
        });
        self.known.insert((space, identity.clone(), start), id);
        id
    }

    /// The same region in a child process.
    pub fn inherit(&mut self, id: RegionId, space: u64, pid: Pid) -> RegionId {
        let mut copy = self.list[id.index()].clone();
        copy.id = RegionId(self.list.len() as u32);
        copy.pid = pid;
        copy.mapped = BySize::default();
        let identity = Identity {
            kind: copy.kind,
            name: copy.file.clone().unwrap_or_else(|| copy.name.clone()),
            prot: Prot3(copy.prot.bits()),
            origin: if copy.file.is_some() { copy.start.raw().wrapping_sub(copy.offset) } else { 0 },
        };
        self.known.insert((space, identity, copy.start.raw()), copy.id);
        self.list.push(copy);
        RegionId(self.list.len() as u32 - 1)
    }

    /// A part of a region now lies on `start..end`: it moves there, or grows to hold it where the two touch.
    pub fn moved(&mut self, id: RegionId, start: u64, end: u64) {
        let region = &mut self.list[id.index()];
        let (old_start, old_end) = (region.start.raw(), region.end.raw());
        if start <= old_end && old_start <= end {
            region.start = VirtAddr::new(old_start.min(start));
            region.end = VirtAddr::new(old_end.max(end));
        } else {
            region.start = VirtAddr::new(start);
            region.end = VirtAddr::new(end);
        }
    }
}

/// Where each region lies at present.
pub(crate) type Places = Spans<Lies>;
