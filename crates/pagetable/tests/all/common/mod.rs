//! What several tests of tables need: frames, a hardware walker whose walk cache never forgets by itself, a flat model.

use mmulab_addr::{Asid, PageOrder, Pfn, Prot, VirtAddr, Vpn};
use mmulab_frames::PhysMem;
use mmulab_pagetable::{Flush, Format, Invalidate, Leaf, Next, Table, TableDesc, TableEvent, TableFrames};
use std::collections::{BTreeMap, HashMap};

/// Frames and blocks handed out in order, and counted.
#[derive(Default)]
pub struct Counter {
    /// The size of a table.
    table: PageOrder,
    next: u64,
    spare: Vec<Pfn>,
    blocks: u64,
    spare_blocks: Vec<(Pfn, PageOrder)>,
    pub out: u64,
    pub limit: Option<u64>,
    /// The largest blocks there are.
    pub largest: Option<PageOrder>,
    pub events: Vec<TableEvent>,
}

/// Where blocks come from: above all frames.
const BLOCKS: u64 = 1 << 20;

impl Counter {
    /// Frames for tables as large as this description has them.
    pub fn of(desc: &TableDesc) -> Self {
        Self { table: desc.base(), ..Self::default() }
    }

    pub fn limited(limit: u64) -> Self {
        Self { limit: Some(limit), ..Self::default() }
    }

    fn reserve(&mut self, frames: u64) -> bool {
        let fits = self.limit.is_none_or(|limit| self.out + frames <= limit);
        self.out += if fits { frames } else { 0 };
        fits
    }

    /// How often something happened.
    pub fn count(&self, which: impl Fn(&TableEvent) -> bool) -> usize {
        self.events.iter().filter(|e| which(e)).count()
    }

    /// The merges and unmerges at a level.
    pub fn merges(&self, at: u8) -> (usize, usize) {
        let merged = self.count(|e| matches!(e, TableEvent::Merged { level, .. } if *level == at));
        let unmerged = self.count(|e| matches!(e, TableEvent::Unmerged { level, .. } if *level == at));
        (merged, unmerged)
    }

    pub fn checks(&self) -> usize {
        self.count(|e| *e == TableEvent::Checked)
    }
}

impl TableFrames for Counter {
    fn take(&mut self) -> Option<Pfn> {
        let frames = self.table.base_pages();
        self.reserve(frames).then(|| {
            self.spare.pop().unwrap_or_else(|| {
                self.next += frames;
                Pfn(self.next)
            })
        })
    }

    fn give_back(&mut self, pfn: Pfn) {
        self.out -= self.table.base_pages();
        self.spare.push(pfn);
    }

    fn take_block(&mut self, order: PageOrder) -> Option<Pfn> {
        if self.largest.is_some_and(|largest| order > largest) {
            return None;
        }
        self.reserve(order.base_pages()).then(|| {
            if let Some(at) = self.spare_blocks.iter().rposition(|&(_, of)| of == order) {
                return self.spare_blocks.remove(at).0;
            }
            let first = (BLOCKS + self.blocks).next_multiple_of(order.base_pages());
            self.blocks = first + order.base_pages() - BLOCKS;
            Pfn(first)
        })
    }

    fn give_back_block(&mut self, pfn: Pfn, order: PageOrder) {
        self.out -= order.base_pages();
        self.spare_blocks.push((pfn, order));
    }

    fn happened(&mut self, what: TableEvent) {
        self.events.push(what);
    }
}

/// What hardware finds for a page, and how many entries it reads.
pub fn hardware(table: &Table, mem: &PhysMem, vpn: Vpn) -> (Option<Leaf>, Vec<u8>) {
    let mut levels = Vec::new();
    let found = table.format().path(mem, table.root(), vpn.addr(), |level, _| levels.push(level));
    (found.map(|found| found.leaf), levels)
}

/// A walk cache without bounds: what it holds after the flushes must never mislead a walk.
#[derive(Default)]
pub struct WalkCache(HashMap<(u8, u64), u64>);

impl WalkCache {
    fn prefix(format: Format, level: u8, va: VirtAddr) -> u64 {
        va.vpn().0 >> format.covers(level).get()
    }

    /// Walks, setting accessed and dirty bits as hardware does; what is mapped, and the levels of the entries read.
    pub fn walk(&mut self, table: &Table, mem: &mut PhysMem, vpn: Vpn, store: bool) -> (Option<Leaf>, Vec<u8>) {
        let (format, va) = (table.format(), vpn.addr());
        let cached = (2..=format.levels()).find_map(|level| {
            let bits = *self.0.get(&(level, Self::prefix(format, level, va)))?;
            let held = mmulab_pagetable::Step { level, ..format.start(table.root(), va) };
            match format.next(bits, held, va) {
                Next::Table(step) => Some(step),
                _ => None,
            }
        });
        let mut step = cached.unwrap_or_else(|| format.start(table.root(), va));
        let mut levels = Vec::new();
        loop {
            levels.push(step.level);
            let bits = mem.read(step.entry);
            match format.next(bits, step, va) {
                Next::Table(below) => {
                    if let Some((bits, level)) = format.kept(bits, step.level) {
                        self.0.insert((level, Self::prefix(format, level, va)), bits);
                    }
                    step = below;
                }
                Next::Leaf(leaf) => {
                    let marked = if store { format.dirtied(bits) } else { format.accessed(bits, true) };
                    mem.write(step.entry, marked);
                    return (Some(leaf), levels);
                }
                Next::NotPresent => return (None, levels),
            }
        }
    }

    pub fn flush(&mut self, format: Format, flush: Flush) {
        let mut sent = Vec::new();
        flush.deliver(Asid(0), &mut sent);
        let meets = |level: u8, prefix: u64, from: u64, pages: u64| {
            let order = format.covers(level).get();
            prefix << order < from + pages && from < (prefix + 1) << order
        };
        for what in sent {
            match what {
                Invalidate::Page { va, order, .. } => {
                    let from = va.vpn().align_down(order).0;
                    self.0.retain(|&(level, prefix), _| !meets(level, prefix, from, order.base_pages()));
                }
                Invalidate::Range { range, .. } => {
                    let (from, pages) = (range.start.vpn().0, range.bytes() >> 12);
                    self.0.retain(|&(level, prefix), _| !meets(level, prefix, from, pages));
                }
                Invalidate::Asid(_) | Invalidate::All => self.0.clear(),
            }
        }
    }
}

/// What should be mapped, by first page.
pub type Model = BTreeMap<u64, Leaf>;

pub fn holder(model: &Model, page: u64) -> Option<(u64, Leaf)> {
    let (&first, &leaf) = model.range(..=page).next_back()?;
    (page < first + leaf.order.base_pages()).then_some((first, leaf))
}

/// The pages that a page of `order` is split into: of the next smaller size that takes one entry, and how many.
pub fn parts(format: Format, order: PageOrder) -> (PageOrder, u64) {
    let (level, entries) = format.leaf_at(order).expect("a size of the format");
    let part = format.covers(if entries > 1 { level } else { level - 1 });
    (part, 1 << (order.get() - part.get()))
}

/// A clean leaf whose frames differ from those of other pages.
pub fn leaf(page: u64, order: PageOrder, prot: Prot) -> Leaf {
    let pfn = Pfn((page ^ 0x5_0000_0000) & 0xf_ffff_ffff).align_down(order);
    Leaf { pfn, order, prot, user: true, accessed: false, dirty: false, global: false }
}
