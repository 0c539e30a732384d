//! Walks worked out by hand: how many entries are read, and what is written back.

use mmulab_addr::{Access, Asid, PageOrder, Pfn, Prot, VirtAddr};
use mmulab_assoc::{Replacement, Ways};
use mmulab_frames::PhysMem;
use mmulab_pagetable::{CuckooDesc, Invalidate, Leaf, Table, TableDesc, TableFrames};
use mmulab_walker::{CacheRules, Caches, Server, Walk, WalkCacheDesc, WalkContext, Walker, WalkerDesc};

struct Bump(u64);

impl TableFrames for Bump {
    fn take(&mut self) -> Option<Pfn> {
        self.0 += 1;
        Some(Pfn(self.0))
    }
    fn give_back(&mut self, _: Pfn) {}
    fn take_block(&mut self, order: PageOrder) -> Option<Pfn> {
        let first = (self.0 + 1).next_multiple_of(order.base_pages());
        self.0 = first + order.base_pages();
        Some(Pfn(first))
    }
}

struct Bench {
    mem: PhysMem,
    frames: Bump,
    table: Table,
    caches: Caches,
    walker: Walker,
}

fn walk_cache(levels: &[u8]) -> WalkCacheDesc {
    WalkCacheDesc {
        retention_cycles: None,
        name: format!("{levels:?}"),
        levels: levels.to_vec(),
        entries: 4,
        ways: Ways::Full,
        replacement: Replacement::Lru,
        hit_cycles: 1,
        source: String::new(),
        assumed: Default::default(),
    }
}

impl Bench {
    fn new(levels: u8, walk_caches: Vec<WalkCacheDesc>) -> Self {
        Self::of(&TableDesc::x86(levels).unwrap(), walk_caches)
    }

    fn of(desc: &TableDesc, walk_caches: Vec<WalkCacheDesc>) -> Self {
        let mut mem = PhysMem::new(1 << 32);
        let mut frames = Bump(0);
        let table = Table::new(desc, &mut mem, &mut frames).unwrap();
        let rules = CacheRules {
            data: false,
            memory_cycles: 100,
            memory_spread: vec![],
            source: String::new(),
            assumed: Default::default(),
        };
        let desc = WalkerDesc {
            count: 1,
            shared: false,
            cache: walk_caches,
            hash_cycles: 2,
            read_cycles: READ,
            turnaround_cycles: 0,
            overhead_cycles: OVERHEAD,
            source: String::new(),
            assumed: Default::default(),
        };
        Self {
            mem,
            frames,
            table,
            caches: Caches::new(&[], &rules, 1).unwrap(),
            walker: Walker::new(&desc, 0).unwrap(),
        }
    }

    fn map(&mut self, va: u64, order: PageOrder, prot: Prot) {
        let leaf = Leaf { pfn: Pfn(1 << 18), order, prot, user: true, accessed: false, dirty: false, global: false };
        let flush = self.table.map(&mut self.mem, &mut self.frames, VirtAddr::new(va).vpn(), leaf).unwrap();
        flush.lazy("no walk was made yet");
    }

    fn walk(&mut self, va: u64, access: Access) -> (Walk, usize) {
        let cx = WalkContext { format: self.table.format(), root: self.table.root(), asid: Asid(1) };
        let walk = self.walker.walk(&mut self.mem, &mut self.caches, cx, VirtAddr::new(va), access);
        let reads = self.walker.steps().iter().filter(|s| matches!(s.server, Server::Cache(_))).count();
        self.walker.counts(1, 6).check().unwrap();
        (walk, reads)
    }
}

const GIB: u64 = 1 << 30;
/// Cycles of a walk besides those of its reads.
const OVERHEAD: u32 = 7;
/// Cycles of a read besides the memory's latency.
const READ: u32 = 3;

#[test]
fn cold_walks_read_one_entry_per_level() {
    for (levels, expected) in [(4, [4, 3, 2]), (5, [5, 4, 3])] {
        for (order, reads) in [PageOrder::P4K, PageOrder::P2M, PageOrder::P1G].into_iter().zip(expected) {
            let mut b = Bench::new(levels, vec![]);
            b.map(GIB, order, Prot::R);
            let (walk, n) = b.walk(GIB, Access::Read);
            assert_eq!(n, reads, "{order} with {levels} levels");
            assert!(matches!(walk, Walk::Mapped { cycles, .. } if cycles == OVERHEAD + (100 + READ) * reads as u32));
            assert_eq!(b.walk(GIB, Access::Read).1, reads, "without walk caches a walk is never free");
        }
    }
}

#[test]
fn a_warm_walk_cache_of_each_level_saves_the_reads_above_it() {
    for (level, reads) in [(4, 3), (3, 2), (2, 1)] {
        let mut b = Bench::new(4, vec![walk_cache(&[level])]);
        b.map(GIB, PageOrder::P4K, Prot::R);
        b.map(GIB + 0x1000, PageOrder::P4K, Prot::R);
        assert_eq!(b.walk(GIB, Access::Read).1, 4);
        assert_eq!(b.walk(GIB + 0x1000, Access::Read).1, reads, "level {level} warm");
        let invalidate = Invalidate::Page { asid: Asid(1), va: VirtAddr::new(GIB), order: PageOrder::P4K };
        b.walker.invalidate(b.table.format(), &invalidate);
        assert_eq!(b.walk(GIB, Access::Read).1, 4, "INVLPG drops the path");
    }
}

#[test]
fn the_entry_nearest_the_leaf_is_used() {
    let mut b = Bench::new(4, vec![walk_cache(&[2, 3, 4])]);
    b.map(GIB, PageOrder::P4K, Prot::R);
    b.map(GIB + (1 << 21), PageOrder::P2M, Prot::R);
    b.walk(GIB, Access::Read);
    assert_eq!(b.walk(GIB, Access::Read).1, 1);
    // Another 2 MiB of the same GiB: its PUD entry is cached, and the leaf is at the PMD level.
    assert_eq!(b.walk(GIB + (1 << 21), Access::Read).1, 1);
}

#[test]
fn accessed_and_dirty_bits_are_written_where_they_belong() {
    let mut b = Bench::new(4, vec![]);
    b.map(0x1000, PageOrder::P4K, Prot::RW);
    let leaf = |b: &Bench| b.table.lookup(&b.mem, VirtAddr::new(0x1000).vpn()).unwrap().1;
    b.walk(0x1000, Access::Read);
    assert_eq!((leaf(&b).accessed, leaf(&b).dirty), (true, false));
    b.walk(0x1000, Access::Write);
    assert_eq!((leaf(&b).accessed, leaf(&b).dirty), (true, true));
}

#[test]
fn a_page_that_may_not_be_used_so_faults_and_is_left_unmarked() {
    let mut b = Bench::new(4, vec![]);
    b.map(0x1000, PageOrder::P4K, Prot::R);
    assert!(matches!(b.walk(0x1000, Access::Write).0, Walk::Fault { level: 1, denied: true, .. }));
    assert!(matches!(b.walk(0x1000, Access::Fetch).0, Walk::Fault { level: 1, denied: true, .. }));
    assert!(matches!(b.walk(GIB, Access::Read).0, Walk::Fault { level: 3, denied: false, .. }));
    let leaf = b.table.lookup(&b.mem, VirtAddr::new(0x1000).vpn()).unwrap().1;
    assert!(!leaf.accessed && !leaf.dirty);
}

#[test]
fn the_last_entry_of_the_root_is_dropped_like_any_other() {
    let mut b = Bench::new(5, vec![walk_cache(&[5])]);
    let last = 0xffff_8000_0000_0000;
    b.map(last, PageOrder::P4K, Prot::R);
    assert_eq!(b.walk(last, Access::Read).1, 5);
    assert_eq!(b.walk(last, Access::Read).1, 4);
    let invalidate = Invalidate::Page { asid: Asid(1), va: VirtAddr::new(last), order: PageOrder::P4K };
    b.walker.invalidate(b.table.format(), &invalidate);
    assert_eq!(b.walk(last, Access::Read).1, 5, "what it spans ends where addresses wrap");
}

#[test]
fn a_search_waits_for_the_slowest_of_each_group_and_not_for_walk_tables() {
    let desc = CuckooDesc { lines: 64, walk_table_lines: 64, ..CuckooDesc::default() };
    let mut b = Bench::of(&TableDesc::of_cuckoo(desc).unwrap(), vec![walk_cache(&[5]), walk_cache(&[6])]);
    b.map(GIB, PageOrder::P4K, Prot::RW);
    b.map(GIB + (16 << 20), PageOrder::P2M, Prot::RW);
    let cycles = |walk: Walk| match walk {
        Walk::Mapped { cycles, .. } | Walk::Fault { cycles, .. } => cycles - OVERHEAD,
    };
    // One cycle for the caches, two for the hashes, a hundred for memory, three for the read. Three ways of two sizes
    // are read, and two of two cuckoo walk tables.
    let (walk, reads) = b.walk(GIB, Access::Read);
    assert_eq!((cycles(walk), reads), (106, 6 + 4));
    // The cuckoo walk tables are known: 16 MiB of 4 KiB pages alone, then 16 MiB of a 2 MiB page alone.
    let (walk, reads) = b.walk(GIB + 0x800, Access::Write);
    assert_eq!((cycles(walk), reads), (106, 3));
    let (walk, reads) = b.walk(GIB + (16 << 20), Access::Read);
    assert_eq!((cycles(walk), reads), (106, 1));
    let Walk::Mapped { walked, .. } = walk else { panic!("it is mapped") };
    assert_eq!((walked.level, walked.leaf.order, walked.leaf.accessed), (2, PageOrder::P2M, true));
    let leaf = b.table.lookup(&b.mem, VirtAddr::new(GIB).vpn()).unwrap().1;
    assert!(leaf.accessed && leaf.dirty);
    // A page that came since: nothing is where the cuckoo walk table says, and all else is read, cuckoo walk tables
    // too.
    b.map(GIB + (18 << 20), PageOrder::P4K, Prot::R);
    let (walk, reads) = b.walk(GIB + (18 << 20), Access::Read);
    assert_eq!((cycles(walk), reads), (106 + 105, 1 + 5 + 4));
    assert_eq!(b.walk(GIB + (18 << 20), Access::Read).1, 3 + 1);
    assert!(matches!(b.walk(GIB + (18 << 20), Access::Write).0, Walk::Fault { level: 1, denied: true, .. }));
    // A flush of a page of it drops what is known of the GiB.
    let invalidate = Invalidate::Page { asid: Asid(1), va: VirtAddr::new(GIB), order: PageOrder::P4K };
    b.walker.invalidate(b.table.format(), &invalidate);
    assert_eq!(b.walk(GIB, Access::Read).1, 6 + 4);
}
