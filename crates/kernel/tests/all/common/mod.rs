//! A processor without limits, and a program whose memory has contents, to judge the kernel by.
//!
//! The kernel moves frames, not bytes. Here each base frame holds one number, stores write it, and the kernel's copies
//! are repeated on it. So a frame freed too early, shared wrongly or not copied shows as a wrong number. The processor
//! has a TLB that never forgets by itself, so that a flush not sent shows as a stale translation.

use mmulab_addr::{Access, Asid, PageOrder, Pfn, Pid, Tid, VirtAddr, Vpn};
use mmulab_frames::{Fragment, HeldPages, PhysMem};
use mmulab_kernel::{Actor, Effects, FaultError, FaultKind, Kernel, KernelDesc, Note, PolicyDesc, Usage};
use mmulab_pagetable::{CompendiaDesc, CuckooDesc, Invalidate, Leaf, OpenDesc, Share, TableDesc, TableKind};
use mmulab_trace::{Backing, Event, MapFlags};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

pub const PAGE: u64 = 4096;
/// Where tests map: aligned for 1 GiB pages.
pub const BASE: u64 = 1 << 30;

pub fn desc(policy: PolicyDesc, mebibytes: u64) -> KernelDesc {
    KernelDesc {
        memory: mmulab_frames::MemoryDesc::of(&format!("{mebibytes}M")),
        table: TableDesc::default(),
        policy,
        cpus: 1,
        asid_bits: 12,
    }
}

/// A share of all memory in percent, taken in chunks that nothing moves.
pub fn memhog(percent: f64, chunk: &str) -> Fragment {
    let (chunk, held) = (chunk.into(), HeldPages::Pinned);
    Fragment::Memhog { percent, chunk, within: None, regions: None, over: None, held }
}

/// Trees of tables of every kind with base pages of 4 KiB, with four levels.
fn trees() -> Vec<TableDesc> {
    let trees = TableKind::ALL.iter().filter(|kind| kind.walk_table_levels().is_none());
    let trees = trees.filter_map(|&kind| TableDesc::new(kind, 4).ok());
    trees.filter(|desc| desc.base() == PageOrder::P4K).collect()
}

/// Page tables of every kind; one that merges does so for few entries.
pub fn table() -> impl Strategy<Value = TableDesc> {
    let share = |n| Share::new(n, 512).expect("a part");
    let merging = CompendiaDesc { merge: share(2), unmerge: share(2), ..CompendiaDesc::default() };
    prop_oneof![
        6 => Just(TableDesc::default()),
        // Its merges take time, and memory is small.
        1 => Just(TableDesc::of_compendia(4, merging).expect("four levels")),
        3 => prop::sample::select(trees()),
        1 => Just(
            TableDesc::of_cuckoo(CuckooDesc { lines: 64, walk_table_lines: 64, ..CuckooDesc::default() })
                .expect("fits")
        ),
        1 => Just(TableDesc::of_hashed(OpenDesc { lines: 64, ..OpenDesc::default() }).expect("fits")),
    ]
}

/// Linux put together of the parts in the sections of a policy file.
pub fn parts(sections: &str) -> PolicyDesc {
    toml::from_str(&format!("name = \"parts\"\nkind = \"linux\"\n{sections}")).expect("a good description")
}

/// Why the kernel refuses a description on so much memory.
pub fn refusal(desc: &KernelDesc, mebibytes: u64) -> String {
    Kernel::new(desc, &mut PhysMem::new(mebibytes << 20)).err().expect("refused").to_string()
}

/// The key under which it refuses a policy.
pub fn refused_key(policy: PolicyDesc, mebibytes: u64) -> String {
    refusal(&desc(policy, mebibytes), mebibytes).split(':').next().unwrap().to_owned()
}

pub fn actor(pid: u32) -> Actor {
    Actor { pid: Pid(pid), tid: Tid(pid), cpu: 0 }
}

pub struct World {
    pub kernel: Kernel,
    pub mem: PhysMem,
    pub effects: Effects,
    /// What the base frames hold; 0 if nothing was stored.
    pub contents: BTreeMap<Pfn, u64>,
    tlb: BTreeMap<(Asid, Vpn), Leaf>,
    /// The flushes of the last event or fault.
    pub sent: Vec<Invalidate>,
    /// Where programs moved text: the first address, and pages.
    pub moved_text: Vec<(u64, u64)>,
    /// Zero pages seen: the kernel zeroes each once, when it makes it.
    zeros: BTreeSet<Pfn>,
    /// Whether a fault may join pages that were mapped before, or map more than the page it is for.
    promotes: bool,
    /// Whether pages keep their own frames and users while hardware takes sixteen of them for one page.
    joins: bool,
}

impl World {
    pub fn new(desc: &KernelDesc, mebibytes: u64) -> Self {
        let mut mem = PhysMem::new(mebibytes << 20);
        let kernel = Kernel::new(desc, &mut mem).expect("a good description");
        Self {
            kernel,
            mem,
            effects: Effects { narrate: true, ..Effects::default() },
            contents: BTreeMap::new(),
            tlb: BTreeMap::new(),
            sent: Vec::new(),
            moved_text: Vec::new(),
            zeros: BTreeSet::new(),
            promotes: desc.policy.freebsd.as_ref().is_some_and(|f| f.promotion)
                || desc.policy.thp.as_ref().is_some_and(|t| !t.sizes.is_empty())
                || desc.policy.fault.as_ref().is_some_and(|f| !f.sizes.is_empty())
                || desc.policy.promotion.is_some(),
            joins: desc.policy.contiguous.is_some(),
        }
    }

    pub fn usage(&self) -> Usage {
        self.kernel.usage(&self.mem)
    }

    pub fn event(&mut self, pid: u32, event: &Event) {
        self.effects.clear();
        self.kernel.event(&mut self.mem, actor(pid), event, &mut self.effects).expect("enough memory");
        self.flush();
    }

    /// Delivers to the TLB what the kernel invalidated.
    pub fn flush(&mut self) {
        for told in std::mem::take(&mut self.effects.notes) {
            if let Note::Moved { from, to } = told {
                match self.contents.remove(&from) {
                    Some(value) => self.contents.insert(to, value),
                    None => self.contents.remove(&to),
                };
            }
            if let Note::TextMoved { va, pages, .. } = told {
                self.moved_text.push((va.raw(), pages));
            }
            if let Note::Exchanged { first, second } = told {
                let (a, b) = (self.contents.remove(&first), self.contents.remove(&second));
                self.contents.extend(a.map(|value| (second, value)));
                self.contents.extend(b.map(|value| (first, value)));
            }
        }
        self.sent = std::mem::take(&mut self.effects.invalidations);
        for &what in &self.sent {
            self.tlb.retain(|&(tag, vpn), leaf| match what {
                Invalidate::Page { asid, va, order } => {
                    tag != asid || vpn.0 < va.vpn().0 || vpn.0 >= va.vpn().0 + order.base_pages()
                }
                Invalidate::Range { asid, range, .. } => tag != asid || !range.contains(vpn.addr()),
                Invalidate::Asid(asid) => tag != asid || leaf.global,
                Invalidate::All => false,
            });
        }
    }

    /// The leaf that holds `va`, as a walker reads it; the accessed and dirty bits are set as a walker sets them.
    pub fn walk(&mut self, pid: u32, va: u64, set: Option<Access>) -> Option<Leaf> {
        let context = self.kernel.context(Pid(pid))?;
        let va = VirtAddr::new(va);
        let found = context.format.find(&self.mem, context.root, va)?;
        let bits = match set {
            Some(access) if !found.leaf.prot.allows(access) => return Some(found.leaf),
            Some(Access::Write) => context.format.dirtied(found.bits),
            Some(_) => context.format.accessed(found.bits, true),
            None => return Some(found.leaf),
        };
        self.mem.write(found.entry, bits);
        context.format.decode_leaf(bits, found.level)
    }

    /// The base frame behind `va`.
    pub fn frame(&mut self, pid: u32, va: u64) -> Option<Pfn> {
        self.walk(pid, va, None).map(|leaf| leaf.translate(VirtAddr::new(va)).pfn())
    }

    /// One access, with the faults it takes; the frame it reaches and the kinds of fault.
    pub fn access(&mut self, pid: u32, va: u64, access: Access) -> Result<(Pfn, Vec<FaultKind>), FaultError> {
        let mut kinds = Vec::new();
        let at = VirtAddr::new(va);
        if access == Access::Write && self.kernel.wants_stores() {
            self.kernel.note_stores(Pid(pid), std::iter::once(at));
        }
        loop {
            let mut before = self.walk(pid, va, Some(access));
            let tag = self.kernel.context(Pid(pid)).map(|c| (c.asid, at.vpn()));
            if let Some(stale) = tag.and_then(|key| self.tlb.get(&key))
                && stale.prot.allows(access)
                // A store through a clean entry reads the table again before it sets D there.
                && (access != Access::Write || stale.dirty)
            {
                let now = before.expect("a translation outlived its mapping");
                assert_eq!(stale.translate(at), now.translate(at), "a stale translation of {at}");
                assert!(now.prot.allows(access), "stale rights to {at}");
            }
            if let (Some(leaf), Some(key)) = (before, tag)
                && leaf.prot.allows(access)
            {
                self.tlb.insert(key, leaf);
                if self.joins && leaf.order == PageOrder::P64K {
                    let first = at.align_down(leaf.order).vpn().0;
                    self.tlb.extend((first..first + 16).map(|page| ((key.0, Vpn(page)), leaf)));
                }
                return Ok((leaf.translate(at).pfn(), kinds));
            }
            assert!(kinds.len() < 4, "{at} faults without end: {kinds:?}");
            let mapped = self.mapped_around(pid, at);
            self.effects.clear();
            let fault = self.kernel.fault(&mut self.mem, actor(pid), at, access, &mut self.effects)?;
            // Where compaction put what was there before.
            let told = self.effects.notes.iter();
            let moved: BTreeMap<Pfn, Pfn> =
                told.filter_map(|t| if let Note::Moved { from, to } = *t { Some((from, to)) } else { None }).collect();
            if let Some(leaf) = &mut before {
                leaf.pfn = moved.get(&leaf.pfn).copied().unwrap_or(leaf.pfn);
            }
            let mapped: BTreeSet<Pfn> = mapped.into_iter().map(|p| moved.get(&p).copied().unwrap_or(p)).collect();
            self.flush();
            kinds.push(fault.kind);
            let after = self.walk(pid, va, None).expect("a fault that was served maps the page");
            assert!(after.order == fault.order || (self.joins && after.order > fault.order));
            let after = Leaf { pfn: after.translate(at).pfn().align_down(fault.order), order: fault.order, ..after };
            self.repeat(pid, fault.kind, at, before, after, &mapped);
        }
    }

    /// Does to the contents what the kernel's fault did to the frames.
    fn repeat(
        &mut self,
        pid: u32,
        kind: FaultKind,
        at: VirtAddr,
        before: Option<Leaf>,
        after: Leaf,
        mapped: &BTreeSet<Pfn>,
    ) {
        let own = (0..after.order.base_pages()).map(|i| Pfn(after.pfn.0 + i));
        if matches!(kind, FaultKind::Anon | FaultKind::ZeroPageWrite | FaultKind::Reuse | FaultKind::Copy) {
            // What promotion joined has its contents; what it took to fill gaps is new.
            let around = self.mapped_around(pid, at);
            for pfn in around.iter().filter(|pfn| !mapped.contains(pfn)) {
                self.contents.remove(pfn);
            }
        }
        match kind {
            FaultKind::Anon | FaultKind::ZeroPageWrite => {
                for pfn in own.filter(|pfn| !mapped.contains(pfn)) {
                    self.contents.remove(&pfn);
                }
            }
            FaultKind::ZeroPage if self.zeros.insert(after.pfn) => {
                for i in 0..after.order.base_pages() {
                    self.contents.remove(&Pfn(after.pfn.0 + i));
                }
            }
            FaultKind::Copy => {
                let old = before.expect("something was copied");
                if old.order == PageOrder::P4K {
                    let value = self.contents.get(&old.pfn).copied().unwrap_or(0);
                    self.contents.insert(after.translate(at).pfn(), value);
                    return;
                }
                let from = old.translate(at).pfn().align_down(after.order);
                for i in 0..after.order.base_pages() {
                    let value = self.contents.get(&Pfn(from.0 + i)).copied().unwrap_or(0);
                    self.contents.insert(Pfn(after.pfn.0 + i), value);
                }
            }
            _ => {}
        }
    }

    /// The frames mapped in the 2 MiB around `at`.
    fn mapped_around(&mut self, pid: u32, at: VirtAddr) -> BTreeSet<Pfn> {
        let start = at.align_down(PageOrder::P2M).raw();
        let pages = if self.promotes { 512 } else { 0 };
        (0..pages).filter_map(|i| self.frame(pid, start + i * PAGE)).collect()
    }

    /// What a load at `va` reads.
    pub fn load(&mut self, pid: u32, va: u64) -> Result<u64, FaultError> {
        let (pfn, _) = self.access(pid, va, Access::Read)?;
        Ok(self.contents.get(&pfn).copied().unwrap_or(0))
    }

    pub fn store(&mut self, pid: u32, va: u64, value: u64) -> Result<Vec<FaultKind>, FaultError> {
        let (pfn, kinds) = self.access(pid, va, Access::Write)?;
        self.contents.insert(pfn, value);
        Ok(kinds)
    }
}

pub fn mmap(addr: u64, len: u64, prot: mmulab_addr::Prot) -> Event {
    Event::Mmap { addr: VirtAddr::new(addr), len, prot, flags: MapFlags::default(), backing: Backing::Anon }
}

pub fn mmap_file(addr: u64, len: u64, prot: mmulab_addr::Prot, shared: bool, path: &str, offset: u64) -> Event {
    let flags = MapFlags { shared, ..MapFlags::default() };
    Event::Mmap { addr: VirtAddr::new(addr), len, prot, flags, backing: Backing::File { path: path.into(), offset } }
}
