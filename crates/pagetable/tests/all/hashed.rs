//! Tables found by hashing: what is read, where lines go, resizes and what they cost, and running out of memory.

use crate::common::{Counter, Model, hardware, leaf};
use mmulab_addr::{PageOrder, Prot, VirtAddr, Vpn};
use mmulab_frames::PhysMem;
use mmulab_pagetable::{
    CuckooDesc, Hashing, MapError, OpenDesc, Part, Probe, Probing, Search, Table, TableDesc, TableEvent, hash,
};

const P4K: PageOrder = PageOrder::P4K;
const P2M: PageOrder = PageOrder::P2M;
const P1G: PageOrder = PageOrder::P1G;
/// Base pages that a line of each size maps.
const LINE: [u64; 3] = [8, 8 << 9, 8 << 18];

struct Bench {
    mem: PhysMem,
    frames: Counter,
    table: Table,
}

impl Bench {
    fn new(desc: TableDesc) -> Self {
        let (mut mem, mut frames) = (PhysMem::new(1 << 40), Counter::default());
        let table = Table::new(&desc, &mut mem, &mut frames).unwrap();
        Self { mem, frames, table }
    }

    fn cuckoo(desc: CuckooDesc) -> Self {
        Self::new(TableDesc::of_cuckoo(desc).unwrap())
    }

    fn try_map(&mut self, page: u64, order: PageOrder) -> Result<(), MapError> {
        let leaf = leaf(page, order, Prot::RW);
        self.table.map(&mut self.mem, &mut self.frames, Vpn(page), leaf).map(|flush| flush.lazy("no TLB here"))
    }

    fn map(&mut self, page: u64, order: PageOrder) {
        self.try_map(page, order).unwrap();
    }

    fn unmap(&mut self, page: u64, order: PageOrder) {
        self.table.unmap(&mut self.mem, &mut self.frames, Vpn(page), order).1.lazy("no TLB here");
    }

    /// Levels of the lines that a walk without caches reads.
    fn walk(&self, page: u64) -> Vec<u8> {
        hardware(&self.table, &self.mem, Vpn(page)).1
    }

    fn is_right(&self, model: &Model) {
        for (&page, leaf) in model {
            assert_eq!(hardware(&self.table, &self.mem, Vpn(page)).0, Some(*leaf));
        }
    }
}

fn small() -> CuckooDesc {
    CuckooDesc { lines: 64, walk_table_lines: 64, ..CuckooDesc::default() }
}

#[test]
fn a_walk_without_caches_reads_all_ways_of_the_sizes_there_are() {
    let mut b = Bench::cuckoo(CuckooDesc::default());
    assert_eq!(b.walk(5), [1, 1, 1], "of the 4 KiB table, which is there from the beginning");
    b.map(5, P4K);
    assert_eq!(b.walk(5), [1, 1, 1]);
    b.map(1 << 20, P2M);
    assert_eq!(b.walk(5), [1, 1, 1, 2, 2, 2]);
    b.map(1 << 30, P1G);
    assert_eq!(b.walk((1 << 30) + 77), [1, 1, 1, 2, 2, 2, 3, 3, 3]);
    // 3 x 1 MiB for each size, and 2 x 256 KiB for each of two cuckoo walk tables. Also a list for each way, and the
    // registers.
    let lists = 3 * 3 + 2 * 2;
    assert_eq!(b.table.table_frames(), 3 * 768 + 2 * 128 + lists + 1);
}

#[test]
fn walk_tables_name_the_way() {
    let mut b = Bench::cuckoo(small());
    // Sections of 16 MiB: one of 2 MiB pages, one of both sizes, one of neither.
    b.map(0, P2M);
    b.map(LINE[1], P2M);
    b.map(LINE[1] + 512, P4K);
    let guided = |b: &Bench, page: u64| {
        let mut search = Search::new(Hashing::Cuckoo, b.table.root(), VirtAddr::new(page << 12));
        // The first group reads the cuckoo walk tables, a second search goes by them.
        (4..=6).for_each(|level| search.read_walk_table(level));
        let group = search.next(&b.mem);
        let learned: Vec<_> = search.learned(&b.mem).collect();
        assert_eq!(group.iter().filter(|read| !read.awaited).count(), 4, "two ways of two walk tables");
        let mut search = Search::new(Hashing::Cuckoo, b.table.root(), VirtAddr::new(page << 12));
        learned.iter().for_each(|of| search.use_walk_table(of.level, &of.line));
        let first: Vec<u8> = search.next(&b.mem).iter().map(|read| read.level).collect();
        (first, search.judge(&b.mem).map(|found| found.level))
    };
    assert_eq!(guided(&b, 3), (vec![2], Some(2)), "the way of the 2 MiB page alone");
    assert_eq!(guided(&b, LINE[1] + 512), (vec![1, 1, 1, 2], Some(1)));
    // Nothing is there going by the cuckoo walk tables: all is read, cuckoo walk tables too, in case their copies are
    // old.
    assert_eq!(guided(&b, 2 * LINE[1]), (vec![1, 1, 1, 2, 2, 2, 5, 5, 6, 6], None));
}

#[test]
fn old_copies_of_walk_tables_mislead_nobody() {
    let mut b = Bench::cuckoo(small());
    b.map(0, P4K);
    let va = VirtAddr::new(512 << 12);
    let mut search = Search::new(Hashing::Cuckoo, b.table.root(), va);
    search.read_walk_table(5);
    search.next(&b.mem);
    let old: Vec<_> = search.learned(&b.mem).collect();
    assert_eq!(old.len(), 1);
    b.map(512, P2M);
    let mut search = Search::new(Hashing::Cuckoo, b.table.root(), va);
    search.use_walk_table(5, &old[0].line);
    let levels = |group: &[mmulab_pagetable::Read]| group.iter().map(|read| read.level).collect::<Vec<_>>();
    assert_eq!(levels(&search.next(&b.mem)), [1, 1, 1], "it knows of pages of 4 KiB only");
    assert_eq!(search.judge(&b.mem), None);
    // The rest, and the cuckoo walk table anew.
    assert_eq!(levels(&search.next(&b.mem)), [2, 2, 2, 5, 5]);
    assert_eq!(search.judge(&b.mem).map(|found| found.level), Some(2));
}

#[test]
fn a_table_doubles_beyond_six_tenths_some_lines_at_a_time() {
    let mut b = Bench::cuckoo(small());
    let mut model = Model::new();
    let mut line = |b: &mut Bench, n: u64| {
        b.map(n * LINE[0], P4K);
        model.insert(n * LINE[0], leaf(n * LINE[0], P4K, Prot::RW));
    };
    // 0.6 of 3 x 64 is 115.2.
    (0..115).for_each(|n| line(&mut b, n));
    let resized = |b: &Bench| b.frames.count(|e| matches!(e, TableEvent::Resized { level: 1, from: 64, to: 128, .. }));
    let rehashed = |b: &Bench| b.frames.count(|e| matches!(e, TableEvent::Rehashed { level: 1, .. }));
    assert_eq!((resized(&b), rehashed(&b)), (0, 0));
    line(&mut b, 115);
    assert_eq!((resized(&b), rehashed(&b)), (1, 2), "each new line moves two");
    (116..140).for_each(|n| line(&mut b, n));
    assert_eq!(rehashed(&b), 50);
    let reads = b.walk(0).len();
    assert_eq!(reads, 3, "as many as ever, in the middle of a resize");
    let during = b.table.table_frames();
    (140..230).for_each(|n| line(&mut b, n));
    // 115 lines were there. Some of those that came were put into old places, and moved too.
    assert!((115..=115 + 77).contains(&rehashed(&b)), "{}", rehashed(&b));
    // Ways of 64 lines are one frame, and have a list.
    assert_eq!(during - b.table.table_frames(), 3 + 3, "the old ways are given back");
    b.is_right(&model);
}

#[test]
fn a_table_that_empties_is_halved_down_to_what_it_began_with() {
    let mut b = Bench::cuckoo(small());
    (0..400).for_each(|n| b.map(n * LINE[0], P4K));
    let sizes = |b: &Bench| {
        let of = |e: &TableEvent| match e {
            TableEvent::Resized { level: 1, to, .. } => Some(*to),
            _ => None,
        };
        b.frames.events.iter().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&b), [64, 128, 256]);
    (0..400).for_each(|n| b.unmap(n * LINE[0], P4K));
    // 0.2 of 768 is 153.6; lines are moved to the halved table when others come.
    assert_eq!(sizes(&b), [64, 128, 256, 128]);
    (0..300).for_each(|n| b.map(n * LINE[0], P4K));
    assert!((0..300).all(|n| b.walk(n * LINE[0]).len() == 3));
}

#[test]
fn four_ways_fill_further_than_two() {
    // Cuckoo hashing's known thresholds: 0.5 of two ways, 0.918 of three, 0.977 of four (Fountoulakis and Panagiotou,
    // 2012).
    let filled = |ways: u8| {
        let desc =
            CuckooDesc { ways, lines: 4096, kicks: 512, grow: Part::thousandths(999), walk_tables: vec![], ..small() };
        let mut b = Bench::cuckoo(desc);
        b.frames.limit = Some(1 + u64::from(ways) * 65);
        let lines = (0..).take_while(|n| b.try_map(n * LINE[0], P4K).is_ok()).count();
        lines as f64 / (4096.0 * f64::from(ways))
    };
    let (two, three, four) = (filled(2), filled(3), filled(4));
    assert!((0.45..0.53).contains(&two), "{two}");
    assert!((0.88..0.93).contains(&three), "{three}");
    assert!((0.94..0.99).contains(&four), "{four}");
}

#[test]
fn linear_probing_reads_what_knuth_says() {
    // 1/2 (1 + 1/(1 - a)) lines for what is there, 1/2 (1 + 1/(1 - a)^2) for what is not (section 6.4, theorem K).
    let desc = OpenDesc { lines: 4096, grow: Part::thousandths(900), ..OpenDesc::default() };
    let mut b = Bench::new(TableDesc::of_hashed(desc).unwrap());
    (0..2048).for_each(|n| b.map(n * LINE[0], P4K));
    let mean =
        |b: &Bench, from: u64| (from..from + 2048).map(|n| b.walk(n * LINE[0]).len()).sum::<usize>() as f64 / 2048.0;
    let (hits, misses) = (mean(&b, 0), mean(&b, 1 << 20));
    assert!((1.4..1.6).contains(&hits), "{hits}, by the formula 1.5");
    assert!((2.2..2.8).contains(&misses), "{misses}, by the formula 2.5");
}

#[test]
fn slots_are_those_of_the_hash() {
    let mut b = Bench::new(TableDesc::of_hashed(OpenDesc { lines: 64, ..OpenDesc::default() }).unwrap());
    b.map(LINE[0] * 7 + 3, P4K);
    let drawn = mmulab_pagetable::draw(b.table.format(), b.table.root(), &b.mem);
    assert!(drawn.contains(&format!("way 0 slot {} at", hash(7, 0) & 63)), "{drawn}");
    assert!(drawn.contains("[3] 0x3b000: 4K rw-"), "{drawn}");
}

#[test]
fn sizes_are_probed_at_once_or_in_turn() {
    for (sizes, expected) in [(Probing::Parallel, vec![1, 2]), (Probing::Sequential, vec![1])] {
        let mut b = Bench::new(TableDesc::of_hashed(OpenDesc { sizes, ..OpenDesc::default() }).unwrap());
        b.map(0, P4K);
        b.map(1 << 20, P2M);
        assert_eq!(b.walk(0), expected);
        assert_eq!(b.walk(1 << 20), [1, 2]);
    }
}

#[test]
fn a_way_is_made_of_pieces_where_no_block_holds_it() {
    let mut b = Bench::cuckoo(CuckooDesc { walk_tables: vec![], ..CuckooDesc::default() });
    b.frames.largest = Some(PageOrder::new(4));
    b.map(0, P2M);
    // 1 MiB in blocks of 64 KiB.
    let made = |e: &TableEvent| matches!(e, TableEvent::Resized { level: 2, from: 0, to: 16384, pieces: 16, .. });
    assert_eq!(b.frames.count(made), 1);
    assert_eq!(b.table.table_frames(), b.frames.out);
    let whole = CuckooDesc { pieces: 1, walk_tables: vec![], ..CuckooDesc::default() };
    let mut b = Bench::cuckoo(whole);
    let before = b.frames.out;
    b.frames.largest = Some(PageOrder::new(4));
    assert_eq!(b.try_map(0, P2M), Err(MapError::OutOfFrames));
    assert_eq!(b.frames.out, before, "nothing is kept of what was refused");
}

#[test]
fn without_memory_a_table_fills_further_and_then_refuses() {
    let mut b = Bench::cuckoo(CuckooDesc { walk_tables: vec![], ..small() });
    b.frames.limit = Some(1 + 3 * 2);
    let mut model = Model::new();
    for n in 0.. {
        if b.try_map(n * LINE[0], P4K).is_err() {
            break;
        }
        model.insert(n * LINE[0], leaf(n * LINE[0], P4K, Prot::RW));
    }
    // It wanted to grow at 115 lines of 192.
    assert!((150..192).contains(&model.len()), "{}", model.len());
    assert!(b.frames.count(|e| *e == TableEvent::NoResize { level: 1 }) > 0);
    b.is_right(&model);
    b.frames.limit = None;
    b.map(1 << 20, P4K);
    b.is_right(&model);
    // Linear probing fills to the last slot but one.
    let mut b = Bench::new(TableDesc::of_hashed(OpenDesc { lines: 64, ..OpenDesc::default() }).unwrap());
    b.frames.limit = Some(b.frames.out);
    assert_eq!((0..).take_while(|n| b.try_map(n * LINE[0], P4K).is_ok()).count(), 63);
    assert_eq!(hardware(&b.table, &b.mem, Vpn(1 << 20)).0, None);
}

#[test]
fn a_split_that_runs_out_of_memory_leaves_the_page_whole() {
    let mut b = Bench::cuckoo(CuckooDesc { walk_tables: vec![], ..small() });
    b.map(0, P2M);
    b.frames.limit = Some(b.frames.out);
    // 64 lines more are more than 192 places hold.
    (1..=150).for_each(|n| b.map((1 << 20) + n * LINE[0], P4K));
    assert!(b.table.split(&mut b.mem, &mut b.frames, Vpn(0)).is_err());
    assert_eq!(hardware(&b.table, &b.mem, Vpn(77)).0, Some(leaf(0, P2M, Prot::RW)));
    b.frames.limit = None;
    b.table.split(&mut b.mem, &mut b.frames, Vpn(0)).unwrap().lazy("no TLB here");
    assert_eq!(hardware(&b.table, &b.mem, Vpn(77)).0.map(|leaf| leaf.order), Some(P4K));
}

#[test]
fn holes_are_as_large_as_pages_that_fit_there() {
    let mut b = Bench::cuckoo(small());
    b.map(0, P2M);
    b.map(1024, P4K);
    let hole = |b: &Bench, page: u64| b.table.probe(&b.mem, Vpn(page));
    assert_eq!(hole(&b, 512), Probe::Hole(P2M));
    assert_eq!(hole(&b, 1025), Probe::Hole(P4K));
    assert_eq!(hole(&b, 1032), Probe::Hole(PageOrder::new(3)));
    assert_eq!(hole(&b, LINE[1]), Probe::Hole(PageOrder::new(12)));
    assert_eq!(hole(&b, 1 << 18), Probe::Hole(P1G));
}
