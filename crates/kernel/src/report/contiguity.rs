//! How well base pages lie together: what TLBs that coalesce entries live on.

use super::runs::{MemoryKind, Running, Runs, RunsByKind, RunsOfSize};
use crate::space::AddressSpace;
use crate::space::vma::{Back, Vma};
use mmulab_addr::{BASE_BYTES, PageOrder, Pfn, Prot, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_pagetable::Leaf;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Sizes of the aligned groups that are counted: 4, 8 and 16 pages.
const GROUPS: [PageOrder; 3] = [PageOrder::new(2), PageOrder::new(3), PageOrder::new(4)];

/// Contiguity of what base pages map, over all page tables: those of processes that ended as they were at the end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contiguity {
    /// Base pages mapped.
    pub pages: u64,
    /// Runs of neighbouring pages that lie in neighbouring frames, with the same rights: at least one a page, or fewer.
    pub runs: u64,
    /// Of the pages, those in whole aligned groups of 16, 32 and 64 KiB that lie in an aligned block of frames, with
    /// the same rights. Accessed and dirty bits are the hardware's to weigh.
    pub grouped: [u64; GROUPS.len()],
    /// Runs of pages of every size.
    pub by_size: Runs,
    /// The same by what the memory is for.
    pub by_kind: RunsByKind,
}

/// Kind of a mapping of `space` that begins at `start`.
fn kind(space: &AddressSpace, start: u64, vma: &Vma) -> MemoryKind {
    match vma.back {
        _ if vma.grows_down => MemoryKind::Stack,
        Back::Object(..) if vma.prot.has(Prot::X) => MemoryKind::Code,
        Back::Object(..) => MemoryKind::File,
        Back::Anon if space.heap.is_some_and(|(from, to)| (from & !(BASE_BYTES - 1)..to).contains(&start)) => {
            MemoryKind::Heap
        }
        Back::Anon => MemoryKind::Anon,
    }
}

impl Contiguity {
    /// Pages in a run, on average; 0 where there are none.
    pub fn average_run(&self) -> f64 {
        if self.runs == 0 { 0.0 } else { self.pages as f64 / self.runs as f64 }
    }

    /// Together with another.
    pub(crate) fn add(&mut self, other: &Self) {
        self.pages += other.pages;
        self.runs += other.runs;
        self.by_size.merge(&other.by_size);
        self.by_kind.merge(&other.by_kind);
        for (mine, others) in self.grouped.iter_mut().zip(other.grouped) {
            *mine += others;
        }
    }

    /// Of an address space.
    pub(crate) fn of(space: &AddressSpace, mem: &PhysMem) -> Self {
        let mut out = Self::default();
        let mut last: Option<(u64, Leaf)> = None;
        // Pages of the aligned group of each size that continue each other from its first page on.
        let mut whole = [0; GROUPS.len()];
        let mut running = Running::default();
        let mut alike = (MemoryKind::Code, Running::default());
        for span in space.vmas.iter() {
            let kind = kind(space, span.start, &span.value);
            if kind != alike.0 {
                alike.1.end(out.by_kind.of(alike.0));
                alike.0 = kind;
            }
            for (va, leaf) in space.leaves(mem, span.start, span.end) {
                running.next(VirtAddr::new(va).vpn().0, leaf, &mut out.by_size);
                alike.1.next(VirtAddr::new(va).vpn().0, leaf, out.by_kind.of(kind));
                if leaf.order != PageOrder::P4K {
                    last = None;
                    continue;
                }
                let vpn = VirtAddr::new(va).vpn().0;
                let continues = last.is_some_and(|(before, l)| {
                    let same = (l.prot, l.user, l.global) == (leaf.prot, leaf.user, leaf.global);
                    before + 1 == vpn && Pfn(l.pfn.0 + 1) == leaf.pfn && same
                });
                out.pages += 1;
                out.runs += u64::from(!continues);
                for (i, group) in GROUPS.iter().enumerate() {
                    let inside = vpn & (group.base_pages() - 1);
                    let begins = inside == 0 && leaf.pfn.0 & (group.base_pages() - 1) == 0;
                    whole[i] = match (begins, continues && whole[i] == inside) {
                        (true, _) => 1,
                        (false, true) if inside != 0 => whole[i] + 1,
                        _ => 0,
                    };
                    if whole[i] == group.base_pages() {
                        out.grouped[i] += group.base_pages();
                    }
                }
                last = Some((vpn, leaf));
            }
        }
        running.end(&mut out.by_size);
        alike.1.end(out.by_kind.of(alike.0));
        out
    }
}

/// As [`Contiguity`] is written.
#[derive(Serialize, JsonSchema)]
struct Written {
    /// Base pages mapped.
    pages: u64,
    /// Runs of base pages that lie one after another in both memories.
    runs: u64,
    /// Pages of a run, on average.
    average_run: f64,
    /// Base pages in whole aligned groups of 16 KiB that could be coalesced.
    #[serde(rename = "pages_in_16K")]
    in_16k: u64,
    /// The same of 32 KiB.
    #[serde(rename = "pages_in_32K")]
    in_32k: u64,
    /// The same of 64 KiB.
    #[serde(rename = "pages_in_64K")]
    in_64k: u64,
    /// Runs of pages of each size.
    by_size: BTreeMap<String, RunsOfSize>,
    /// The same by what the memory is for.
    by_kind: BTreeMap<MemoryKind, BTreeMap<String, RunsOfSize>>,
}

impl Serialize for Contiguity {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let [in_16k, in_32k, in_64k] = self.grouped;
        let written = Written {
            pages: self.pages,
            runs: self.runs,
            average_run: self.average_run(),
            in_16k,
            in_32k,
            in_64k,
            by_size: self.by_size.by_size(),
            by_kind: self.by_kind.by_kind(),
        };
        written.serialize(s)
    }
}

impl JsonSchema for Contiguity {
    fn schema_name() -> Cow<'static, str> {
        "Contiguity".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Written::json_schema(generator)
    }
}
