//! References per second of the engine beside those of a bare loop, in one run: the ratio is what counts, for the
//! machine's own speed drifts. `make bench` prints it; `docs/results/performance.md` keeps what was measured.
//!
//! `cargo bench -p mmulab-machine -- "8 GiB"` measures only what is so named: `"MIX linux-thp"` one table, `"MIX
//! linux-thp sequential"` one line of it. `--references=N` sets how many references a pattern has, how many addresses
//! of lanes shader cores take, and how many instructions cores in time run. So `scripts/count_instructions.py` can take
//! the difference of two runs.

mod bare;
mod patterns;

use bare::Bare;
use mmulab_addr::{Access, Asid, PageOrder, Pfn, Prot, VirtAddr};
use mmulab_assoc::Ways;
use mmulab_machine::{Control, Followed, Limits, Machine, Options, Touched, describe, open, run};
use mmulab_pagetable::{Format, Leaf, Walked};
use mmulab_tlb::{ArrayDesc, Hierarchy, HierarchyDesc, NoObserver, Outcome, Placement};
use mmulab_trace::{Backing, Batch, Event, MapFlags, Ref};
use patterns::{DATA, pattern};
use std::{
    hint::black_box,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

/// References of each measurement, unless `--references=N` says otherwise.
const COUNT: usize = 1 << 24;
/// Times each is repeated; the best counts.
const REPEATS: usize = 3;
/// The machine that whole runs are measured on.
const MACHINE: &str = "skylake-e3-1240v5";

/// A machine that coalesces, measured beside itself without.
const COALESCING: &str = "zen3-5900x";

/// Split TLBs, and MIX TLBs in their area.
const SPLIT: &str = "haswell-mix-baseline";
const MIX: &str = "haswell-mix";

/// A machine whose core is described in time.
const IN_TIME: &str = "zen4-epyc9004";

/// Shader cores, and their number.
const GPU: &str = "gpu-mix-baseline";
const SHADERS: u16 = 128;

/// Runs on the calling thread, without an end.
const ONE_THREAD: Limits = Limits { instructions: None, threads: 1, shares: false };

/// Nanoseconds that this thread has run on a core: what others do on a shared machine then counts as little as it can.
fn core_ns() -> Option<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `now` alone, which is a `timespec`.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    (status == 0).then_some(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Units of work of this thread per second of a core's time, at the best of several times.
fn best_of_core(units: u64, mut work: impl FnMut()) -> f64 {
    let rate = |_| {
        let (start, before) = (Instant::now(), core_ns());
        work();
        let spent = before.zip(core_ns()).map(|(before, after)| (after - before) as f64 / 1e9);
        units as f64 / spent.unwrap_or_else(|| start.elapsed().as_secs_f64())
    };
    (0..REPEATS).map(rate).fold(0.0, f64::max)
}

/// Units of work per second, at the best of several times.
fn best(units: u64, mut work: impl FnMut()) -> f64 {
    let rate = |_| {
        let start = Instant::now();
        work();
        units as f64 / start.elapsed().as_secs_f64()
    };
    (0..REPEATS).map(rate).fold(0.0, f64::max)
}

/// The measurements that the command line asks for.
struct Wanted {
    /// Parts of names; empty for all measurements.
    names: Vec<String>,
    /// References of a pattern, the most that lanes of shader cores name, and the most instructions of a core in time,
    /// if the command line says.
    references: Option<usize>,
}

impl Wanted {
    fn of_command_line() -> Self {
        let mut wanted = Self { names: Vec::new(), references: None };
        for word in std::env::args().skip(1) {
            match word.strip_prefix("--references=") {
                Some(count) => wanted.references = Some(count.parse().expect("--references is a number")),
                // Cargo says `--bench`.
                None if word.starts_with('-') => {}
                None => wanted.names.push(word),
            }
        }
        wanted
    }

    /// References of a pattern.
    fn count(&self) -> usize {
        self.references.unwrap_or(COUNT)
    }

    fn has(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|part| name.contains(part))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn machine(name: &str, policy: &str, options: &Options, with_space: bool) -> Machine {
    machine_with(name, policy, &[], options, with_space)
}

fn machine_with(name: &str, policy: &str, overrides: &[String], options: &Options, with_space: bool) -> Machine {
    let dirs = |d: &str| vec![root().join(d)];
    let desc = describe::resolve(
        describe::Names { machine: name, policy, host_policy: None },
        overrides,
        options,
        &dirs("machines"),
        &dirs("policies"),
    )
    .unwrap();
    Machine::new(Arc::new(desc), with_space).unwrap()
}

/// A batch that maps and touches everything, for a fault is not what is measured, and the batches to measure.
fn batches(footprint: u64, addresses: &[u64], each: impl Fn(VirtAddr, &mut Vec<Ref>)) -> (Batch, Vec<Batch>) {
    let mut map = Batch::default();
    map.push_event(Event::Mmap {
        addr: VirtAddr::new(DATA),
        len: footprint,
        prot: Prot::RW.with(Prot::X),
        flags: MapFlags::default(),
        backing: Backing::Anon,
    });
    for page in 0..footprint / PageOrder::P4K.bytes() {
        map.refs.push(Ref::write(VirtAddr::new(DATA + page * PageOrder::P4K.bytes())));
    }
    let chunk = |part: &[u64]| {
        let mut refs = Vec::new();
        part.iter().for_each(|&va| each(VirtAddr::new(va), &mut refs));
        Batch { refs, ..Batch::default() }
    };
    (map, addresses.chunks(Batch::TARGET).map(chunk).collect())
}

/// The arrays of the bare loop, filled without a walk. They hold the same pages, or this is no comparison.
fn tlbs_only(addresses: &[u64], bare: &Bare) -> f64 {
    let array = |name: &str, level, side, entries, ways| {
        ArrayDesc::plain(name, (level, side), (entries, Ways::Count(ways)), &[PageOrder::P4K])
    };
    let arrays = [
        array("ITLB", 1, Placement::Instruction, 64, 4),
        array("DTLB", 1, Placement::Data, 64, 4),
        array("STLB", 2, Placement::Both, 1536, 12),
    ];
    let mut tlbs = Hierarchy::new(&arrays, &HierarchyDesc::default()).unwrap();
    let rate = best_of_core(addresses.len() as u64, || {
        for &va in addresses {
            let va = VirtAddr::new(va);
            if let Outcome::Miss { .. } = tlbs.access(Asid(1), va, Access::Read, &mut NoObserver) {
                let leaf = Leaf {
                    pfn: Pfn(va.vpn().0),
                    order: PageOrder::P4K,
                    prot: Prot::RW,
                    user: true,
                    accessed: true,
                    dirty: true,
                    global: false,
                };
                let walked = Walked { leaf, line: [0; 8], slot: 0, level: 1, format: Format::x86(4) };
                tlbs.fill(Asid(1), va, Access::Read, &walked, &mut NoObserver);
            }
        }
    });
    let counts = tlbs.counts();
    assert_eq!((counts.l1d.misses, counts.l2d.misses), bare.misses);
    rate
}

fn whole(footprint: u64, addresses: &[u64], each: impl Fn(VirtAddr, &mut Vec<Ref>)) -> f64 {
    whole_on(machine(MACHINE, "linux-4k", &Options::default(), true), footprint, addresses, each)
}

fn whole_on(mut m: Machine, footprint: u64, addresses: &[u64], each: impl Fn(VirtAddr, &mut Vec<Ref>)) -> f64 {
    let (map, batches) = batches(footprint, addresses, each);
    m.run(&map);
    let references = batches.iter().map(|b| b.refs.len() as u64).sum();
    best_of_core(references, || batches.iter().for_each(|b| m.run(b)))
}

fn beside_the_bare_loop(name: &str, count: usize) {
    let (footprint, addresses) = pattern(name, count);
    let mut bare = Bare::new();
    let loop_rate = best_of_core(count as u64, || {
        bare.run(black_box(&addresses));
    });
    let tlb_rate = tlbs_only(&addresses, &bare);
    let whole_rate = whole(footprint, &addresses, |va, refs| refs.push(Ref::read(va)));
    println!(
        "{name:14} {:10.1} {:10.1} {:8.3} {:14.2} {:8.3}",
        loop_rate / 1e6,
        tlb_rate / 1e6,
        tlb_rate / loop_rate,
        whole_rate / 1e6,
        whole_rate / loop_rate
    );
}

/// An update is a block fetched, a word loaded and stored.
fn updates(name: &str, overrides: &[&str], count: usize) {
    let (footprint, addresses) = pattern("random 8 GiB", count / 2);
    let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
    let machine = machine_with(MACHINE, "linux-4k", &overrides, &Options::default(), true);
    let rate = whole_on(machine, footprint, &addresses, |va, refs| {
        refs.extend([Ref::fetch(VirtAddr::new(DATA), 8), Ref::read(va), Ref::write(va)]);
    });
    println!("{name:14} {:>10} {:>10} {:>8} {:14.2}", "", "", "", rate / 1e6);
}

/// A guest on the same machine, both by 4 KiB pages, with a host's walk cache like the guest's.
const GUEST: [&str; 3] = [
    "virtual.memory.size=12G",
    "virtual.cache=[{name='hPDE', levels=[2, 3, 4], entries=64, ways=8}]",
    "virtual.nested_tlb={entries=64, ways=8}",
];

/// The same machine with coalescing and without.
fn coalescing(wanted: &Wanted) {
    let off = ["tlb_rules.coalescing=none".to_owned()];
    let head = format!("\n{COALESCING:14} {:>10} {:>10} {:>8}", "coalescing", "without", "ratio");
    let build = |overrides| machine_with(COALESCING, "linux-4k", overrides, &Options::default(), true);
    let patterns = ["random 4 MiB", "90/10 mix", "sequential"];
    beside(wanted, ("coalescing", &head), &patterns, || build(&[]), || build(&off));
}

/// MIX TLBs beside split ones, with superpages that they mirror in all sets, and without.
fn mix(wanted: &Wanted) {
    for policy in ["linux-thp", "linux-4k"] {
        let head = format!("\n{policy:14} {:>10} {:>10} {:>8}", "MIX", "split", "ratio");
        let build = |name| machine(name, policy, &Options::default(), true);
        let patterns = ["random 8 GiB", "random 4 MiB", "90/10 mix", "sequential"];
        beside(wanted, (&format!("MIX {policy}"), &head), &patterns, || build(MIX), || build(SPLIT));
    }
}

/// A machine over a trace, which the same thread decodes.
fn on_one_thread(trace: &str, machine: Machine, limits: Limits) {
    let mut source = open(trace).unwrap();
    black_box(run(source.as_mut(), vec![machine], Followed::default(), limits, |_| Control::Continue));
}

/// Two machines over patterns and the compiler's recording, one after the other: a table under its name and head.
fn beside(
    wanted: &Wanted,
    (table, head): (&str, &str),
    patterns: &[&str],
    one: impl Fn() -> Machine,
    other: impl Fn() -> Machine,
) {
    let row =
        |name: &str, on: f64, off: f64| println!("{name:14} {:10.2} {:10.2} {:8.3}", on / 1e6, off / 1e6, on / off);
    let is_wanted = |name: &str| wanted.has(&format!("{table} {name}"));
    if patterns.iter().copied().chain(["compiler"]).any(is_wanted) {
        println!("{head}");
    }
    for name in patterns.iter().copied().filter(|name| is_wanted(name)) {
        let (footprint, addresses) = pattern(name, wanted.count() / 2);
        let rate = |machine| whole_on(machine, footprint, &addresses, |va, refs| refs.push(Ref::read(va)));
        row(name, rate(one()), rate(other()));
    }
    if is_wanted("compiler") {
        let path = root().join("tests/data/cc1-small.mmt");
        let path = path.to_str().unwrap();
        let references = open(path).unwrap().info().references.unwrap_or_default();
        let rate = |build: &dyn Fn() -> Machine| best(references, || on_one_thread(path, build(), ONE_THREAD));
        row("compiler", rate(&one), rate(&other));
    }
}

/// Many shader cores, generator included: addresses that lanes name, per second of one core's time.
fn shader_cores(wanted: &Wanted) {
    let programs = ["gpu-bfs", "gpu-srad", "gpu-kmeans"].into_iter();
    let programs: Vec<_> = programs.filter(|program| wanted.has(&format!("shader cores {program}"))).collect();
    if !programs.is_empty() {
        println!("\n{SHADERS} shader cores ({GPU}, linux-4k): million lanes' addresses a second, generator included");
    }
    for program in programs {
        let most = wanted.references.unwrap_or(usize::MAX);
        let rate = (0..REPEATS).map(|_| lanes_of_core(program, most)).fold(0.0, f64::max);
        println!("{program:14} {:10.1}", rate / 1e6);
    }
}

/// `most`: batches end once lanes have named as many addresses.
fn lanes_of_core(program: &str, most: usize) -> f64 {
    let mut source = open(&format!("gen:{program}?cores={SHADERS}")).unwrap();
    let mut machine = machine_with(GPU, "linux-4k", &[format!("core.count={SHADERS}")], &Options::default(), true);
    machine.take(source.info()).unwrap();
    let mut batch = Batch::default();
    // The first one maps, and has the generator make its data.
    source.next_batch(&mut batch).unwrap();
    machine.run(&batch);
    let mut lanes = 0;
    let (start, before) = (Instant::now(), core_ns());
    while lanes < most && source.next_batch(&mut batch).unwrap() {
        lanes += batch.refs.iter().filter(|word| !word.is_control() && !word.is_fetch()).count();
        machine.run(&batch);
    }
    let spent = before.zip(core_ns()).map(|(before, after)| (after - before) as f64 / 1e9);
    lanes as f64 / spent.unwrap_or_else(|| start.elapsed().as_secs_f64())
}

/// The shipped recording of a compiler: decoding, faults and all; then as a study runs it.
fn compiler() {
    let path = root().join("tests/data/cc1-small.mmt");
    let path = path.to_str().unwrap();
    let references = open(path).unwrap().info().references.unwrap_or_default();
    let go = |machines: Vec<Machine>, touched: Option<Touched>| {
        let mut source = open(path).unwrap();
        let limits = Limits::default();
        black_box(run(source.as_mut(), machines, Followed { touched, windows: None }, limits, |_| Control::Continue));
    };
    let plain = Options::default();
    let one = best(references, || go(vec![machine(MACHINE, "linux-4k", &plain, true)], None));
    println!("\na compiler's recording, decoding included: {:.1} M refs/s", one / 1e6);
    let study = Options { touched: true, profile: true, ..Options::default() };
    let machines = ["skylake-e3-1240v5", "zenplus-2700x", "zen3-5900x", "neoverse-n1"];
    let policies = ["linux-4k", "linux-thp", "hugetlb-2m"];
    let all = || machines.iter().flat_map(|m| policies.map(|p| machine(m, p, &study, true))).collect::<Vec<_>>();
    let singly: f64 = machines
        .iter()
        .flat_map(|m| policies.map(|p| 1.0 / best(1, || go(vec![machine(m, p, &study, true)], Some(Touched::new())))))
        .sum();
    let together = 1.0 / best(1, || go(all(), Some(Touched::new())));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "12 machines over it in one pass: the time of {:.1} single runs ({cores} cores)",
        12.0 * together / singly
    );
    let many = |count: u32| {
        let with = |n: u32| {
            let set =
                [format!("tlb.STLB.entries={}", 96 * (1 + n % 32)), format!("tlb.STLB.hit_cycles={}", 7 + n / 32)];
            machine_with(MACHINE, "linux-4k", &set, &plain, true)
        };
        (0..count).map(with).collect::<Vec<_>>()
    };
    let go_shared = |machines: Vec<Machine>| {
        let mut source = open(path).unwrap();
        let limits = Limits { shares: true, ..Limits::default() };
        let ran = run(source.as_mut(), machines, Followed::default(), limits, |_| Control::Continue);
        assert!(ran.again.is_empty(), "{} machines parted", ran.again.len());
        black_box(ran);
    };
    let shared = 1.0 / best(1, || go_shared(many(100)));
    println!("100 second levels over it in one pass: the time of {:.1} single runs", shared * one / references as f64);
}

/// The same recording, random updates and a stream on a core in time: million instructions a second of one thread.
fn in_time(wanted: &Wanted) {
    let recording = root().join("tests/data/cc1-small.mmt");
    let options = Options { timing: true, ..Options::default() };
    let mut head = Some(format!("in time ({IN_TIME}, linux-4k): million instructions a second, decoding included"));
    for (name, trace) in [
        ("compiler", recording.to_str().unwrap()),
        ("gups", "gen:gups?footprint=64M&updates=1M"),
        ("sequential", "gen:sequential?footprint=64M&references=8M"),
    ] {
        if !wanted.has(&format!("in time {name}")) {
            continue;
        }
        if let Some(head) = head.take() {
            println!("\n{head}");
        }
        let all = open(trace).unwrap().info().instructions.unwrap_or_default();
        let instructions = wanted.references.map_or(all, |most| all.min(most as u64));
        let limits = Limits { instructions: Some(instructions), ..ONE_THREAD };
        let rate = best(instructions, || on_one_thread(trace, machine(IN_TIME, "linux-4k", &options, true), limits));
        println!("{name:14} {:10.1}", rate / 1e6);
    }
}

fn main() {
    let wanted = Wanted::of_command_line();
    println!("million references a second, and the ratio to the bare loop ({MACHINE}, linux-4k)");
    println!(
        "{:14} {:>10} {:>10} {:>8} {:>14} {:>8}",
        "pattern", "bare loop", "TLBs only", "ratio", "whole machine", "ratio"
    );
    for name in ["random 8 GiB", "random 4 MiB", "90/10 mix", "sequential"] {
        if wanted.has(&format!("Skylake {name}")) {
            beside_the_bare_loop(name, wanted.count());
        }
    }
    for (name, overrides) in [("GUPS 8 GiB", &[][..]), ("GUPS in a guest", &GUEST)] {
        if wanted.has(name) {
            updates(name, overrides, wanted.count());
        }
    }
    coalescing(&wanted);
    mix(&wanted);
    shader_cores(&wanted);
    if wanted.has("the compiler's recording") {
        compiler();
    }
    in_time(&wanted);
}
