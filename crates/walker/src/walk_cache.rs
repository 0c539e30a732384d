//! Page-walk cache (Intel: paging-structure cache): upper-level entries of earlier walks, so that a walk starts nearer
//! the leaf. In a guest, each entry also keeps the host page of the table below. For hashed tables the cache holds
//! lines of cuckoo walk tables.
//!
//! ```text
//! 4-level table, 4 KB page    entries read
//! miss                        level 4, 3, 2, 1
//! hit at level 3              level 2, 1
//! hit at level 2              level 1
//! ```

use crate::{
    WalkCacheDesc, WalkerError,
    kept::{Kept, Name},
};
use mmulab_addr::{Asid, PageOrder, Pfn, PhysAddr, VirtAddr, VirtRange};
use mmulab_pagetable::{Format, Invalidate, Learned, Rights};

/// What an upper-level entry said, and what the entries above it had granted.
#[derive(Clone, Copy, Debug)]
pub struct Upper {
    pub bits: u64,
    pub rights: Rights,
}

/// The page of the host that has a frame of the table which an entry of a guest leads to. A node of 2 MiB that merges
/// levels lies in it whole if it is as large, and else one frame of the node does.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Its first frame as the guest knows it.
    pub table: Pfn,
    /// Its first frame as the host knows it.
    pub host: Pfn,
    /// Its size.
    pub order: PageOrder,
}

impl Placed {
    /// The page of `order` at which an entry of the guest lies at `host`.
    pub fn new(entry: PhysAddr, host: PhysAddr, order: PageOrder) -> Self {
        Self { table: entry.pfn().align_down(order), host: host.pfn().align_down(order), order }
    }
}

/// A cache of upper-level entries.
pub struct WalkCache {
    pub name: String,
    pub hit_cycles: u32,
    /// Bit `n`: it holds entries of level `n`.
    levels: u32,
    held: Kept<Upper>,
    /// By place, in a guest only: where the tables below were.
    placed: Vec<Placed>,
    /// By place, of cuckoo walk tables to hashed tables only: copies of their lines.
    lines: Vec<[u64; 8]>,
}

/// Level, ASID and the bits of the address above those that the entry spans.
#[inline(always)]
fn name(format: Format, level: u8, asid: Asid, va: VirtAddr) -> Name {
    Name { kind: level, asid, number: va.vpn().0 >> format.covers(level).get() }
}

impl WalkCache {
    /// The cache, or none where it has no entries.
    pub fn new(desc: &WalkCacheDesc, seed: u64) -> Result<Option<Self>, WalkerError> {
        let bad = |what: String| WalkerError { place: format!("walker.cache.{}", desc.name), what };
        if desc.levels.is_empty() {
            return Err(bad("levels is empty: name the levels whose entries it holds, such as [2, 3, 4]".into()));
        }
        if let Some(level) = desc.levels.iter().find(|l| !(2..=7).contains(*l)) {
            return Err(bad(format!(
                "level {level}: entries of levels 2 and up point to tables; level 1 is the TLB's"
            )));
        }
        if desc.entries == 0 {
            return Ok(None);
        }
        let place = || format!("walker.cache.{}", desc.name);
        let nothing = Upper { bits: 0, rights: Rights::ALL };
        Ok(Some(Self {
            name: desc.name.clone(),
            hit_cycles: desc.hit_cycles,
            levels: desc.levels.iter().fold(0, |m, l| m | 1 << l),
            held: Kept::new(place, (desc.entries, desc.ways), desc.replacement, seed, nothing)?,
            placed: Vec::new(),
            lines: Vec::new(),
        }))
    }

    /// Makes room for where the tables below are.
    pub fn keep_places(&mut self) {
        self.placed = vec![Placed { table: Pfn(u64::MAX), host: Pfn(0), order: PageOrder::P4K }; self.held.places()];
    }

    /// Where the host has the guest's `entry`, if it lies in the host's page that the held entry at `at` was last
    /// followed to.
    #[inline]
    pub fn place(&self, at: usize, entry: PhysAddr) -> Option<PhysAddr> {
        let Placed { table, host, order } = *self.placed.get(at)?;
        (table == entry.pfn().align_down(order)).then(|| PhysAddr(host.addr().0 | (entry.0 & (order.bytes() - 1))))
    }

    /// Whether it holds entries of `level`.
    #[inline(always)]
    pub fn holds(&self, level: u8) -> bool {
        self.levels >> level & 1 == 1
    }

    /// The entry of `level` for `va`, used, and its place.
    #[inline]
    pub fn lookup(&mut self, format: Format, level: u8, asid: Asid, va: VirtAddr) -> Option<(Upper, usize)> {
        self.held.find(name(format, level, asid, va))
    }

    /// Keeps an entry that a walk read; in a guest, with where it led.
    #[inline]
    pub fn insert(
        &mut self,
        format: Format,
        level: u8,
        asid: Asid,
        va: VirtAddr,
        upper: Upper,
        placed: Option<Placed>,
    ) {
        let at = self.held.keep(name(format, level, asid, va), upper);
        if let (Some(placed), Some(room)) = (placed, self.placed.get_mut(at)) {
            *room = placed;
        }
    }

    /// The copy of a cuckoo walk table's line for `va`, used, and where the line was.
    pub fn walk_table(&mut self, format: Format, level: u8, asid: Asid, va: VirtAddr) -> Option<([u64; 8], PhysAddr)> {
        let (held, at) = self.lookup(format, level, asid, va)?;
        self.lines.get(at).map(|line| (*line, PhysAddr(held.bits)))
    }

    /// Keeps a copy of a cuckoo walk table's line.
    pub fn keep_walk_table(&mut self, format: Format, asid: Asid, va: VirtAddr, learned: &Learned) {
        if self.lines.is_empty() {
            self.lines = vec![[0; 8]; self.held.places()];
        }
        let upper = Upper { bits: learned.at.0, rights: Rights::ALL };
        let at = self.held.keep(name(format, learned.level, asid, va), upper);
        self.lines[at] = learned.line;
    }

    /// Forgets the entries of which `lose` says so: others, which are not modelled, took their places.
    pub fn displace(&mut self, mut lose: impl FnMut() -> bool) {
        self.held.drop_if(|_| lose());
    }

    /// Forgets what must not be used any more. Invalidating a page drops every entry on its path, as INVLPG does (Intel
    /// SDM vol. 3A, section 4.10.4.1).
    pub fn invalidate(&mut self, format: Format, what: &Invalidate) {
        self.held.drop_if(|Name { kind, asid, number }| {
            let order = format.covers(kind);
            what.meets(asid, VirtRange::sized(VirtAddr::new(number << order.shift()), order.bytes()))
        });
    }
}
