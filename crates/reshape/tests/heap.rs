//! Programs whose heap another allocator keeps, against a model that is a list of objects and a set of pages.

use mmulab_addr::{Access, Pid};
use mmulab_reshape::{BlocksDesc, Bookkeeping, GlibcDesc, HeapDesc, JemallocDesc, ReshapeDesc, reshape};
use mmulab_trace::{Advice, Batch, Event, Item, Source, TextReader};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// Where the recording has its objects.
const HEAP: u64 = 0x60_0000;
/// Bytes between objects of the recording: any of them fits.
const SLOT: u64 = 1 << 20;

#[derive(Clone, Debug)]
enum Step {
    Malloc { slot: u64, len: u64, align: Option<u32> },
    Free { slot: u64 },
    Touch { slot: u64, offset: u64, write: bool },
    Advise { slot: u64 },
    Run { instructions: u64 },
    Fork,
    Other,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let slot = 0u64..60;
    let len = prop_oneof![10 => 0u64..300, 5 => 0u64..20_000, 2 => 0u64..SLOT];
    let align = prop_oneof![6 => Just(None), 1 => (0u32..14).prop_map(Some)];
    let step = prop_oneof![
        12 => (slot.clone(), len, align).prop_map(|(slot, len, align)| Step::Malloc { slot, len, align }),
        9 => slot.clone().prop_map(|slot| Step::Free { slot }),
        12 => (slot.clone(), 0..SLOT, any::<bool>())
            .prop_map(|(slot, offset, write)| Step::Touch { slot, offset, write }),
        1 => slot.prop_map(|slot| Step::Advise { slot }),
        3 => (0u64..5_000).prop_map(|instructions| Step::Run { instructions }),
        1 => Just(Step::Fork),
        1 => Just(Step::Other),
    ];
    prop::collection::vec(step, 1..400)
}

fn desc() -> impl Strategy<Value = HeapDesc> {
    prop_oneof![
        prop_oneof![Just(-1i64), Just(0), Just(1), Just(50)].prop_map(|dirty_decay_ms| {
            HeapDesc::Jemalloc(JemallocDesc { dirty_decay_ms, instructions_per_ms: 1000, ..JemallocDesc::default() })
        }),
        any::<bool>().prop_map(|dynamic| HeapDesc::Glibc(GlibcDesc { dynamic, ..GlibcDesc::default() })),
        Just(HeapDesc::Blocks(BlocksDesc::default())),
    ]
}

fn text(steps: &[Step]) -> String {
    let mut out = format!("#: heap told\nmmap {HEAP:#x} {:#x} rw anon\n", 64 * SLOT);
    let mut pids = 1;
    for step in steps {
        let _ = match step {
            Step::Malloc { slot, len, align: None } => writeln!(out, "malloc {:#x} {len}", HEAP + slot * SLOT),
            Step::Malloc { slot, len, align: Some(n) } => {
                writeln!(out, "malloc {:#x} {len} align={}", HEAP + slot * SLOT, 1u64 << n)
            }
            Step::Free { slot } => writeln!(out, "free {:#x}", HEAP + slot * SLOT),
            Step::Touch { slot, offset, write } => {
                writeln!(out, "{} {:#x}", if *write { 'w' } else { 'r' }, HEAP + slot * SLOT + offset)
            }
            Step::Advise { slot } => writeln!(out, "madvise {:#x} 16 willneed", HEAP + slot * SLOT),
            Step::Run { instructions } => writeln!(out, "n {instructions}"),
            Step::Fork => {
                pids += 1;
                writeln!(out, "fork {pids}")
            }
            Step::Other => writeln!(out, "p {}.{0}", 1 + pids / 2),
        };
    }
    out
}

/// All words of a trace, with their events.
fn words(mut source: Box<dyn Source>) -> (Vec<Item>, Vec<Event>) {
    let (mut items, mut events, mut batch) = (Vec::new(), Vec::new(), Batch::default());
    loop {
        let more = source.next_batch(&mut batch).unwrap();
        for word in &batch.refs {
            items.push(match word.item() {
                Item::Event(index) => {
                    events.push(batch.events[index].clone());
                    Item::Event(events.len() - 1)
                }
                other => other,
            });
        }
        if !more {
            return (items, events);
        }
    }
}

fn open(text: &str) -> Box<dyn Source> {
    Box::new(TextReader::new(std::io::Cursor::new(text.to_owned().into_bytes()), "test".into()))
}

fn changed(text: &str, desc: &HeapDesc) -> Box<dyn Source> {
    reshape(&ReshapeDesc { heap: Some(desc.clone()), ..ReshapeDesc::default() }, open(text)).unwrap()
}

/// What a process has: objects by where the recording has them (bytes, and where they are), and pages that are mapped.
#[derive(Clone, Default)]
struct Process {
    objects: BTreeMap<u64, (u64, u64)>,
    pages: BTreeSet<u64>,
}

fn pages(addr: u64, len: u64) -> std::ops::Range<u64> {
    addr >> 12..(addr + len).div_ceil(4096)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn objects_and_what_is_in_them_move_together(steps in steps(), desc in desc()) {
        let text = text(&steps);
        let (before, events_before) = words(open(&text));
        let (after, events_after) = words(changed(&text, &desc));
        prop_assert_eq!(&(after.clone(), events_after.clone()), &words(changed(&text, &desc)), "the same each time");
        let mut processes = BTreeMap::from([(Pid(1), Process::default())]);
        let mut acting = Pid(1);
        let mut out = after.iter();
        for item in &before {
            let process = processes.get_mut(&acting).unwrap();
            let ending = match item {
                Item::Event(index) => match &events_before[*index] {
                    Event::Malloc { addr, .. } | Event::Free { addr } => addr.raw(),
                    _ => 0,
                },
                _ => 0,
            };
            if let Item::Event(index) = item
                && let Event::Free { addr } = &events_before[*index]
                && !process.objects.contains_key(&addr.raw())
            {
                // No object is known there: it is not told on.
                continue;
            }
            // What the allocator asks of the system comes before what it answers.
            let mut next = out.next();
            while let Some(Item::Event(index)) = next {
                let own = |addr: &mmulab_addr::VirtAddr| addr.raw() >= desc.window();
                match &events_after[*index] {
                    Event::Mmap { addr, len, .. } if own(addr) => {
                        prop_assert!(pages(addr.raw(), *len).all(|page| process.pages.insert(page)), "mapped twice");
                    }
                    Event::Munmap { addr, len } if own(addr) => {
                        prop_assert!(pages(addr.raw(), *len).all(|page| process.pages.remove(&page)), "not mapped");
                    }
                    Event::Madvise { addr, len, advice: Advice::Free } => {
                        prop_assert!(matches!(desc, HeapDesc::Jemalloc(_)), "only jemalloc gives pages back like that");
                        prop_assert!(pages(addr.raw(), *len).all(|page| process.pages.contains(&page)));
                        let (from, until) = (addr.raw(), addr.raw() + len);
                        let others = process.objects.iter().filter(|(at, _)| **at != ending);
                        let met = others.map(|(_, place)| place).any(|(had, to)| from < to + had && *to < until);
                        prop_assert!(!met, "an object is in what is given back");
                    }
                    _ => break,
                }
                next = out.next();
            }
            let event = match item {
                Item::Event(index) => &events_before[*index],
                Item::Access(access, va, n) => {
                    let owner = process.objects.range(..=va.raw()).next_back();
                    // Objects of the recording have multiples of 8 bytes.
                    let owner = owner.filter(|(from, (len, _))| va.raw() < (*from + (*len).max(1)).next_multiple_of(8));
                    let to = owner.map_or(va.raw(), |(from, (_, to))| to + va.raw() - from);
                    prop_assert!(*access != Access::Fetch);
                    prop_assert!(owner.is_none() || process.pages.contains(&(to >> 12)), "an object is not mapped");
                    prop_assert_eq!(next, Some(&Item::Access(*access, mmulab_addr::VirtAddr::new(to), *n)));
                    continue;
                }
                Item::Retire(_) | Item::Code(_) => {
                    prop_assert_eq!(next, Some(item));
                    continue;
                }
            };
            let Some(Item::Event(index)) = next else { return Err(TestCaseError::fail("an event is missing")) };
            let told = &events_after[*index];
            match (event, told) {
                (Event::Malloc { addr, len, align }, Event::Malloc { addr: to, len: len_to, align: align_to }) => {
                    prop_assert_eq!((len, align), (len_to, align_to));
                    let to = to.raw();
                    prop_assert!(to.is_multiple_of(16.max(*align)), "{to:#x} is no multiple of {align}");
                    process.objects.remove(&addr.raw());
                    let bytes = (*len).max(1);
                    let met = process.objects.values().find(|(len, at)| to < at + len && *at < to + bytes);
                    prop_assert!(met.is_none(), "{to:#x} and {bytes} bytes meet {met:x?}");
                    prop_assert!(pages(to, bytes).all(|page| process.pages.contains(&page)), "it is not mapped");
                    process.objects.insert(addr.raw(), (bytes, to));
                }
                (Event::Free { addr }, Event::Free { addr: to }) => {
                    prop_assert_eq!(process.objects.remove(&addr.raw()).unwrap().1, to.raw());
                }
                (Event::Madvise { addr, len, .. }, Event::Madvise { addr: to, .. }) => {
                    let whole = process.objects.get(&addr.raw()).filter(|(had, _)| had >= len);
                    prop_assert_eq!(whole.map_or(addr.raw(), |(_, to)| *to), to.raw());
                }
                _ => prop_assert_eq!(event, told),
            }
            match event {
                Event::Fork { child, .. } => {
                    let copy = process.clone();
                    processes.insert(*child, copy);
                }
                Event::Switch { pid, .. } => {
                    acting = *pid;
                    processes.entry(acting).or_default();
                }
                _ => {}
            }
        }
        prop_assert!(out.next().is_none(), "more was told than was said");
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refusal = |desc: HeapDesc, text: &str| match reshape(
        &ReshapeDesc { heap: Some(desc), ..ReshapeDesc::default() },
        open(text),
    ) {
        Ok(mut source) => source.next_batch(&mut Batch::default()).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    let usual = || HeapDesc::Glibc(GlibcDesc::default());
    assert!(refusal(usual(), "r 0x1000\n").contains("does not tell what the program asks of its allocator"));
    let block = BlocksDesc { block: mmulab_addr::Bytes(2 << 20), ..BlocksDesc::default() };
    assert_eq!(
        refusal(HeapDesc::Blocks(block), "#: heap told\n"),
        "heap.block is '2M': give a multiple of 4K below 2M"
    );
    let inside = "#: heap told\nmmap 0x1000200000 4K rw anon\n";
    assert!(refusal(usual(), inside).contains("among the addresses that its heap is given"));
    assert!(refusal(usual(), "#: heap told\nmalloc 0x1001 10\n").contains("begin at multiples of 8"));
    for kind in [usual(), HeapDesc::Jemalloc(JemallocDesc::default()), HeapDesc::Blocks(BlocksDesc::default())] {
        for len in ["100T", "129G", "0xffffffffffffff"] {
            let text = format!("#: heap told\nmalloc 0x1000 {len}\n");
            let said = refusal(kind.clone(), &text);
            assert!(said.contains("full") || said.contains("no program"), "{said}");
        }
    }
}

#[test]
fn what_is_left_out_is_what_the_recorded_allocator_has() {
    let glibc = GlibcDesc { bookkeeping: Bookkeeping::Drop, ..GlibcDesc::default() };
    let text = "#: heap told
        brk 0x600000 0x610000
        w 0x600001                      # Nobody's so far.
        malloc 0x600010 16
        w 0x600002                      # Left out, as
        w 0x60f000                      # anywhere in the heap,
        w 0x600010
        brk 0x600000 0x620000
        w 0x61f000                      # also where it grows.
        mmap 0x700000 64K rw anon
        w 0x700003                      # The program's own memory,
        malloc 0x700010 16
        w 0x700004                      # until an object shows whose it is.
        mremap 0x700000 64K 0x800000 128K
        w 0x81f000
        munmap 0x800000 128K
        mmap 0x800000 64K rw anon
        w 0x800005                      # Somebody else's.
        w 0x900006
        ";
    let (items, _) = words(changed(text, &HeapDesc::Glibc(glibc)));
    let stores: Vec<u64> =
        items.iter().filter_map(|item| if let Item::Access(_, va, _) = item { Some(va.raw()) } else { None }).collect();
    assert_eq!(stores, [0x600001, 0x10_0000_0010, 0x700003, 0x800005, 0x900006]);
    assert!(!items.contains(&Item::Retire(0)));
}

#[test]
fn names_go_with_the_objects_that_they_are_of() {
    let text = "#: heap told\nmmap 0x600000 16M rw anon\nname 0x600000 2M table_new\nmalloc 0x600010 1M\n\
                malloc 0x900010 1M\nname 0x900010 1M index_new\nname 0xb00000 4K other\nmalloc 0x700010 64\n";
    let (_, events) = words(changed(text, &HeapDesc::Glibc(GlibcDesc::default())));
    let object = |event: &Event| match event {
        Event::Malloc { addr, .. } => Some(addr.raw()),
        _ => None,
    };
    let objects: Vec<u64> = events.iter().filter_map(object).collect();
    let named = |event: &Event| match event {
        Event::Name { addr, len, name } => Some((addr.raw(), *len, name.to_string())),
        _ => None,
    };
    let names: Vec<_> = events.iter().filter_map(named).collect();
    let expected = [
        (0x60_0000, 2 << 20, "table_new".to_owned()),
        (objects[0], 1 << 20, "table_new".to_owned()),
        (objects[1], 1 << 20, "index_new".to_owned()),
        (0xb0_0000, 4096, "other".to_owned()),
    ];
    assert_eq!(names, expected);
    assert!(objects[0] != 0x60_0010 && objects[1] != 0x90_0010);
}
