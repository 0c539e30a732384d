//! The pieces of a program's memory that reports speak of.
//!
//! A region is memory that the program asked for in one piece. It is a mapping of a file with its rights, the brk heap,
//! a stack, or an anonymous mapping and its neighbours. Later mprotect and madvise calls do not divide it. All
//! processes that run one program share its regions, because advice about a mapping concerns the program. Regions
//! depend on the trace's events alone, so their numbers are the same under every policy and on every machine. So
//! results can be compared region by region.

use crate::ranges::{Piece, RangeMap};
use mmulab_addr::{PageOrder, Pid, Prot, VirtAddr};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use std::borrow::Cow;
use std::sync::Arc;

/// The slot of a region in [`crate::Kernel::region`]. When a region is folded, its slot is used again: reports use
/// [`Region::number`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
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

/// Kind of a region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, JsonSchema)]
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

impl RegionKind {
    /// Its word in the name of a row that sums several regions up.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Unmapped => "none",
            Self::File => "files",
            Self::Anon => "anon",
            Self::Shared => "shared",
            Self::Heap => "[heap]",
            Self::Stack => "[stack]",
            Self::Special => "special",
        }
    }
}

/// A piece of a program's memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Region {
    /// Its slot.
    #[serde(skip)]
    pub id: RegionId,
    /// Its number, which no other region of the run ever has.
    #[serde(rename = "id")]
    pub number: u64,
    /// The process that mapped it first.
    pub pid: Pid,
    /// The program that its processes run: the path of its exec. Empty before the first exec of the trace.
    pub program: Arc<str>,
    /// The unmapped regions of one kind that this row sums up; 0 for a region of its own.
    #[serde(skip_serializing_if = "is_zero")]
    pub folded: u64,
    /// Its name in reports: the file with the rights it was mapped with, `[heap]`, `[stack]`, `anon`.
    pub name: Arc<str>,
    /// Its kind.
    pub kind: RegionKind,
    /// The lowest address it had.
    pub start: VirtAddr,
    /// The address after the highest it had.
    pub end: VirtAddr,
    /// The address at which it was first mapped.
    #[serde(skip)]
    pub first: VirtAddr,
    /// The rights it was first mapped with.
    #[serde(serialize_with = "rights")]
    #[schemars(with = "String")]
    pub prot: Prot,
    /// The file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Arc<str>>,
    /// The offset in the file of `start`, in bytes.
    pub offset: u64,
    /// Whether it is the kernel's half of address spaces: mapped by global entries.
    #[serde(skip)]
    pub is_kernel: bool,
    /// Memory of it that page tables map, by page size; zero pages are left out.
    pub mapped: BySize,
    /// The zero pages mapped in it, by page size: they take no memory.
    #[serde(skip_serializing_if = "BySize::is_empty")]
    pub mapped_zero: BySize,
}

impl Region {
    /// Its rights as `/proc/PID/maps` writes them: `rw-`.
    pub fn rights(&self) -> String {
        Rights(self.prot).to_string()
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
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

    /// Whether no page was ever counted in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes over the peaks of something that is no more, where they are higher.
    pub(crate) fn absorb(&mut self, gone: &Self) {
        for &(order, _, peak) in &gone.0 {
            self.add(order, 0);
            if let Some(entry) = self.0.iter_mut().find(|e| e.0 == order) {
                entry.2 = entry.2.max(peak);
            }
        }
    }

    /// Bytes mapped now by pages of any size.
    pub fn total(&self) -> u64 {
        self.iter().map(|e| e.1).sum()
    }
}

/// Pages mapped: those that take memory, and zero pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mapped {
    pub pages: BySize,
    pub zero: BySize,
}

/// Bytes mapped by pages of one size.
#[derive(Serialize, JsonSchema)]
struct Bytes {
    /// At the end.
    now: u64,
    /// The most at any time.
    peak: u64,
}

impl JsonSchema for BySize {
    fn schema_name() -> Cow<'static, str> {
        "BySize".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let bytes = generator.subschema_for::<Bytes>();
        json_schema!({
            "type": "object",
            "description": "By page size, as `4K`.",
            "additionalProperties": bytes,
        })
    }
}

impl Serialize for BySize {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.iter().map(|(order, now, peak)| (order, Bytes { now, peak })))
    }
}

/// Which region lies on a range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lies(pub RegionId);

impl Piece for Lies {
    fn advance(&mut self, _: u64) {}
    fn joins(&self, _: u64, next: &Self) -> bool {
        self == next
    }
    fn absorb(&mut self, _: &Self) {}
}

/// Properties that make two mappings of one program the same region, if they touch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Identity {
    pub kind: RegionKind,
    pub name: Arc<str>,
    pub prot: Prot3,
    /// Whether it is mapped by global entries.
    pub is_kernel: bool,
    /// For files: the address that offset 0 would lie at, so that only true continuations are one region.
    pub origin: u64,
}

impl Identity {
    /// Anonymous memory without a name of its own.
    pub fn anon(prot: Prot) -> Self {
        Self { kind: RegionKind::Anon, name: "anon".into(), prot: Prot3(prot.bits()), is_kernel: false, origin: 0 }
    }

    /// The brk heap.
    pub fn heap() -> Self {
        Self { kind: RegionKind::Heap, name: "[heap]".into(), ..Self::anon(Prot::RW) }
    }
}

/// Rights that can be ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Prot3(pub u8);

/// Where each region lies at present.
pub(crate) type Places = RangeMap<Lies>;
