//! References per second of the engine beside those of a bare loop, in one run: the ratio is what counts, for the
//! machine's own speed drifts. `make bench` prints it; `docs/performance.md` keeps what was measured.

use mmulab_addr::{PageOrder, Prot, VirtAddr};
use mmulab_machine::{Machine, Options, describe};
use mmulab_trace::{Backing, Batch, Event, MapFlags, Ref};
use std::{hint::black_box, path::PathBuf, sync::Arc, time::Instant};

const DATA: u64 = 0x10_0000_0000;
/// References of each measurement.
const COUNT: usize = 1 << 24;
/// Times each is repeated; the best counts.
const REPEATS: usize = 3;

/// A shift register: cheap enough not to show.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The patterns of the bare loops: page numbers are within `footprint`.
fn pattern(name: &str) -> (u64, Vec<u64>) {
    let mut s = 0x9e37_79b9_7f4a_7c15;
    let (footprint, mut next): (u64, Box<dyn FnMut(usize) -> u64>) = match name {
        "random 8 GiB" => (8 << 30, Box::new(move |_| random(&mut s) & ((8 << 30) - 8))),
        "random 4 MiB" => (4 << 20, Box::new(move |_| random(&mut s) & ((4 << 20) - 8))),
        // Nine of ten to 128 KiB, the tenth to 1 GiB.
        "90/10 mix" => (
            1 << 30,
            Box::new(move |_| {
                let r = random(&mut s);
                if (r >> 40).is_multiple_of(10) { r & ((1 << 30) - 8) } else { r & ((128 << 10) - 8) }
            }),
        ),
        _ => (1 << 30, Box::new(|i| (i as u64 * 8) & ((1 << 30) - 1))),
    };
    (footprint, (0..COUNT).map(|i| DATA + next(i)).collect())
}

/// What a C programmer would write: 64 entries in 4 ways before 1536 in 12, true LRU by moving to the front.
struct Bare {
    first: Vec<[u64; 4]>,
    second: Vec<[u64; 12]>,
}

fn touch<const W: usize>(set: &mut [u64; W], page: u64) -> bool {
    let mut at = 0;
    while at < W && set[at] != page {
        at += 1;
    }
    let hit = at < W;
    let mut i = if hit { at } else { W - 1 };
    while i > 0 {
        set[i] = set[i - 1];
        i -= 1;
    }
    set[0] = page;
    hit
}

impl Bare {
    fn run(&mut self, addresses: &[u64]) -> (u64, u64) {
        let (mut first, mut second) = (0, 0);
        for va in addresses {
            let page = va >> 12;
            if !touch(&mut self.first[page as usize & 15], page) {
                first += 1;
                second += u64::from(!touch(&mut self.second[page as usize & 127], page));
            }
        }
        (first, second)
    }
}

fn best(mut work: impl FnMut()) -> f64 {
    (0..REPEATS)
        .map(|_| {
            let start = Instant::now();
            work();
            COUNT as f64 / start.elapsed().as_secs_f64()
        })
        .fold(0.0, f64::max)
}

fn machine(name: &str) -> Machine {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dirs = |d: &str| vec![root.join(d)];
    let desc =
        describe::resolve(name, "linux-4k", &[], &Options::default(), &dirs("machines"), &dirs("policies")).unwrap();
    Machine::new(Arc::new(desc), true).unwrap()
}

fn batches(footprint: u64, addresses: &[u64]) -> (Batch, Vec<Batch>) {
    let mut map = Batch::default();
    map.push_event(Event::Mmap {
        addr: VirtAddr::new(DATA),
        len: footprint,
        prot: Prot::RW,
        flags: MapFlags::default(),
        backing: Backing::Anon,
    });
    // Every page is faulted in beforehand: a fault is not what is measured.
    for page in 0..footprint / PageOrder::P4K.bytes() {
        map.refs.push(Ref::write(VirtAddr::new(DATA + page * 4096)));
    }
    let chunk = |part: &[u64]| Batch {
        refs: part.iter().map(|&va| Ref::read(VirtAddr::new(va))).collect(),
        events: Vec::new(),
    };
    (map, addresses.chunks(Batch::TARGET).map(chunk).collect())
}

/// The arrays of the bare loop, filled without a walk: what the TLBs alone cost.
fn tlbs_only(addresses: &[u64]) -> f64 {
    use mmulab_addr::{Access, Asid, Pfn};
    use mmulab_pagetable::{Format, Leaf, Walked};
    use mmulab_tlb::{Hierarchy, Outcome, Silent};
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dirs = |d: &str| vec![root.join(d)];
    let desc = describe::resolve(
        "skylake-e3-1240v5",
        "linux-4k",
        &[],
        &Options::default(),
        &dirs("machines"),
        &dirs("policies"),
    )
    .unwrap();
    let mut tlbs = Hierarchy::new(&desc.machine.tlb, &desc.machine.tlb_rules).unwrap();
    let rate = best(|| {
        for &va in addresses {
            let va = VirtAddr::new(va);
            if let Outcome::Miss { .. } = tlbs.access(Asid(1), va, Access::Read, &mut Silent) {
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
                tlbs.fill(Asid(1), va, Access::Read, &walked, &mut Silent);
            }
        }
    });
    black_box(tlbs.counts());
    rate
}

fn main() {
    println!("million references a second, and the ratio to the bare loop (Skylake, 4 KB pages)");
    println!(
        "{:14} {:>10} {:>10} {:>8} {:>14} {:>8}",
        "pattern", "bare loop", "TLBs only", "ratio", "whole machine", "ratio"
    );
    for name in ["random 8 GiB", "random 4 MiB", "90/10 mix", "sequential"] {
        let (footprint, addresses) = pattern(name);
        let mut bare = Bare { first: vec![[0; 4]; 16], second: vec![[0; 12]; 128] };
        let loop_rate = best(|| {
            black_box(bare.run(black_box(&addresses)));
        });
        let tlb_rate = tlbs_only(&addresses);
        let mut m = machine("skylake-e3-1240v5");
        let (map, batches) = batches(footprint, &addresses);
        m.run(&map);
        let whole_rate = best(|| batches.iter().for_each(|b| m.run(b)));
        println!(
            "{name:14} {:10.0} {:10.0} {:8.2} {:14.0} {:8.2}",
            loop_rate / 1e6,
            tlb_rate / 1e6,
            tlb_rate / loop_rate,
            whole_rate / 1e6,
            whole_rate / loop_rate
        );
    }
}
