//! Hardware threads: with everything in common they are one CPU, with an array for each they are cores. No thread uses
//! a stale translation, whichever thread changed the table.

use crate::common::{AT, build, map, result, two_processes};
use mmulab_addr::{Pid, Prot, Tid, VirtAddr};
use mmulab_machine::{Machine, Options, describe, describe::Check};
use mmulab_trace::{Batch, Event, Ref, TraceInfo};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

/// Pages that each process plays with.
const PAGES: u64 = 2048;

/// Two processes of two threads each take turns.
fn random(seed: u64, steps: usize) -> Batch {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut batch = two_processes(PAGES);
    let mut below = |n: u64| rng.next_u64() % n;
    for _ in 0..steps {
        let (first, pages) = (below(PAGES), 1 + below(100));
        let (addr, len) = (VirtAddr::new(AT + (first << 12)), pages.min(PAGES - first) << 12);
        match below(30) {
            0 => batch.push_event(Event::Munmap { addr, len }),
            1 => batch.push_event(map(addr, len)),
            2 => batch.push_event(Event::Mprotect { addr, len, prot: if below(2) == 0 { Prot::R } else { Prot::RW } }),
            3 => batch.push_event(Event::Invlpg { addr }),
            4..16 => {
                let thread = below(4) as u32;
                batch.push_event(Event::Switch { pid: Pid(1 + thread % 2), tid: Tid(1 + thread) });
            }
            n => {
                for page in 0..below(48) {
                    let va = VirtAddr::new(AT + (((first + page * n) % PAGES) << 12) + (below(512) << 3));
                    batch.refs.push(match below(4) {
                        0 => Ref::fetch(va, 3),
                        1 => Ref::write(va),
                        _ => Ref::read(va),
                    });
                }
            }
        }
    }
    batch
}

fn machine(name: &str, overrides: &[String], check: Check) -> Result<Machine, String> {
    let names = describe::Names { machine: name, policy: "linux-thp", host_policy: None };
    build(names, overrides, &Options { check, ..Options::default() })
}

fn counts(name: &str, overrides: &[String], seed: u64, check: Check) -> Value {
    let mut machine = machine(name, overrides, check).expect("a machine");
    machine.run(&random(seed, 3000));
    assert_eq!(machine.ended(), None, "seed {seed}: {overrides:?}");
    result(&mut machine, &TraceInfo::default())["counts"]["tlb"].take()
}

const ARRAYS: [&str; 7] = ["ITLB-4K", "ITLB-2M", "DTLB-4K", "DTLB-2M", "DTLB-1G", "STLB", "STLB-1G"];

/// Skylake with this number of cores and threads, whose arrays are all per thread or none is.
fn skylake(cores: u16, threads: u16, per_thread: bool) -> Vec<String> {
    let mut overrides = vec![format!("core.count={cores}"), format!("core.threads={threads}")];
    overrides.extend(ARRAYS.map(|array| format!("tlb.{array}.per_thread={per_thread}")));
    overrides
}

#[test]
fn threads_with_everything_in_common_are_one_cpu() {
    for seed in 0..4 {
        let [two, one] = [2, 1].map(|n| counts("skylake-e3-1240v5", &skylake(1, n, false), seed, Check::None));
        assert_eq!(two, one, "seed {seed}");
    }
}

#[test]
fn threads_with_all_arrays_of_their_own_are_cores() {
    for seed in 0..4 {
        let [threads, cores] = [(1, 2), (2, 1)]
            .map(|(cores, threads)| counts("skylake-e3-1240v5", &skylake(cores, threads, true), seed, Check::None));
        assert_eq!(threads, cores, "seed {seed}");
    }
}

#[test]
fn no_thread_uses_what_is_stale() {
    for (seed, name) in (0..).zip(["skylake-e3-1240v5", "zen3-5900x", "zenplus-2700x"]) {
        let overrides = ["core.count=2".to_owned(), "core.threads=2".to_owned()];
        counts(name, &overrides, seed, Check::Translations);
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let refused = |name: &str, overrides: &[&str]| {
        let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
        machine(name, &overrides, Check::None).err().expect("it must be refused")
    };
    let sky = "skylake-e3-1240v5";
    assert!(refused(sky, &["core.threads=9"]).contains("core.threads is 9: give 1 to 8"));
    assert!(refused(sky, &["core.threads=2", "core.count=1000"]).contains("no more than 1024 CPUs"));
    assert!(refused(sky, &["core.threads=2", "tlb_rules.asid_bits=0"]).contains("could not be told apart"));
    assert!(refused("gpu-mix-baseline", &["core.threads=2"]).contains("run warps"));
    let inclusive = ["core.threads=2", "tlb_rules.inclusion=inclusive"];
    assert!(refused(sky, &inclusive).contains("ITLB-2M is per_thread, and inclusion is modelled for one thread's"));
    assert!(machine(sky, &["tlb_rules.inclusion=inclusive".into()], Check::None).is_ok());
}
