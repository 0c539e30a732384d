//! References a second through two levels of TLBs (64 entries of 4 ways, 1,536 entries of 12 ways, true LRU; misses are
//! filled at once, without a walk), beside a bare loop over the same geometry in the same run. Compare the ratios: the
//! figures themselves move with the machine.
//!
//! Run with `cargo run --release -p mmulab-tlb --example speed`.

use mmulab_addr::{Access, Asid, PageOrder, Pfn, Prot, VirtAddr};
use mmulab_pagetable::{Format, Leaf, Walked};
use mmulab_sets::{Replacement, Ways};
use mmulab_tlb::{ArrayDesc, Hierarchy, HierarchyDesc, Outcome, Placement, Probe, Silent};
use std::{collections::BTreeMap, hint::black_box, time::Instant};

/// References of one pass: an array of 32 MiB, beyond most caches, as a decoded trace is.
const REFS: usize = 4 << 20;
/// Passes, of which the fastest counts.
const PASSES: usize = 7;

/// What a plain loop would keep: sets of tags, most recent first.
struct Bare {
    first: [[u64; 4]; 16],
    second: [[u64; 12]; 128],
    misses: [u64; 2],
}

/// Whether `tag` was in the set; it is its first now.
#[inline(always)]
fn use_of<const WAYS: usize>(set: &mut [u64; WAYS], tag: u64) -> bool {
    for way in 0..WAYS {
        if set[way] == tag {
            for at in (0..way).rev() {
                set[at + 1] = set[at];
            }
            set[0] = tag;
            return true;
        }
    }
    for at in (0..WAYS - 1).rev() {
        set[at + 1] = set[at];
    }
    set[0] = tag;
    false
}

impl Bare {
    fn run(&mut self, refs: &[u64]) {
        for &va in refs {
            let page = va >> 12;
            if !use_of(&mut self.first[page as usize & 15], page) {
                self.misses[0] += 1;
                self.misses[1] += u64::from(!use_of(&mut self.second[page as usize & 127], page));
            }
        }
    }
}

fn array(name: &str, level: u8, entries: u32, ways: u32, sizes: &[PageOrder]) -> ArrayDesc {
    ArrayDesc {
        name: name.into(),
        level,
        side: if level == 1 { Placement::Data } else { Placement::Both },
        entries,
        ways: Ways::Count(ways),
        sizes: sizes.to_vec(),
        replacement: Replacement::Lru,
        probe: Probe::Parallel,
        hit_cycles: if level == 1 { 0 } else { 7 },
        smash_to: None,
        victim_of: None,
        source: String::new(),
        assumed: BTreeMap::new(),
    }
}

fn hierarchy() -> Hierarchy {
    let arrays = [
        ArrayDesc { side: Placement::Instruction, ..array("ITLB", 1, 64, 4, &[PageOrder::P4K]) },
        array("DTLB-4K", 1, 64, 4, &[PageOrder::P4K]),
        array("DTLB-2M", 1, 32, 4, &[PageOrder::P2M]),
        array("STLB", 2, 1536, 12, &[PageOrder::P4K, PageOrder::P2M]),
    ];
    Hierarchy::new(&arrays, &HierarchyDesc::default()).expect("the geometry is sound")
}

fn run(tlbs: &mut Hierarchy, refs: &[u64]) {
    let asid = Asid(1);
    for &va in refs {
        let va = VirtAddr::new(va);
        if let Outcome::Miss { .. } = tlbs.access(asid, va, Access::Read, &mut Silent) {
            let leaf = Leaf {
                pfn: Pfn(va.vpn().0),
                order: PageOrder::P4K,
                prot: Prot::RW,
                user: true,
                accessed: true,
                dirty: true,
                global: false,
            };
            let walked = Walked { leaf, line: [0; 8], slot: 0, level: 1, format: Format::X86 { levels: 4 } };
            tlbs.fill(asid, va, Access::Read, &walked, &mut Silent);
        }
    }
}

/// The fastest pass's references a second, in millions.
fn best(mut pass: impl FnMut()) -> f64 {
    let seconds = (0..PASSES).map(|_| {
        let start = Instant::now();
        pass();
        start.elapsed().as_secs_f64()
    });
    REFS as f64 / seconds.fold(f64::INFINITY, f64::min) / 1e6
}

fn main() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    // xorshift64 (Marsaglia 2003): enough to scatter addresses.
    let mut draw = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    const BASE: u64 = 0x1000_0000_0000;
    let mut within = |bytes: u64| BASE + (draw() & (bytes - 1) & !7);
    let far: Vec<u64> = (0..REFS).map(|_| within(8 << 30)).collect();
    let near: Vec<u64> = (0..REFS).map(|_| within(4 << 20)).collect();
    // Nine of ten to 128 KiB, the rest anywhere.
    let mix: Vec<u64> =
        (0..REFS).map(|_| if within(1 << 20) % 1000 < 900 { within(128 << 10) } else { within(8 << 30) }).collect();
    let sequential: Vec<u64> = (0..REFS as u64).map(|i| BASE + i * 8).collect();

    println!("{:<14} {:>12} {:>12} {:>7}", "M refs/s", "bare loop", "mmulab", "ratio");
    for (name, refs) in [("random 8G", &far), ("random 4M", &near), ("90/10 mix", &mix), ("sequential", &sequential)] {
        let mut bare = Bare { first: [[!0; 4]; 16], second: [[!0; 12]; 128], misses: [0; 2] };
        let mut tlbs = hierarchy();
        let bare_speed = best(|| bare.run(black_box(refs)));
        let speed = best(|| run(&mut tlbs, black_box(refs)));
        let counts = tlbs.counts();
        counts.check().expect("every access is accounted for");
        assert_eq!([counts.l1d.misses, counts.l2d.misses], bare.misses, "both hold the same pages");
        println!("{name:<14} {bare_speed:>12.0} {speed:>12.0} {:>7.2}", bare_speed / speed);
    }
}
