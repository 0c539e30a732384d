//! Advisers: the kernel offers sizes that can be mapped, obeys, and refuses what cannot be, whoever answers.

use crate::common::*;
use mmulab_addr::{Access, PageOrder, Pid, Prot, VirtAddr};
use mmulab_kernel::{
    Adviser, Advises, Asked, EventKind, FaultError, Kernel, KernelDesc, KernelError, PolicyDesc, Promotion, Raised,
    Refusal, Sizes, View,
};
use mmulab_trace::{Advice, Event};
use std::sync::{Arc, Mutex};

const HUGE: u64 = 2 << 20;
const PERIOD_MS: u64 = 5;

/// What was asked, and what comes next.
#[derive(Default)]
struct Script {
    asked: Vec<Asked>,
    views: Vec<View>,
    size: Option<PageOrder>,
    promotions: Vec<Promotion>,
    fails: bool,
}

struct Scripted(Arc<Mutex<Script>>);

impl Adviser for Scripted {
    fn advises(&self) -> Advises {
        Advises { faults: true, ticks: true, period_ms: Some(PERIOD_MS) }
    }

    fn fault(&mut self, asked: &Asked) -> Result<Option<PageOrder>, Raised> {
        let mut script = self.0.lock().unwrap();
        script.asked.push(asked.clone());
        if script.fails { Err(Raised) } else { Ok(script.size) }
    }

    fn tick(&mut self, view: &View) -> Result<Vec<Promotion>, Raised> {
        let mut script = self.0.lock().unwrap();
        script.views.push(view.clone());
        if script.fails { Err(Raised) } else { Ok(std::mem::take(&mut script.promotions)) }
    }
}

fn advised(desc: &KernelDesc, mebibytes: u64) -> (World, Arc<Mutex<Script>>) {
    let mut w = World::new(desc, mebibytes);
    let script = Arc::new(Mutex::new(Script::default()));
    w.kernel.advise(Box::new(Scripted(Arc::clone(&script)))).unwrap();
    (w, script)
}

fn sizes(of: &[PageOrder]) -> Sizes {
    of.iter().fold(Sizes::default(), |all, &size| all.with(size))
}

fn fault(w: &mut World, va: u64, access: Access) -> Result<PageOrder, FaultError> {
    w.effects.clear();
    w.kernel.fault(&mut w.mem, actor(1), VirtAddr::new(va), access, &mut w.effects).map(|fault| fault.order)
}

#[test]
fn sizes_are_offered_where_they_fit_are_empty_and_have_a_block() {
    let (mut w, script) = advised(&desc(PolicyDesc::linux_thp(), 128), 128);
    w.event(1, &mmap(BASE, 2 * HUGE + PAGE, Prot::RW));
    script.lock().unwrap().size = Some(PageOrder::P4K);
    assert_eq!(fault(&mut w, BASE, Access::Write), Ok(PageOrder::P4K));
    script.lock().unwrap().size = None;
    // The first 2M are not empty any more, the next are, and the last page is no 2M.
    for va in [BASE + PAGE, BASE + HUGE, BASE + 2 * HUGE] {
        fault(&mut w, va, Access::Write).unwrap();
    }
    let offered: Vec<_> = script.lock().unwrap().asked.iter().map(|asked| asked.sizes).collect();
    let (both, base) = (sizes(&[PageOrder::P4K, PageOrder::P2M]), sizes(&[PageOrder::P4K]));
    assert_eq!(offered, [both, base, both, base]);
    assert_eq!(w.walk(1, BASE + HUGE, None).unwrap().order, PageOrder::P2M, "the policy's own choice");
}

/// The policy takes what it can get, so it shows what could be had.
#[test]
fn no_size_is_offered_without_a_free_block() {
    let mut desc = desc(PolicyDesc::linux_thp(), 64);
    desc.memory.fragment = memhog(40.0, "2M");
    let (mut w, script) = advised(&desc, 64);
    w.event(1, &mmap(BASE, 32 * HUGE, Prot::RW));
    let mut refused = 0;
    for n in 0..24 {
        let order = fault(&mut w, BASE + n * HUGE, Access::Write).unwrap();
        let sizes = script.lock().unwrap().asked.last().unwrap().sizes;
        assert_eq!(sizes.has(PageOrder::P2M), order == PageOrder::P2M, "range {n}: {sizes}");
        refused += u64::from(order == PageOrder::P4K);
    }
    assert!(refused > 0);
    assert_eq!(w.kernel.counts().refusals.get(Refusal::ThpNoBlock), refused);
}

#[test]
fn the_program_s_advice_against_huge_pages_holds() {
    let (mut w, script) = advised(&desc(PolicyDesc::linux_4k(), 128), 128);
    w.event(1, &mmap(BASE, 2 * HUGE, Prot::RW));
    w.event(1, &Event::Madvise { addr: VirtAddr::new(BASE), len: HUGE, advice: Advice::Nohugepage });
    for va in [BASE, BASE + HUGE] {
        fault(&mut w, va, Access::Write).unwrap();
    }
    let script = script.lock().unwrap();
    let told: Vec<_> =
        script.asked.iter().map(|asked| (asked.mapping.advice, asked.sizes.has(PageOrder::P2M))).collect();
    assert_eq!(told, [(Some("nohugepage"), false), (None, true)]);
}

#[test]
fn another_size_and_a_failure_end_the_fault_and_change_nothing() {
    let (mut w, script) = advised(&desc(PolicyDesc::linux_4k(), 128), 128);
    w.event(1, &mmap(BASE, 2 * HUGE, Prot::RW));
    script.lock().unwrap().size = Some(PageOrder::P64K);
    let error = fault(&mut w, BASE, Access::Write).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the adviser asked for a page of 64K at 0x40000000 of process 1: the sizes there are 4K, 2M"
    );
    script.lock().unwrap().fails = true;
    let (pid, va) = (Pid(1), VirtAddr::new(BASE));
    assert_eq!(fault(&mut w, BASE, Access::Write), Err(FaultError::Adviser { pid, va }));
    assert_eq!(w.walk(1, BASE, None), None);
    assert_eq!(w.usage().private_bytes, 0);
}

#[test]
fn a_tick_promotes_at_the_cost_of_a_copy_and_a_flush() {
    let (mut w, script) = advised(&desc(PolicyDesc::linux_4k(), 128), 128);
    w.event(1, &mmap(BASE, 4 * HUGE, Prot::RW));
    script.lock().unwrap().size = Some(PageOrder::P4K);
    for page in 0..3 {
        w.access(1, BASE + page * PAGE, Access::Write).unwrap();
    }
    assert_eq!(w.kernel.wakes_at(), Some(PERIOD_MS * 1_000_000));
    // The second range is empty.
    let range =
        |n: u64, size| Promotion { pid: Pid(1), start: VirtAddr::new(BASE), end: VirtAddr::new(BASE + n * HUGE), size };
    script.lock().unwrap().promotions = vec![range(2, PageOrder::P2M)];
    w.effects.clear();
    w.kernel.run_daemons(&mut w.mem, PERIOD_MS * 1_000_000, &mut w.effects).unwrap();
    assert_eq!(w.kernel.wakes_at(), Some(2 * PERIOD_MS * 1_000_000));
    assert_eq!(w.walk(1, BASE, None).unwrap().order, PageOrder::P2M);
    assert_eq!(w.walk(1, BASE + HUGE, None), None);
    let work = |kind| w.effects.work.iter().find(|work| work.kind == kind).map_or(0, |work| work.count);
    assert_eq!(work(mmulab_kernel::WorkKind::CopyBytes), 3 * PAGE);
    assert_eq!(work(mmulab_kernel::WorkKind::ZeroBytes), HUGE - 3 * PAGE);
    assert_eq!(work(mmulab_kernel::WorkKind::EntryScan), 2 * 512);
    assert_eq!(w.effects.invalidations.len(), 1);
    let counts = w.kernel.counts();
    assert_eq!(counts.events.get(EventKind::KhugepagedCollapse), 1);
    assert_eq!(counts.refusals.get(Refusal::KhugepagedEmpty), 1);
    // A range that is none, and a size that the table lacks.
    for (n, size, said) in [
        (0, PageOrder::P2M, "give a range that begins and ends at multiples of 2M"),
        (1, PageOrder::P64K, "the sizes that memory can be promoted to are 2M, 1G"),
        (5, PageOrder::P2M, "0x40800000 is not in a mapping of private anonymous memory"),
    ] {
        script.lock().unwrap().promotions = vec![range(n, size)];
        let now = w.kernel.wakes_at().unwrap();
        let error = w.kernel.run_daemons(&mut w.mem, now, &mut w.effects).unwrap_err();
        assert!(matches!(&error, KernelError::Adviser(message) if message.contains(said)), "{error}");
    }
}

#[test]
fn freebsd_asks_nobody() {
    let policy: PolicyDesc = toml::from_str("name = \"f\"\nkind = \"freebsd\"").unwrap();
    let desc = desc(policy, 128);
    let mut mem = mmulab_frames::PhysMem::new(128 << 20);
    let mut kernel = Kernel::new(&desc, &mut mem).unwrap();
    let error = kernel.advise(Box::new(Scripted(Arc::default()))).unwrap_err();
    assert!(error.to_string().contains("not \"freebsd\""), "{error}");
}
