//! Machines with one search of the first level. Each has the result, to the last byte, that it has alone. Machines that
//! part from the others are named.

use crate::common::{machine, random, result, source};
use mmulab_machine::{Control, Followed, Limits, Machine, Options, Ran, describe::Unmapped, run};
use serde_json::Value;

/// What follows the first level in each machine of a sweep: as many hundreds of sets of keys as an architect asks for.
const BELOW: [&[&str]; 7] = [
    &["tlb.STLB.entries=1536"],
    &["tlb.STLB.entries=24", "tlb.STLB.ways=4"],
    &["tlb.STLB.entries=96", "tlb.STLB.replacement=random"],
    &["tlb.STLB.entries=16", "tlb.STLB.ways=16", "tlb.STLB.hit_cycles=33"],
    &["walker.count=1"],
    &["core.base_cpi=3", "core.window=0"],
    &["tlb.STLB.entries=48", "tlb.STLB.ways=3", "cache_rules.memory_cycles=500"],
];

fn machines(keys: &[&str], policy: &str, options: &Options) -> Vec<Machine> {
    let one = |below: &&[&str]| machine("skylake-e3-1240v5", policy, &[*below, keys].concat(), options);
    BELOW.iter().map(one).collect()
}

fn go(text: &str, machines: Vec<Machine>, limits: Limits) -> Ran {
    run(source(text).as_mut(), machines, Followed::default(), limits, |_| Control::Continue)
}

fn results(text: &str, ran: &mut Ran) -> Vec<Value> {
    let info = source(text).info().clone();
    ran.machines.iter_mut().map(|machine| result(machine, &info)).collect()
}

/// Runs all machines together and each alone. Returns how many shared their first level to the end.
fn compare(what: &str, text: &str, build: &dyn Fn() -> Vec<Machine>, threads: usize) -> usize {
    let limits = Limits { threads, ..Limits::default() };
    let mut together = go(text, build(), Limits { shares: true, ..limits });
    let found = results(text, &mut together);
    let mut alone = go(text, build(), limits);
    assert!(alone.again.is_empty(), "{what}: nothing was shared");
    let expected = results(text, &mut alone);
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        if !together.again.contains(&index) {
            let odd = odd("", found, expected);
            assert!(odd.is_empty(), "{what}, machine {index} of {threads} threads: {odd:?}");
        }
    }
    // Whoever leads does not part.
    assert!(!together.again.contains(&0), "{what}");
    found.len() - together.again.len()
}

/// Where two results differ.
fn odd(at: &str, one: &Value, other: &Value) -> Vec<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            let of = |key: &String| odd(&format!("{at}.{key}"), &one[key], &other[key]);
            keys.into_iter().flat_map(of).collect()
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            one.iter().zip(other).enumerate().flat_map(|(n, (a, b))| odd(&format!("{at}.{n}"), a, b)).collect()
        }
        _ if one == other => Vec::new(),
        _ => vec![format!("{at}: {one}, alone {other}")],
    }
}

/// Mappings that come and go, forks, copies on write, rights that change, several processes.
#[test]
fn random_programs_have_the_results_they_have_alone() {
    for policy in ["linux-4k", "linux-thp", "linux-mthp", "freebsd-reserv"] {
        let (mut stayed, mut runs) = (0, 0);
        for keys in [
            &["memory.size=1G", "core.count=1"][..],
            &["memory.size=1G", "core.count=2"],
            &["memory.size=1G", "core.count=1", "tlb_rules.asid_bits=0"],
            &["memory.size=1G", "core.count=1", "tlb.DTLB-4K.entries=4", "tlb.ITLB-4K.entries=8"],
        ] {
            for seed in 0..4 {
                let text = random(seed, 100);
                let build = || machines(keys, policy, &Options::default());
                stayed += compare(&format!("{policy}, {keys:?}, seed {seed}"), &text, &build, 1 + seed as usize % 2);
                runs += BELOW.len();
            }
        }
        // A comparison of machines that all parted would show nothing. A copy of a 2 MB page on a write leaves base
        // pages. Then a first level that had the page from the second level has lost an entry that others still have.
        let least = if policy == "linux-4k" { runs } else { runs / 2 };
        assert!(stayed >= least, "{policy}: {stayed} of {runs} shared their first level to the end");
    }
}

/// With costs by place and by function, and with a part that is not counted.
#[test]
fn options_of_a_run_change_nothing() {
    for options in [
        Options { profile: true, ..Options::default() },
        Options { skip: 777, ..Options::default() },
        Options { fault_latency: true, ..Options::default() },
        Options { unmapped: Unmapped::Map, ..Options::default() },
    ] {
        let mut stayed = 0;
        for seed in 10..13 {
            let text = random(seed, 100);
            let build = || machines(&["memory.size=1G", "core.count=1"], "linux-4k", &options);
            stayed += compare(&format!("{options:?}, seed {seed}"), &text, &build, 1);
        }
        // A store that its rights forbid leaves an entry where the second level had the page, and none after a walk.
        assert!(stayed > BELOW.len(), "{options:?}: {stayed} shared their first level to the end");
    }
}

/// Machines that differ only behind their TLBs share both levels, whatever their design: entries of several pages,
/// predictors, victims, inclusion, entries that instructions hold.
#[test]
fn machines_that_differ_in_walkers_alone_share_both_levels() {
    const BEHIND: [&[&str]; 3] =
        [&["walker.count=1"], &["core.base_cpi=3", "core.window=0"], &["cache_rules.memory_cycles=500"]];
    let mut known = 0;
    for name in ["zen3-5900x", "zenplus-2700x", "haswell-mix", "haswell-colt-plus", "tps-haswell", "skylake-e3-1240v5"]
    {
        for (policy, keys) in [
            ("linux-4k", &["memory.size=1G", "core.count=1"][..]),
            ("linux-thp", &["memory.size=1G", "core.count=2"]),
            ("linux-4k", &["memory.size=1G", "core.count=1", "tlb_rules.inclusion=inclusive"]),
        ] {
            if keys.len() > 2 && name != "skylake-e3-1240v5" {
                continue;
            }
            for seed in 20..22 {
                let text = random(seed, 100);
                let one = |below: &&[&str]| machine(name, policy, &[*below, keys].concat(), &Options::default());
                let build = || BEHIND.iter().map(one).collect();
                let what = format!("{name}, {policy}, {keys:?}, seed {seed}");
                assert_eq!(compare(&what, &text, &build, 1), BEHIND.len(), "{what}");
                known += 1;
            }
        }
    }
    assert_eq!(known, 2 * (2 * 6 + 1));
}

/// A daemon wakes by each machine's own clock: machines whose pages it moves at other references part, and are named.
#[test]
fn machines_whose_daemons_wake_at_other_times_part() {
    let keys = ["memory.size=1G", "core.count=1", "core.frequency_mhz=1"];
    let paced = ["policy.thp.khugepaged.scan_sleep_ms=10", "policy.thp.khugepaged.alloc_sleep_ms=10"];
    let mut stayed = [0; 2];
    for seed in 0..4 {
        let text = random(seed, 100);
        let with = |more: &[&str]| {
            let keys = [&keys[..], more].concat();
            compare("khugepaged", &text, &|| machines(&keys, "linux-thp-khugepaged", &Options::default()), 1)
        };
        stayed[0] += with(&[]);
        stayed[1] += with(&paced);
    }
    assert!(stayed[1] < stayed[0], "with a daemon that wakes in the run {}, without {}", stayed[1], stayed[0]);
}

/// Machines with different first levels, kernels or memory have nothing in common.
#[test]
fn different_first_levels_share_nothing() {
    let text = random(5, 60);
    let keys = ["memory.size=1G", "core.count=1"];
    let build = || {
        let with = |more: &[&str], policy| {
            machine("skylake-e3-1240v5", policy, &[&keys[..], more].concat(), &Options::default())
        };
        vec![
            with(&[], "linux-4k"),
            with(&["tlb.DTLB-4K.entries=32"], "linux-4k"),
            with(&["memory.size=2G"], "linux-4k"),
            with(&[], "linux-thp"),
            with(&["cache_rules.data=true"], "linux-4k"),
            machine("zen3-5900x", "linux-4k", &keys, &Options::default()),
            machine("zen3-5900x", "linux-4k", &keys, &Options::default()),
        ]
    };
    let mut together = go(&text, build(), Limits { shares: true, threads: 1, ..Limits::default() });
    assert!(together.again.is_empty(), "{:?}", together.again);
    let mut alone = go(&text, build(), Limits { threads: 1, ..Limits::default() });
    assert_eq!(results(&text, &mut together), results(&text, &mut alone));
}

/// A machine that ends early says nothing of what others of its first level would do.
#[test]
fn machines_that_end_early_are_run_again() {
    let text = format!("{}r 0x1000\n", random(5, 60));
    let stop = Options { unmapped: Unmapped::Stop, ..Options::default() };
    let build = || {
        let one = |more: &[&str]| {
            let keys = [&["memory.size=1G", "core.count=1"][..], more].concat();
            machine("skylake-e3-1240v5", "linux-4k", &keys, &stop)
        };
        vec![one(&[]), one(&["tlb.STLB.entries=24", "tlb.STLB.ways=4"])]
    };
    let together = go(&text, build(), Limits { shares: true, threads: 1, ..Limits::default() });
    let alone = go(&text, build(), Limits { threads: 1, ..Limits::default() });
    assert!(alone.machines[0].ended().is_some(), "the program touches what is not mapped");
    assert_eq!(together.machines[0].ended(), alone.machines[0].ended());
    assert_eq!(together.again, [1]);
}
