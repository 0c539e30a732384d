//! Random programs against a model that knows each page by itself.

use crate::common::*;
use mmulab_addr::{Access, PageOrder, Pfn, Pid, Prot, VirtAddr};
use mmulab_kernel::{
    AppliesTo, Bytes, Defrag, FaultError, FreebsdDesc, HugetlbDesc, KernelDesc, KhugepagedDesc, PageCache, PolicyDesc,
    PolicyKind, QuicksilverDesc, ThpDesc, ThpEnabled, ThpSize,
};
use mmulab_pagetable::{TableDesc, TableKind};
use mmulab_trace::{Advice, Backing, Event, MapFlags};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Pages of the range that programs use: three huge pages.
const SPAN: u64 = 3 * 512;

/// How large what operations call a page is, in bytes: a base page, or more where a huge page has more than 512 of
/// them. And how much memory there is.
#[derive(Clone, Copy, Debug)]
struct Scale {
    page: u64,
    mebibytes: u64,
}

impl Scale {
    fn of(table: &TableDesc) -> Self {
        match table.base() {
            PageOrder::P4K => Self { page: PAGE, mebibytes: 128 },
            PageOrder::P16K => Self { page: 64 << 10, mebibytes: 4096 },
            base => Self { page: base.bytes(), mebibytes: 2048 },
        }
    }

    fn va(self, page: u64) -> VirtAddr {
        VirtAddr::new(BASE + page * self.page)
    }
}
const PATHS: [&str; 2] = ["/a", "/b"];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Anon,
    Private(usize),
    SharedFile(usize),
    SharedMemory,
}

#[derive(Clone, Debug)]
enum Op {
    Map { at: u64, len: u64, prot: Prot, kind: Kind, populate: bool },
    Unmap { at: u64, len: u64 },
    Protect { at: u64, len: u64, prot: Prot },
    Move { from: u64, to: u64, len: u64, new_len: u64 },
    Advise { at: u64, len: u64, advice: Advice },
    Name { at: u64, len: u64, name: &'static str },
    Fork,
    Exit,
    Switch(usize),
    Tick,
    Touch { at: u64, count: u64, access: Access },
}

/// What a byte of a page stands for, whatever frame it is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Holds {
    /// The process's own, with this in it.
    Own(u64),
    /// A page of a file or of shared memory.
    Object(u64, u64),
}

#[derive(Clone, Copy, Debug)]
struct Page {
    prot: Prot,
    shared: bool,
    /// What it shows when nothing of the process's own is there.
    behind: Holds,
    holds: Holds,
}

struct Model {
    scale: Scale,
    spaces: BTreeMap<u32, BTreeMap<u64, Page>>,
    /// What objects' pages hold.
    objects: BTreeMap<(u64, u64), u64>,
    /// The frames they were seen in.
    frames: BTreeMap<(u64, u64), Pfn>,
    /// Numbers for new shared memory, and for stores.
    next: u64,
}

fn run(table: TableDesc, mut policy: PolicyDesc, ops: &[Op]) {
    // Tables that have no leaf of a size promote to 2 MiB instead.
    if let Some(promotion) = policy.promotion.as_mut().filter(|part| !table.has_leaf(part.size)) {
        promotion.size = PageOrder::P2M;
    }
    if !table.has_leaf(PageOrder::P64K) {
        policy.contiguous = None;
    }
    if !table.has_leaf(PageOrder::P2M) {
        policy.text = None;
    }
    let (scale, huge) = (Scale::of(&table), table.format().huge());
    let va = |page| scale.va(page);
    let mut w = World::new(&KernelDesc { table, ..desc(policy, scale.mebibytes) }, scale.mebibytes);
    let mut m = Model { scale, spaces: BTreeMap::new(), objects: BTreeMap::new(), frames: BTreeMap::new(), next: 100 };
    m.spaces.insert(1, BTreeMap::new());
    let (mut pid, mut pids) = (1, 1);
    let unused = |w: &World| w.usage().free_bytes + w.usage().reserved_bytes;
    let free = unused(&w);
    for op in ops {
        step(&mut w, &mut m, &mut pid, &mut pids, op);
        let held: u64 = w.kernel.regions().iter().map(|r| w.kernel.resident(r.id).now).sum();
        assert_eq!(held, w.kernel.resident_bytes(), "each resident frame is some region's");
    }
    for pid in m.spaces.keys() {
        for (&page, known) in &m.spaces[pid] {
            let Some(leaf) = w.walk(*pid, va(page).raw(), None) else { continue };
            let pages = (leaf.order.bytes() / scale.page).max(1);
            let first = page & !(pages - 1);
            let whole = (first..first + pages).all(|p| m.spaces[pid].contains_key(&p));
            assert!(whole, "a page of {} sticks out of its mapping", leaf.order);
            assert!(known.prot != Prot::NONE && (known.prot.has(Prot::W) || !leaf.prot.has(Prot::W)));
        }
    }
    for (pid, ..) in &m.spaces {
        w.event(*pid, &Event::Exit { status: 0 });
    }
    let usage = w.usage();
    assert_eq!((usage.private_bytes, usage.table_bytes, usage.mapped.total(), usage.pool_used_bytes), (0, 0, 0, 0));
    let kept = usage.page_cache_bytes;
    assert!(
        [kept, kept + huge.bytes()].contains(&(free - unused(&w))),
        "frames are lost: {} more used than the page cache's {kept}",
        free - unused(&w)
    );
    let regions: u64 = w.kernel.regions().iter().map(|r| r.mapped.total() + r.mapped_zero.total()).sum();
    assert_eq!(regions, 0);
}

fn step(w: &mut World, m: &mut Model, pid: &mut u32, pids: &mut u32, op: &Op) {
    let actor = *pid;
    let scale = m.scale;
    let va = |page| scale.va(page);
    match *op {
        Op::Map { at, len, prot, kind, populate } => {
            let (backing, shared) = match kind {
                Kind::Anon => (Backing::Anon, false),
                Kind::SharedMemory => (Backing::Anon, true),
                Kind::Private(f) => (Backing::File { path: PATHS[f].into(), offset: at * scale.page }, false),
                Kind::SharedFile(f) => (Backing::File { path: PATHS[f].into(), offset: at * scale.page }, true),
            };
            let flags = MapFlags { shared, populate, ..MapFlags::default() };
            let before: Vec<_> = (0..if populate { SPAN } else { 0 }).map(|p| w.frame(actor, va(p).raw())).collect();
            w.event(actor, &Event::Mmap { addr: va(at), len: len * scale.page, prot, flags, backing });
            // A larger page, or an early promotion, may reach beyond what was populated.
            for (page, _) in before.iter().enumerate().filter(|b| b.1.is_none()) {
                if let Some(pfn) = w.frame(actor, va(page as u64).raw()) {
                    w.contents.remove(&pfn);
                }
            }
            m.next += 1;
            for page in at..at + len {
                let behind = match kind {
                    Kind::Anon => Holds::Own(0),
                    Kind::SharedMemory => Holds::Object(m.next, page),
                    Kind::Private(f) | Kind::SharedFile(f) => Holds::Object(f as u64, page),
                };
                m.spaces.get_mut(&actor).unwrap().insert(page, Page { prot, shared, behind, holds: behind });
                if populate && let (Holds::Own(_), Some(pfn)) = (behind, w.frame(actor, va(page).raw())) {
                    w.contents.remove(&pfn);
                }
                if populate && prot != Prot::NONE {
                    assert!(w.frame(actor, va(page).raw()).is_some());
                }
            }
            if populate && !shared {
                for page in at..at + len {
                    // Private pages that populate copied from files are the process's own now.
                    if let (Holds::Object(object, number), Some(pfn)) =
                        (m.spaces[&actor][&page].behind, w.frame(actor, va(page).raw()))
                        && prot.has(Prot::W)
                    {
                        let value = m.objects.get(&(object, number)).copied().unwrap_or(0);
                        w.contents.insert(pfn, value);
                        m.spaces.get_mut(&actor).unwrap().get_mut(&page).unwrap().holds = Holds::Own(value);
                    }
                }
            }
        }
        Op::Unmap { at, len } => {
            w.event(actor, &Event::Munmap { addr: va(at), len: len * scale.page });
            m.spaces.get_mut(&actor).unwrap().retain(|p, _| !(at..at + len).contains(p));
        }
        Op::Protect { at, len, prot } => {
            w.event(actor, &Event::Mprotect { addr: va(at), len: len * scale.page, prot });
            for page in at..at + len {
                let Some(page) = m.spaces.get_mut(&actor).unwrap().get_mut(&page) else { break };
                page.prot = prot;
            }
        }
        Op::Move { from, to, len, new_len } => {
            let errors = w.kernel.counts().errors.total();
            let (old, new) = (va(from), va(to));
            w.event(
                actor,
                &Event::Mremap { old, old_len: len * scale.page, new, new_len: new_len * scale.page, keep_old: false },
            );
            if w.kernel.counts().errors.total() == errors {
                // Whether the range lay in one mapping is the kernel's word; the pages must all have been there.
                let space = m.spaces.get_mut(&actor).unwrap();
                let moved: Vec<Page> = (from..from + len).map(|p| space.remove(&p).expect("it was mapped")).collect();
                for i in 0..new_len {
                    let page = moved.get(i as usize).copied().unwrap_or_else(|| {
                        let last = moved[moved.len() - 1];
                        let behind = match last.behind {
                            Holds::Own(_) => Holds::Own(0),
                            Holds::Object(o, p) => Holds::Object(o, p + i + 1 - len),
                        };
                        Page { behind, holds: behind, ..last }
                    });
                    space.insert(to + i, page);
                }
            }
        }
        Op::Advise { at, len, advice } => {
            let before: Vec<_> = (at..at + len)
                .map(|p| w.frame(actor, va(p).raw()).map(|pfn| (pfn, w.contents.get(&pfn).copied().unwrap_or(0))))
                .collect();
            w.event(actor, &Event::Madvise { addr: va(at), len: len * scale.page, advice });
            let space = m.spaces.get_mut(&actor).unwrap();
            match advice {
                Advice::Dontneed => {
                    for page in at..at + len {
                        if let Some(page) = space.get_mut(&page) {
                            page.holds = page.behind;
                        }
                    }
                }
                Advice::Collapse => {
                    for (page, old) in (at..at + len).zip(before) {
                        let now = w.frame(actor, va(page).raw());
                        if let Some(now) = now
                            && old.is_none_or(|(pfn, _)| pfn != now)
                        {
                            w.contents.insert(now, old.map_or(0, |o| o.1));
                        }
                    }
                }
                _ => {}
            }
        }
        // A name changes nothing that a program sees.
        Op::Name { at, len, name } => {
            w.event(actor, &Event::Name { addr: va(at), len: len * scale.page, name: name.into() });
        }
        Op::Fork => {
            if m.spaces.len() < 4 {
                *pids += 1;
                w.event(actor, &Event::Fork { child: Pid(*pids), shares_memory: false });
                let copy = m.spaces[&actor].clone();
                m.spaces.insert(*pids, copy);
            }
        }
        Op::Exit => {
            if m.spaces.len() > 1 {
                w.event(actor, &Event::Exit { status: 0 });
                m.spaces.remove(&actor);
                *pid = *m.spaces.keys().next().unwrap();
            }
        }
        Op::Tick => {
            // What khugepaged copies keeps its contents, in all processes.
            let mut before = Vec::new();
            for (&pid, pages) in &m.spaces {
                for (&page, known) in pages {
                    let pfn = w.frame(pid, va(page).raw());
                    let own = matches!(known.holds, Holds::Own(_));
                    before.push((pid, page, pfn, own, pfn.and_then(|p| w.contents.get(&p).copied()).unwrap_or(0)));
                }
            }
            w.event(actor, &Event::Tick);
            // Pages that come to share a frame, such as one of zeros, must have held the same.
            let mut moved = BTreeMap::new();
            for (pid, page, old, own, value) in before {
                let now = w.frame(pid, va(page).raw());
                if let Some(now) = now.filter(|_| now != old && own) {
                    let shown = *moved.entry(now).or_insert(value);
                    assert_eq!(shown, value, "page {page} of process {pid} shows another page's contents");
                    w.contents.insert(now, value);
                }
            }
            m.frames.clear();
        }
        Op::Switch(n) => *pid = *m.spaces.keys().nth(n % m.spaces.len()).unwrap(),
        Op::Touch { at, count, access } => {
            for page in (at..SPAN).take(count as usize) {
                touch(w, m, actor, page, access);
            }
        }
    }
}

/// Text that the program moved is its own from now on, with the contents it had.
fn own_moved_text(w: &mut World, m: &mut Model, pid: u32) {
    for (start, pages) in std::mem::take(&mut w.moved_text) {
        let first = (start - BASE) / PAGE;
        for number in first..first + pages {
            let pfn = w.frame(pid, m.scale.va(number).raw()).expect("all of it is mapped");
            let page = m.spaces.get_mut(&pid).unwrap().get_mut(&number).expect("whole pieces lie inside a mapping");
            let value = match page.holds {
                Holds::Own(value) => value,
                Holds::Object(object, number) => m.objects.get(&(object, number)).copied().unwrap_or(0),
            };
            (page.behind, page.holds) = (Holds::Own(0), Holds::Own(value));
            w.contents.insert(pfn, value);
        }
    }
}

fn touch(w: &mut World, m: &mut Model, pid: u32, page: u64, access: Access) {
    let at = m.scale.va(page).raw() + 8;
    let reached = w.access(pid, at, access);
    own_moved_text(w, m, pid);
    let Some(known) = m.spaces[&pid].get(&page).copied() else {
        assert!(matches!(reached, Err(FaultError::Unmapped { .. })));
        return;
    };
    if !known.prot.allows(access) {
        assert!(matches!(reached, Err(FaultError::Protection { .. })));
        return;
    }
    let (pfn, _) = reached.expect("mapped, allowed, and memory is left");
    let becomes_own = access == Access::Write && !known.shared;
    let expected = match known.holds {
        Holds::Own(value) => value,
        Holds::Object(object, number) => m.objects.get(&(object, number)).copied().unwrap_or(0),
    };
    match known.holds {
        Holds::Object(object, number) if !becomes_own => {
            // One frame for everybody, for as long as the page is in the cache.
            let first = *m.frames.entry((object, number)).or_insert(pfn);
            assert_eq!(first, pfn, "page {number} of object {object} is in two places");
            if w.contents.get(&pfn).copied().unwrap_or(0) != expected {
                w.contents.insert(pfn, expected);
            }
        }
        _ => {}
    }
    m.next += 1;
    let value = m.next;
    if access == Access::Write {
        if matches!(known.holds, Holds::Own(_)) {
            let found = w.contents.get(&pfn).copied().unwrap_or(0);
            assert_eq!(found, expected, "page {page} of process {pid} before a store");
        }
        w.contents.insert(pfn, value);
        match known.holds {
            Holds::Object(object, number) if known.shared => {
                m.objects.insert((object, number), value);
            }
            _ => m.spaces.get_mut(&pid).unwrap().get_mut(&page).unwrap().holds = Holds::Own(value),
        }
    } else {
        let found = w.contents.get(&pfn).copied().unwrap_or(0);
        assert_eq!(found, expected, "page {page} of process {pid}");
    }
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        3 => (0..SPAN - 1).prop_flat_map(|at| (Just(at), 1..=(SPAN - at).min(600))),
        2 => (0..SPAN - 1, 1u64..20).prop_map(|(at, len)| (at, len.min(SPAN - at))),
        2 => (0u64..3, 1u64..=3).prop_map(|(at, len)| (at * 512, (len * 512).min(SPAN - at * 512))),
    ]
}

fn prot() -> impl Strategy<Value = Prot> {
    prop_oneof![6 => Just(Prot::RW), 2 => Just(Prot::R), 1 => Just(Prot::RX), 1 => Just(Prot::NONE)]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        6 => Just(Kind::Anon),
        2 => (0usize..2).prop_map(Kind::Private),
        1 => (0usize..2).prop_map(Kind::SharedFile),
        1 => Just(Kind::SharedMemory),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let access = prop_oneof![1 => Just(Access::Read), 2 => Just(Access::Write), 1 => Just(Access::Fetch)];
    op_of(prot().boxed(), kind().boxed(), access.boxed())
}

/// Programs that mostly map files and execute them.
fn text_op() -> impl Strategy<Value = Op> {
    let prot = prop_oneof![6 => Just(Prot::RX), 2 => Just(Prot::RW), 1 => Just(Prot::R), 1 => Just(Prot::NONE)];
    let kind = prop_oneof![
        8 => (0usize..2).prop_map(Kind::Private),
        1 => (0usize..2).prop_map(Kind::SharedFile),
        1 => Just(Kind::Anon)
    ];
    let access = prop_oneof![1 => Just(Access::Read), 1 => Just(Access::Write), 3 => Just(Access::Fetch)];
    op_of(prot.boxed(), kind.boxed(), access.boxed())
}

fn op_of(
    prot: BoxedStrategy<Prot>,
    kind: BoxedStrategy<Kind>,
    access: BoxedStrategy<Access>,
) -> impl Strategy<Value = Op> {
    let advice = prop_oneof![
        3 => Just(Advice::Dontneed),
        1 => Just(Advice::Free),
        2 => Just(Advice::Hugepage),
        1 => Just(Advice::Nohugepage),
        3 => Just(Advice::Collapse),
        1 => Just(Advice::Willneed),
        4 => prop::sample::select(vec![PageOrder::P64K, PageOrder::P2M, PageOrder::P4K]).prop_map(Advice::PageSize),
    ];
    prop_oneof![
        4 => (range(), prot.clone(), kind, prop::bool::weighted(0.2))
            .prop_map(|((at, len), prot, kind, populate)| Op::Map { at, len, prot, kind, populate }),
        2 => range().prop_map(|(at, len)| Op::Unmap { at, len }),
        2 => (range(), prot).prop_map(|((at, len), prot)| Op::Protect { at, len, prot }),
        2 => (range(), 0..SPAN, 1u64..600).prop_map(|((from, len), to, new_len)| {
            Op::Move { from, to, len, new_len: new_len.min(SPAN - to) }
        }),
        2 => (range(), 0u64..3).prop_map(|((from, len), to)| {
            Op::Move { from, to: to * 512 + from % 512, len, new_len: len.min(SPAN - (to * 512 + from % 512)) }
        }),
        3 => (range(), advice).prop_map(|((at, len), advice)| Op::Advise { at, len, advice }),
        2 => (range(), prop::sample::select(vec!["f (a.c:1)", "g", ""]))
            .prop_map(|((at, len), name)| Op::Name { at, len, name }),
        2 => Just(Op::Fork),
        2 => Just(Op::Tick),
        1 => Just(Op::Exit),
        2 => (0usize..4).prop_map(Op::Switch),
        12 => (0..SPAN, prop_oneof![3 => 1u64..8, 1 => 8u64..600], access)
            .prop_map(|(at, count, access)| Op::Touch { at, count, access }),
    ]
}

/// Policies that set the contiguous bit.
fn contiguous() -> impl Strategy<Value = PolicyDesc> {
    let bit = |rest: &str| Just(parts(&format!("contiguous.bit = \"transparent\"\n{rest}")));
    prop_oneof![
        bit("placement.frames = \"coala\"\nlinux.zero_page = false"),
        bit("placement.frames = \"coala\"\nfault.sizes = [\"2M\"]\nfault.enabled = \"madvise\""),
        bit("fault.sizes = [\"64K\"]"),
        bit("fault.sizes = [\"16K\"]\npromotion.when = \"daemon\"\nlinux.zero_page = false"),
        bit("placement = { frames = \"reservation\", levels = [\"2M\"] }"),
        bit("placement.frames = \"neighbour\"\ndemotion.when = \"store\"\nzeroing.when = \"ahead\""),
        bit("promotion.when = \"daemon\"\nplacement.frames = \"coala\""),
        bit("promotion = { when = \"daemon\", by = \"coala-khugepaged\", serves = \"all\" }\n\
             placement.frames = \"coala\""),
        bit("promotion = { when = \"daemon\", by = \"hawkeye\" }\nfault.sizes = [\"2M\"]"),
        bit("fault.sizes = [\"2M\"]\npromotion = { when = \"daemon\", by = \"hawkeye\", \
             recovery = { above_percent = 0, below_percent = 0 } }"),
        Just(parts("contiguous.bit = \"folio\"\nfault.sizes = [\"64K\", \"2M\"]\nlinux.zero_page = false")),
        bit("fault = { sizes = [\"32K\", \"128K\"], enabled = \"madvise\" }\n\
             promotion = { when = \"daemon\", daemon = { mthp = true, max_ptes_none = 0 } }"),
        Just(parts(
            "contiguous.bit = \"folio\"\nfault = { sizes = [\"64K\"], enabled = \"madvise\" }\n\
                    promotion = { when = \"daemon\", daemon.mthp = true }"
        )),
        Just(parts("contiguous.bit = \"folio\"\nfault.sizes = [\"128K\", \"32K\"]\nplacement.frames = \"neighbour\"")),
    ]
}

/// Page tables whose entries have a contiguous bit, or something like it.
fn grouped() -> impl Strategy<Value = TableDesc> {
    let tables = ["armv8-4k", "riscv-sv", "tps"].map(|name| {
        let kind = TableKind::ALL.iter().find(|kind| kind.name() == name).expect("a kind of table");
        TableDesc::new(*kind, 4).expect("four levels")
    });
    prop::sample::select(tables.to_vec())
}

/// Policies that give text larger pages.
fn text() -> impl Strategy<Value = PolicyDesc> {
    prop_oneof![
        2 => Just(parts("text.remap = \"whole\"")),
        1 => Just(parts("text.remap = \"whole\"\nfault.sizes = [\"2M\"]\npromotion.when = \"daemon\"")),
        2 => Just(parts("text.khugepaged = true\npromotion.when = \"daemon\"\nfault.sizes = [\"64K\"]")),
        1 => Just(parts("text = { remap = \"whole\", khugepaged = true, folio = \"2M\" }\n\
                         promotion.when = \"daemon\"")),
        1 => Just(parts("text = { khugepaged = true, folio = \"64K\" }\npromotion.when = \"daemon\"\n\
                         contiguous.bit = \"folio\"")),
        1 => Just(parts("text.folio = \"2M\"")),
        1 => Just(parts("text.folio = \"2M\"\nlinux.page_cache = \"warm\"")),
        1 => Just(parts("text.folio = \"64K\"\ncontiguous.bit = \"folio\"")),
        1 => Just(parts("text.folio = \"32K\"\ncontiguous.bit = \"transparent\"\nlinux.page_cache = \"warm\"")),
    ]
}

fn policy() -> impl Strategy<Value = PolicyDesc> {
    let hugetlb = HugetlbDesc {
        size: PageOrder::P2M,
        pool: Bytes(10 << 20),
        applies_to: AppliesTo::Anon,
        round_heap: true,
        source: String::new(),
        assumed: BTreeMap::new(),
    };
    let mut madvise = PolicyDesc::linux_thp();
    madvise.thp.as_mut().unwrap().enabled = ThpEnabled::Madvise;
    let freebsd = |change: fn(&mut FreebsdDesc)| {
        let mut policy = PolicyDesc::freebsd();
        policy.freebsd.iter_mut().for_each(change);
        Just(policy)
    };
    let linux = |change: fn(&mut ThpDesc)| {
        let mut policy = PolicyDesc::linux_thp();
        policy.thp.iter_mut().for_each(change);
        policy.thp.as_mut().unwrap().khugepaged = Some(KhugepagedDesc::default());
        Just(policy)
    };
    prop_oneof![
        2 => linux(|t| {
            t.enabled = ThpEnabled::Madvise;
            t.sizes = [(PageOrder::P2M, ThpSize::Inherit), (PageOrder::new(4), ThpSize::Always)].into();
        }),
        2 => linux(|t| {
            t.enabled = ThpEnabled::Madvise;
            t.sizes = [2, 4, 6].map(|order| (PageOrder::new(order), ThpSize::Inherit)).into();
        }).prop_map(|mut policy| {
            let khugepaged = policy.thp.as_mut().unwrap().khugepaged.as_mut().unwrap();
            (khugepaged.mthp, khugepaged.max_ptes_none) = (true, 0);
            policy
        }),
        1 => linux(|t| {
            let small = [2, 6].map(|order| (PageOrder::new(order), ThpSize::Always));
            t.sizes = small.into_iter().chain([(PageOrder::P2M, ThpSize::Never)]).collect();
        }),
        1 => linux(|t| {
            t.sizes = [(PageOrder::P2M, ThpSize::Madvise)].into();
            t.defrag = Defrag::Always;
        }),
        2 => freebsd(|_| {}),
        1 => freebsd(|f| (f.levels, f.promotion) = (Vec::new(), false)),
        1 => freebsd(|f| (f.promotion, f.madv_free) = (false, false)),
        1 => freebsd(|f| f.promotion_threshold = 64),
        1 => freebsd(|f| f.promotion_threshold = 1),
        2 => freebsd(|f| {
            let (fill_threshold, inactive_ms) = (Some(2), Some(1));
            f.daemon = Some(QuicksilverDesc { fill_threshold, inactive_ms, ..QuicksilverDesc::default() });
        }),
        1 => freebsd(|f| {
            f.promotion_threshold = 64;
            f.daemon = Some(QuicksilverDesc { inactive_ms: Some(1000), ..QuicksilverDesc::default() });
        }),
        1 => freebsd(|f| (f.promotion_needs_accessed, f.prefaulted_accessed) = (true, true)),
        1 => freebsd(|f| f.levels = [2, 3, 4, 7, 9, 10].map(PageOrder::new).to_vec()),
        1 => Just(PolicyDesc::linux_4k()),
        3 => Just(PolicyDesc::linux_thp()),
        1 => Just(madvise),
        1 => Just(parts("linux.zero_page = false\nfault.sizes = [\"64K\"]\nhints.from = \"none\"")),
        1 => Just(parts("fault.sizes = [\"8K\", \"2M\", \"64K\"]\nfault.enabled = \"madvise\"\n\
                         promotion.when = \"daemon\"")),
        2 => Just(parts("placement.frames = \"neighbour\"")),
        2 => Just(parts("placement.frames = \"scattered\"")),
        1 => Just(parts("placement.frames = \"scattered\"\nfault.sizes = [\"2M\", \"16K\"]\n\
                         promotion.when = \"daemon\"")),
        2 => Just(parts("placement.frames = \"coala\"\nfault.sizes = [\"2M\"]")),
        3 => Just(parts("placement.frames = \"coala\"\npromotion = { when = \"daemon\", by = \"coala-khugepaged\" }\n\
                         hints.from = \"page-sizes\"")),
        2 => Just(parts("placement.frames = \"neighbour\"\n\
                         promotion = { when = \"daemon\", by = \"coala-khugepaged\", serves = \"all\" }")),
        2 => Just(parts("placement.frames = \"coala\"\nfault = { sizes = [\"2M\"], reach = \"3M\" }\n\
                         promotion = { when = \"daemon\", by = \"coala-khugepaged\", daemon.max_ptes_none = 300 }\n\
                         hints = { from = \"page-sizes\", at_faults = true }")),
        2 => Just(parts("placement.frames = \"ca\"\nfault.sizes = [\"2M\"]")),
        1 => Just(parts("placement.frames = \"ca\"\nlinux.zero_page = false")),
        1 => Just(parts("placement.frames = \"neighbour\"\nfault.sizes = [\"2M\", \"16K\"]")),
        1 => Just(parts("placement = { frames = \"reservation\", levels = [\"2M\", \"64K\"] }\n\
                         promotion.when = \"full\"")),
        1 => Just(parts("placement = { frames = \"reservation\", levels = [\"2M\"] }\n\
                         promotion = { when = \"threshold\", threshold = 64 }")),
        1 => Just(parts("placement = { frames = \"reservation\", levels = [\"2M\", \"64K\"] }\n\
                         promotion = { when = \"full\", size = \"64K\" }\ndemotion.when = \"store\"\n\
                         linux.zero_page = false")),
        1 => Just(parts("placement = { frames = \"reservation\", levels = [\"2M\"] }\n\
                         promotion = { when = \"threshold\", threshold = 5, size = \"64K\" }\n\
                         zeroing.when = \"ahead\"")),
        1 => Just(parts("promotion = { when = \"daemon\", by = \"ingens\", fair = true }")),
        1 => Just(parts("promotion = { when = \"daemon\", by = \"ingens\" }\nreclaim.when = \"watermarks\"")),
        1 => Just(parts("fault.sizes = [\"2M\"]\npromotion = { when = \"daemon\", by = \"hawkeye\" }\n\
                         zeroing.when = \"ahead\"")),
        3 => Just(parts("fault.sizes = [\"2M\"]\npromotion = { when = \"daemon\", by = \"hawkeye\", \
                         recovery = { above_percent = 0, below_percent = 0 } }")),
        1 => Just(parts("fault.sizes = [\"2M\"]\nlinux.zero_page = false\n\
                         promotion = { when = \"daemon\", by = \"hawkeye\", daemon.pages_to_scan = 512, \
                         recovery = { above_percent = 5, below_percent = 4, zero_pages = 100 } }")),
        3 => Just(parts("fault.sizes = [\"2M\"]\nfault.enabled = \"madvise\"\n\
                         promotion = { when = \"daemon\", by = \"ranger\", smallest_mapping = \"4K\" }")),
        2 => Just(parts("linux.zero_page = false\n\
                         promotion = { when = \"daemon\", by = \"ranger\", smallest_mapping = \"64K\", \
                         daemon.pages_to_scan = 1000 }")),
        2 => contiguous(),
        4 => text(),
        2 => Just(PolicyDesc { kind: PolicyKind::Hugetlb, hugetlb: Some(hugetlb), ..PolicyDesc::linux_4k() }),
    ]
}

/// Arm's tables with larger base pages.
fn granule() -> impl Strategy<Value = TableDesc> {
    let tables = [("armv8-16k", 4), ("armv8-16k", 3), ("armv8-64k", 3)].map(|(name, levels)| {
        let kind = TableKind::ALL.iter().find(|kind| kind.name() == name).expect("a kind of table");
        TableDesc::new(*kind, levels).expect("its levels")
    });
    prop::sample::select(tables.to_vec())
}

/// Policies that work with base pages of any size.
fn of_any_base() -> impl Strategy<Value = PolicyDesc> {
    let mut blocks = PolicyDesc::linux_thp();
    blocks.thp.as_mut().unwrap().sizes = [PageOrder::new(7), PageOrder::P2M].map(|size| (size, ThpSize::Always)).into();
    let mut warm = PolicyDesc::linux_4k();
    warm.linux.page_cache = PageCache::Warm;
    let pool = "[hugetlb]\nsize = \"2M\"\npool = \"200M\"";
    prop_oneof![
        2 => Just(PolicyDesc::linux_4k()),
        1 => Just(warm),
        3 => Just(PolicyDesc::linux_thp()),
        2 => Just(blocks),
        1 => Just(parts("fault.sizes = [\"2M\"]\nlinux.zero_page = false")),
        1 => Just(parts("fault.sizes = [\"128K\"]\nreclaim.when = \"watermarks\"\ndemotion.when = \"store\"")),
        1 => Just(toml::from_str(&format!("name = \"pool\"\nkind = \"hugetlb\"\n{pool}")).expect("a policy")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn larger_base_pages_keep_what_programs_store(
        table in granule(), policy in of_any_base(), ops in prop::collection::vec(op(), 1..40)
    ) {
        run(table, policy, &ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        max_shrink_iters: 3000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn programs_see_their_own_stores_and_nothing_else(
        table in table(), policy in policy(), ops in prop::collection::vec(op(), 1..50)
    ) {
        run(table, policy, &ops);
    }

    #[test]
    fn text_on_larger_pages_stays_what_it_was(
        table in table(), policy in text(), ops in prop::collection::vec(text_op(), 1..50)
    ) {
        run(table, policy, &ops);
    }

    #[test]
    fn sixteen_pages_that_translate_as_one_stay_sixteen(
        table in grouped(), policy in contiguous(), ops in prop::collection::vec(op(), 1..50)
    ) {
        run(table, policy, &ops);
    }
}

/// A store to a page that a process has alone again completes a larger page, whose gap is filled.
#[test]
fn what_fills_a_gap_beside_a_page_that_is_used_again_is_new() {
    let policy = parts(
        "placement = { frames = \"reservation\", levels = [\"2M\"] }\n\
                         promotion = { when = \"threshold\", threshold = 5, size = \"64K\" }\n\
                         zeroing = { when = \"ahead\" }",
    );
    let ops = [
        Op::Map { at: 0, len: 1024, prot: Prot::RW, kind: Kind::Anon, populate: false },
        Op::Touch { at: 48, count: 286, access: Access::Write },
        Op::Fork,
        Op::Move { from: 512, to: 0, len: 512, new_len: 512 },
        Op::Exit,
        Op::Map { at: 202, len: 1, prot: Prot::RW, kind: Kind::Anon, populate: false },
        Op::Touch { at: 200, count: 3, access: Access::Write },
        Op::Touch { at: 333, count: 451, access: Access::Read },
    ];
    run(TableDesc::default(), policy, &ops);
}
