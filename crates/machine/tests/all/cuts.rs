//! Runs of which the first part is not counted. Every counter leaves this part out, and a trace that was cut there ends
//! with the same page tables as the whole one.

use crate::common::{AT, PAGES, STEP, machine, random, result, source};
use mmulab_addr::{BASE_BYTES, Pid, Tid, VirtAddr};
use mmulab_machine::{Control, Followed, Limits, Machine, Options, run};
use mmulab_trace::{Batch, Event, Source, Span, TraceInfo, slice, warm_up};
use serde_json::Value;

/// The machine after the trace.
fn ran(source: &mut dyn Source, mut machine: Machine, instructions: Option<u64>) -> Machine {
    machine.take(source.info()).expect("a trace that suits it");
    let limits = Limits { instructions, threads: 1, shares: false };
    let mut ran = run(source, vec![machine], Followed::default(), limits, |_| Control::Continue);
    let machine = ran.machines.pop().expect("the one");
    assert_eq!(machine.ended(), None);
    machine
}

/// Of the pages of the processes that run: each leaf's size, rights, accessed and dirty bits.
fn tables(machine: &mut Machine) -> Vec<String> {
    let mut found = Vec::new();
    for pid in [1, 2, 3] {
        let mut batch = Batch::default();
        batch.push_event(Event::Switch { pid: Pid(pid), tid: Tid(pid) });
        machine.run(&batch);
        for page in 0..PAGES {
            if let Some(leaf) = machine.leaf(VirtAddr::new(AT + page * BASE_BYTES)) {
                let (order, prot) = (leaf.order, leaf.prot.bits());
                found.push(format!("{pid} {page} {order} {prot} {} {}", leaf.accessed, leaf.dirty));
            }
        }
    }
    found
}

/// CHANGELOG number 3: a cut trace leaves the page tables that the whole one does.
#[test]
fn a_cut_trace_ends_with_the_tables_of_the_whole_one() {
    for policy in ["linux-4k", "linux-thp", "linux-mthp", "freebsd-reserv"] {
        for seed in 0..6 {
            let text = random(seed, 120);
            for start in [1, 61 * STEP, 119 * STEP] {
                let begin = || machine("zen3-5900x", policy, &["memory.size=1G", "core.count=1"], &Options::default());
                let mut whole = ran(source(&text).as_mut(), begin(), None);
                let mut cut = slice(source(&text), Span { start, end: None });
                let mut cut_machine = ran(cut.as_mut(), begin(), None);
                let (expected, found) = (tables(&mut whole), tables(&mut cut_machine));
                let what = format!("{policy}, seed {seed}, from {start}");
                assert!(expected.len() > 1000, "{what}: {}", expected.len());
                let odd = expected.iter().zip(&found).find(|(a, b)| a != b);
                assert!(expected == found, "{what}: {odd:?}, {} and {} pages", expected.len(), found.len());
                // Nothing of the state is counted.
                let counted = result(&mut cut_machine, cut.info());
                let all = text.lines().filter(|line| line.starts_with(['f', 'r', 'w'])).count() as u64;
                assert!(counted["counts"]["references"].as_u64().expect("a count") < all, "{what}");
                let instructions = 120 * STEP - start.next_multiple_of(STEP) + if start == 1 { STEP } else { 0 };
                assert_eq!(counted["counts"]["instructions"], instructions, "{what}");
            }
        }
    }
}

/// Every number of `whole` is the sum of those of both parts.
fn adds_up(at: &str, whole: &Value, before: &Value, after: &Value) {
    match whole {
        Value::Number(n) => {
            let of = |value: &Value| value.as_u64().unwrap_or(0);
            let (sum, all) = (of(before) + of(after), n.as_u64().expect("a count"));
            // Cycles of several kinds of work are rounded down once.
            let rounded = u64::from(at.ends_with("cycles"));
            assert!(sum <= all && all <= sum + rounded, "{at}: {before} + {after} is not {whole}");
        }
        Value::Object(map) => {
            map.iter().filter(|(key, _)| *key != "level").for_each(|(key, value)| {
                adds_up(&format!("{at}.{key}"), value, &before[key], &after[key]);
            });
        }
        Value::Array(all) => all.iter().enumerate().for_each(|(i, value)| {
            adds_up(&format!("{at}[{i}]"), value, &before[i], &after[i]);
        }),
        _ => {}
    }
}

/// CHANGELOG number 3: what `--skip` leaves out is missing from every count, and nothing else is.
#[test]
fn what_is_skipped_and_what_is_counted_make_up_the_whole() {
    let small = ["core.count=2", "memory.size=1G"];
    let cases: [(&str, &[&str], bool); 5] = [
        ("zen3-5900x", &small, false),
        ("haswell-mix", &small, false),
        ("elastic-cuckoo", &["core.count=1"], false),
        ("zen3-5900x", &["core.count=1", "memory.size=1G"], true),
        ("compendia-nested", &["core.count=1"], false),
    ];
    let (text, skip) = (random(7, 150), 75 * STEP);
    for (name, overrides, timing) in cases {
        let options = Options { timing, profile: true, ..Options::default() };
        let begin = |skip| machine(name, "linux-thp", overrides, &Options { skip, ..options.clone() });
        let info = TraceInfo::default();
        let whole = result(&mut ran(source(&text).as_mut(), begin(0), None), &info);
        let before = result(&mut ran(source(&text).as_mut(), begin(0), Some(skip)), &info);
        let mut warm = warm_up(source(&text), skip);
        let after = result(&mut ran(warm.as_mut(), begin(skip), None), &info);
        for key in ["tlb", "reloads", "arrays", "walks", "kernel", "instructions", "references", "writes", "segfaults"]
        {
            adds_up(&format!("{name}: {key}"), &whole["counts"][key], &before["counts"][key], &after["counts"][key]);
        }
        assert_eq!(after["uncounted"]["instructions"], skip, "{name}");
        assert_eq!(after["uncounted"]["references"], before["counts"]["references"], "{name}");
        assert!(after["counts"]["walks"]["data"]["walks"].as_u64() > Some(0), "{name}");
        if timing {
            adds_up("timing", &whole["timing"], &before["timing"], &after["timing"]);
        }
        let walks = |result: &Value| -> u64 {
            result["regions"].as_array().expect("regions").iter().filter_map(|r| r["walks"].as_u64()).sum()
        };
        assert_eq!(walks(&whole), walks(&before) + walks(&after), "{name}");
        // Memory is of the whole run.
        assert_eq!(whole["counts"]["memory"]["resident_bytes"], after["counts"]["memory"]["resident_bytes"], "{name}");
    }
}

#[test]
fn a_run_that_ends_before_counts_begin_counts_nothing() {
    let text = random(3, 20);
    let options = Options { skip: 21 * STEP, ..Options::default() };
    let mut machine = ran(source(&text).as_mut(), machine("zen3-5900x", "linux-4k", &[], &options), None);
    let result = result(&mut machine, &TraceInfo::default());
    assert_eq!((&result["counts"]["instructions"], &result["counts"]["references"]), (&0.into(), &0.into()));
    assert_eq!(result["uncounted"]["instructions"], 20 * STEP);
}
