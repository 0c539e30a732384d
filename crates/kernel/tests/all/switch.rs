//! The switch of a process for the policy's daemon (Elastic Translations and HawkEye, paper 3; S2-M030). The daemon
//! serves those that turned it on, and khugepaged serves everyone else.

use crate::common::*;
use mmulab_addr::{Access, PageOrder, Pid, Prot, VirtAddr};
use mmulab_kernel::{EventError, EventKind, Note, PolicyDesc};
use mmulab_trace::{Advice, Event};
use proptest::prelude::*;

const P64K: PageOrder = PageOrder::P64K;
const P2M: PageOrder = PageOrder::P2M;
const HUGE: u64 = 2 << 20;
const MS: u64 = 1_000_000;

/// Elastic Translations' daemon, for processes that turn it on, and `more` keys of `[promotion]`.
fn elastic(more: &str) -> PolicyDesc {
    parts(&format!(
        "linux.zero_page = false\nhints.from = \"page-sizes\"\n[promotion]\nwhen = \"daemon\"\n\
         by = \"coala-khugepaged\"\nserves = \"enabled\"\n{more}\n[promotion.daemon]\nmax_ptes_none = 511"
    ))
}

fn world(policy: PolicyDesc, mebibytes: u64) -> World {
    World::new(&desc(policy, mebibytes), mebibytes)
}

fn switch(w: &mut World, pid: u32, daemon: bool) {
    w.event(pid, &Event::Prctl { daemon });
}

fn hint(w: &mut World, pid: u32, addr: u64, size: PageOrder) {
    let (addr, len) = (VirtAddr::new(addr), size.bytes());
    w.event(pid, &Event::Madvise { addr, len, advice: Advice::PageSize(size) });
}

fn happened(w: &World, what: EventKind) -> u64 {
    w.kernel.counts().events.get(what)
}

/// How a daemon makes a larger page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum How {
    /// Elastic Translations' daemon.
    Assembled,
    /// khugepaged.
    Copied,
}
use How::{Assembled, Copied};

/// Lets the daemons run: the larger pages that they made, in order.
fn tick(w: &mut World) -> Vec<(How, u64)> {
    w.effects.clear();
    w.kernel.event(&mut w.mem, actor(1), &Event::Tick, &mut w.effects).unwrap();
    let made = w.effects.notes.iter().filter_map(|note| match note {
        Note::Assembled { va, .. } => Some((Assembled, va.raw())),
        Note::Collapsed { va, .. } => Some((Copied, va.raw())),
        _ => None,
    });
    let made = made.collect();
    w.flush();
    made
}

/// Memory of a process, so that an address says whose it is: two regions of 2 MiB.
fn memory_of(pid: u32) -> u64 {
    u64::from(pid) * BASE
}

/// Both processes hint the second region of their memory before the first. The daemon follows the hints of the one that
/// turned it on. khugepaged takes the other's regions by address, whatever was hinted. Then they change roles.
#[test]
fn the_daemon_serves_the_process_that_turned_it_on_and_khugepaged_the_other() {
    let mut w = world(elastic(""), 128);
    let touch = |w: &mut World, regions: std::ops::Range<u64>| {
        for (pid, region) in [1, 2].into_iter().flat_map(|pid| regions.clone().map(move |region| (pid, region))) {
            w.store(pid, memory_of(pid) + region * HUGE, 1).unwrap();
        }
    };
    for pid in [1, 2] {
        w.event(pid, &mmap(memory_of(pid), 4 * HUGE, Prot::RW));
        for region in [1, 0, 3, 2] {
            hint(&mut w, pid, memory_of(pid) + region * HUGE, P2M);
        }
    }
    switch(&mut w, 2, true);
    touch(&mut w, 0..2);
    let (first, second) = (memory_of(1), memory_of(2));
    let expected = [(Assembled, second + HUGE), (Assembled, second), (Copied, first), (Copied, first + HUGE)];
    assert_eq!(tick(&mut w), expected);
    switch(&mut w, 1, true);
    switch(&mut w, 2, false);
    touch(&mut w, 2..4);
    let expected = [
        (Assembled, first + 3 * HUGE),
        (Assembled, first + 2 * HUGE),
        (Copied, second + 2 * HUGE),
        (Copied, second + 3 * HUGE),
    ];
    assert_eq!(tick(&mut w), expected);
    assert_eq!((happened(&w, EventKind::Prctl), happened(&w, EventKind::CoalaPromoted2M)), (3, 4));
}

/// A process that turned it on needs no hints: it is scanned from its lowest address on.
#[test]
fn without_hints_the_daemon_scans_the_process_that_turned_it_on() {
    let mut w = world(elastic(""), 128);
    for pid in [1, 2] {
        w.event(pid, &mmap(memory_of(pid), HUGE, Prot::RW));
        w.store(pid, memory_of(pid), 1).unwrap();
    }
    switch(&mut w, 1, true);
    assert_eq!(tick(&mut w), [(Assembled, memory_of(1)), (Copied, memory_of(2))]);
}

/// Whether khugepaged or the policy's own daemon serves a process, found out in memory mapped for it.
fn served(w: &mut World, pid: u32) -> How {
    let at = 64 * BASE;
    w.event(pid, &mmap(at, HUGE, Prot::RW));
    w.store(pid, at, 1).unwrap();
    let made: Vec<How> = tick(w).into_iter().map(|(how, _)| how).collect();
    w.event(pid, &Event::Munmap { addr: VirtAddr::new(at), len: HUGE });
    assert_eq!(made.len(), 1, "of process {pid}");
    made[0]
}

/// Fork hands the switch down, and exec keeps it, on or off: as PR_SET_THP_DISABLE in prctl(2). A child that borrows
/// the memory (vfork) has the switch of its parent, and keeps it when it executes.
#[test]
fn fork_and_exec_keep_the_switch() {
    let exec = Event::Exec { path: "/bin/other".into() };
    let fork = |child, shares_memory| Event::Fork { child: Pid(child), shares_memory };
    let mut w = world(elastic("processes = [1, 7]"), 128);
    w.event(1, &mmap(BASE, HUGE, Prot::RW));
    w.event(1, &fork(2, false));
    assert_eq!([1, 2].map(|pid| served(&mut w, pid)), [Assembled; 2], "from its beginning, and its child");
    w.event(1, &exec);
    assert_eq!(served(&mut w, 1), Assembled);
    switch(&mut w, 1, false);
    w.event(1, &exec);
    w.event(1, &fork(3, false));
    assert_eq!([1, 2, 3].map(|pid| served(&mut w, pid)), [Copied, Assembled, Copied]);
    w.event(2, &fork(4, true));
    w.event(4, &exec);
    assert_eq!([2, 4].map(|pid| served(&mut w, pid)), [Assembled; 2]);
    w.event(1, &fork(7, false));
    assert_eq!(served(&mut w, 7), Assembled, "on from its beginning, whatever its parent has");
}

/// Under a policy whose daemon has no switch, the call fails as one that Linux does not know.
#[test]
fn without_a_switch_the_call_is_refused() {
    for sections in ["", "promotion = { when = \"daemon\", by = \"coala-khugepaged\", serves = \"all\" }"] {
        let mut w = world(parts(sections), 64);
        switch(&mut w, 1, true);
        assert_eq!((w.kernel.counts().errors.get(EventError::Invalid), happened(&w, EventKind::Prctl)), (1, 0));
    }
}

/// HawkEye for one of two processes. khugepaged promotes the other's region at its first scan, before any accessed bits
/// were looked at, and never looks at the one's. The one's region waits for its accesses to be counted at 30 s.
#[test]
fn hawkeye_serves_the_process_that_turned_it_on_and_khugepaged_the_other() {
    let policy = parts(
        "linux.zero_page = false\n[promotion]\nwhen = \"daemon\"\nby = \"hawkeye\"\nserves = \"enabled\"\n\
         processes = [2]\n[promotion.daemon]\nscan_sleep_ms = 10000",
    );
    let mut w = world(policy, 64);
    for pid in [1, 2] {
        w.event(pid, &mmap(BASE, HUGE, Prot::RW));
        (0..512).for_each(|page| drop(w.store(pid, BASE + page * PAGE, 1).expect("memory is left")));
    }
    let huge = |w: &mut World| [1, 2].map(|pid| w.walk(pid, BASE, None).is_some_and(|leaf| leaf.order == P2M));
    let run = |w: &mut World, ms: u64| {
        w.effects.clear();
        w.kernel.run_daemons(&mut w.mem, ms * MS, &mut w.effects).unwrap();
        w.flush();
    };
    run(&mut w, 10_000);
    assert_eq!(huge(&mut w), [true, false]);
    run(&mut w, 20_000);
    run(&mut w, 29_000);
    (0..512).for_each(|page| drop(w.access(2, BASE + page * PAGE, Access::Read)));
    assert_eq!(huge(&mut w), [true, false]);
    run(&mut w, 30_000);
    assert_eq!(huge(&mut w), [true, true]);
}

/// Keys that contradict the switch are refused by name.
#[test]
fn contradictions_name_the_key() {
    let key = |sections: &str| refused_key(parts(sections), 64);
    let daemon = |rest: &str| key(&format!("promotion = {{ when = \"daemon\", {rest} }}"));
    assert_eq!(daemon("serves = \"enabled\""), "promotion.serves");
    assert_eq!(daemon("by = \"hawkeye\", serves = \"hinted\""), "promotion.serves");
    assert_eq!(daemon("by = \"hawkeye\", processes = [1]"), "promotion.processes");
    assert_eq!(daemon("by = \"hawkeye\", serves = \"enabled\", processes = [1, 2, 1]"), "promotion.processes");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two processes turn the daemon on and off, hint and touch memory in any order. The daemon makes no page of one
    /// that has it off, and khugepaged none of one that has it on.
    #[test]
    fn each_process_is_served_by_one_daemon(
        steps in prop::collection::vec(
            (1u32..3, 0u64..8, prop::sample::select(vec!["on", "off", "hint", "touch", "tick"])),
            1..80,
        ),
    ) {
        let mut w = world(elastic("processes = [2]"), 128);
        let mut is_on = [false, true];
        for pid in [1, 2] {
            w.event(pid, &mmap(memory_of(pid), 8 * HUGE, Prot::RW));
        }
        for (pid, region, what) in steps {
            let at = memory_of(pid) + region * HUGE;
            match what {
                "on" | "off" => {
                    is_on[pid as usize - 1] = what == "on";
                    switch(&mut w, pid, what == "on");
                }
                "hint" => hint(&mut w, pid, at, if region % 2 == 0 { P2M } else { P64K }),
                "touch" => drop(w.store(pid, at, region).unwrap()),
                _ => {
                    for (how, va) in tick(&mut w) {
                        let expected = if is_on[(va / BASE) as usize - 1] { Assembled } else { Copied };
                        prop_assert_eq!(how, expected, "{:#x}", va);
                    }
                }
            }
        }
    }
}
