//! Virtual machines. Whatever a program does, combined translations are those of the guest's table over the host's,
//! after every reference and every event. Other tests show how runs end that cannot go on.

use crate::common::{AT, build, result};
use mmulab_addr::{Prot, VirtAddr};
use mmulab_machine::{Machine, Options, describe, describe::Check, interleave};
use mmulab_trace::{Advice, Backing, Batch, Event, MapFlags, Ref, Source, TraceError, TraceInfo};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Pages a program plays with.
const PAGES: u64 = 4096;

fn machine(policy: &str, host_policy: &str, overrides: &[&str], options: Options) -> Result<Machine, String> {
    let names = describe::Names { machine: "zenplus-2700x", policy, host_policy: Some(host_policy) };
    build(names, overrides, &options)
}

/// A host with caches of its own, all small, so that everything in them changes often.
const SMALL: [&str; 6] = [
    "memory.size=64M",
    "virtual.memory.size=32M",
    "virtual.nested_tlb.entries=8",
    "virtual.nested_tlb.ways=2",
    "virtual.cache=[{name='H', levels=[2,3,4], entries=8, ways=2}]",
    "core.count=1",
];

fn random(seed: u64, steps: usize) -> Batch {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut batch = Batch::default();
    let mut below = |n: u64| rng.next_u64() % n;
    for _ in 0..steps {
        let (first, pages) = (below(PAGES), 1 + below(600));
        let (addr, len) = (VirtAddr::new(AT + (first << 12)), pages.min(PAGES - first) << 12);
        match below(40) {
            0..3 => batch.push_event(Event::Mmap {
                addr,
                len,
                prot: if below(4) == 0 { Prot::R } else { Prot::RW },
                flags: MapFlags { populate: below(3) == 0, ..MapFlags::default() },
                backing: Backing::Anon,
            }),
            3 => batch.push_event(Event::Munmap { addr, len }),
            4 => batch.push_event(Event::Mprotect { addr, len, prot: if below(2) == 0 { Prot::R } else { Prot::RW } }),
            5 => batch.push_event(Event::Madvise { addr, len, advice: Advice::Dontneed }),
            6 => batch.push_event(Event::Tick),
            7 => batch.push_event(Event::Invlpg { addr }),
            n => {
                for page in 0..below(64) {
                    let va = VirtAddr::new(AT + (((first + page) % PAGES) << 12) + (below(512) << 3));
                    batch.refs.push(if n % 2 == 0 { Ref::write(va) } else { Ref::read(va) });
                }
            }
        }
    }
    batch
}

#[test]
fn combined_translations_are_the_guests_over_the_hosts_whatever_happens() {
    let policies = ["linux-4k", "linux-thp-khugepaged", "freebsd-reserv", "linux-mthp"];
    for (seed, (guest, host)) in policies.iter().flat_map(|g| policies.map(|h| (*g, h))).enumerate() {
        let of_host = checked(guest, host, &[], seed as u64);
        assert!(of_host["nested_tlb"]["hits"].as_u64() > Some(0), "{of_host}");
    }
}

#[test]
fn what_the_host_moves_is_forgotten_by_its_guests() {
    // No block of 2 MiB is free at first: khugepaged compacts memory, and collapses what guests have.
    let overrides =
        ["memory.fragment={kind='memhog', percent=50, chunk='64K'}", "host_policy.thp.khugepaged.max_ptes_none=511"];
    let flushes = |seed| checked("linux-4k", "linux-thp-khugepaged", &overrides, seed)["flushes"].as_u64().unwrap_or(0);
    assert!((0..3).map(flushes).sum::<u64>() > 0, "some host changed its tables");
}

#[test]
fn merged_tables_in_either_dimension_translate_alike() {
    let merged = "compendia={merge='2/512', unmerge='1/512'}";
    let host = ["table.kind=compendia".to_owned(), format!("table.{merged}")];
    let guest = ["virtual.table.kind=compendia".to_owned(), format!("virtual.table.{merged}")];
    for (seed, overrides) in [&host[..], &guest, &[&host[..], &guest].concat()].into_iter().enumerate() {
        let overrides: Vec<&str> = overrides.iter().map(String::as_str).collect();
        checked("linux-4k", "linux-4k", &overrides, seed as u64);
    }
}

#[test]
fn shadow_tables_say_what_both_tables_say() {
    for (seed, policy) in ["linux-4k", "linux-thp-khugepaged", "freebsd-reserv"].into_iter().enumerate() {
        let of_host = checked(policy, "linux-thp", &["virtual.mode=shadow"], seed as u64);
        assert!(of_host["exits"].as_u64() > Some(100), "{of_host}");
    }
}

/// What was counted of the host, after a checked run of a random program.
fn checked(guest: &str, host: &str, overrides: &[&str], seed: u64) -> serde_json::Value {
    let options = Options { check: Check::Translations, ..Options::default() };
    let overrides: Vec<&str> = SMALL.iter().chain(overrides).copied().collect();
    let mut m = machine(guest, host, &overrides, options).expect("a machine");
    m.run(&random(seed, 70));
    assert_eq!(m.ended(), None, "{guest} over {host}");
    result(&mut m, &info())["counts"]["virtual"].take()
}

fn info() -> TraceInfo {
    TraceInfo::default()
}

struct Once(Batch, TraceInfo);

impl Source for Once {
    fn info(&self) -> &TraceInfo {
        &self.1
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        *batch = std::mem::take(&mut self.0);
        Ok(false)
    }
}

#[test]
fn several_machines_keep_apart_with_tags_and_without() {
    for bits in ["tlb_rules.asid_bits=12", "tlb_rules.asid_bits=2", "tlb_rules.asid_bits=0"] {
        let vms = vec![String::new(); 2];
        let options = Options { check: Check::Translations, vms, ..Options::default() };
        let overrides: Vec<&str> = SMALL.into_iter().chain([bits, "memory.size=128M"]).collect();
        let mut m = machine("linux-thp", "linux-mthp", &overrides, options).expect("a machine");
        let lane = |seed| Box::new(Once(random(seed, 60), info())) as Box<dyn Source>;
        let mut all = interleave((0..3).map(lane).collect(), Some(50)).expect("of one kind");
        let mut batch = Batch::default();
        while all.next_batch(&mut batch).expect("whole") {
            m.run(&batch);
        }
        m.run(&batch);
        assert_eq!(m.ended(), None, "{bits}");
        let made = result(&mut m, &info());
        assert_eq!(made["counts"]["virtual"]["guests"].as_array().map(Vec::len), Some(3));
        assert!(made["counts"]["virtual"]["machine_switches"].as_u64() > Some(5));
    }
}

#[test]
fn a_guest_larger_than_its_host_runs_until_the_host_has_nothing_left() {
    let overrides = ["memory.size=16M", "virtual.memory.size=64M", "core.count=1"];
    let mut m = machine("linux-4k", "linux-4k", &overrides, Options::default()).expect("a machine");
    m.run(&stores(PAGES << 12));
    let ended = m.ended().expect("the host ran out").report();
    assert_eq!(ended.reason, "out-of-memory");
    assert!(
        ended.message.starts_with("the host is out of memory: a page of 4K for guest-physical"),
        "{}",
        ended.message
    );
    assert!(ended.message.contains("memory.size"), "{}", ended.message);
}

#[test]
fn guests_and_hosts_need_not_have_as_many_levels() {
    for (guest, host) in [(5, 4), (4, 5), (5, 5)] {
        let levels = [format!("virtual.table.levels={guest}"), format!("table.levels={host}")];
        checked("linux-4k", "linux-thp", &[&levels[0], &levels[1]], guest);
    }
}

#[test]
fn memory_that_the_hosts_table_cannot_translate_is_refused() {
    // Sv39 translates 256 GiB of user addresses; a guest's memory begins at 0.
    let host =
        ["isa=riscv64", "memory.size=64M", "table.kind=riscv-sv", "table.levels=3", "virtual.table.kind=riscv-sv"];
    let with = |memory| {
        let overrides: Vec<&str> = host.into_iter().chain(["virtual.table.levels=5", memory]).collect();
        machine("linux-4k", "linux-4k", &overrides, Options::default())
    };
    assert_eq!(with("virtual.memory.size=128G").err(), None);
    let error = with("virtual.memory.size=512G").err().expect("beyond the table");
    assert!(error.contains("512G of guest-physical memory do not fit"), "{error}");
    assert!(error.contains("virtual.memory.size"), "{error}");
}

#[test]
fn whose_memory_is_wrong_or_used_up_is_told() {
    let error = machine("linux-4k", "linux-4k", &["virtual.memory.size=6M"], Options::default()).err();
    assert!(error.expect("too little").ends_with("virtual.memory.size is 6M: give 16M to 15T"));
    // Shadow tables are the host's, and so is what they take.
    for (overrides, whose) in [
        (["memory.size=16M", "virtual.memory.size=64M", "virtual.mode=nested"], "the host is out of memory"),
        (["memory.size=16M", "virtual.memory.size=64M", "virtual.mode=shadow"], "the host is out of memory"),
        (["memory.size=64M", "virtual.memory.size=16M", "virtual.mode=nested"], "virtual machine 0 is out of memory"),
    ] {
        let mut m = machine("linux-4k", "linux-4k", &overrides, Options::default()).expect("a machine");
        m.run(&stores(32 << 20));
        let ended = m.ended().expect("something ran out").report();
        assert_eq!(ended.reason, "out-of-memory", "{overrides:?}");
        assert!(ended.message.starts_with(whose), "{overrides:?}: {}", ended.message);
    }
}

/// A store to every page of this size.
fn stores(bytes: u64) -> Batch {
    let mut batch = Batch::default();
    batch.push_event(Event::Mmap {
        addr: VirtAddr::new(AT),
        len: bytes,
        prot: Prot::RW,
        flags: MapFlags::default(),
        backing: Backing::Anon,
    });
    (0..bytes >> 12).for_each(|page| batch.refs.push(Ref::write(VirtAddr::new(AT + (page << 12)))));
    batch
}

#[test]
fn shadow_tables_trap_what_guests_write_to_their_tables() {
    let writes = |mode| {
        let of_host = checked("linux-4k", "linux-4k", &[mode], 5);
        let count = |key: &str| of_host[key].as_u64().expect("a count");
        (count("table_writes"), count("exits"))
    };
    let (nested, shadow) = (writes("virtual.mode=nested"), writes("virtual.mode=shadow"));
    assert_eq!(nested.0, 0);
    assert!(shadow.0 > 500, "{shadow:?}");
    assert!(shadow.1 > nested.1 + shadow.0, "{shadow:?} {nested:?}");
}

#[test]
fn what_needs_a_guest_says_so() {
    let error = machine("linux-4k", "linux-4k", &[], Options::default()).err().expect("no guest");
    assert!(error.contains("--guest-memory"), "{error}");
    let error = machine("linux-4k", "hugetlb-1g", &["virtual.memory.size=32M", "memory.size=64M"], Options::default());
    assert!(error.err().expect("no room for the pool").starts_with("the host: hugetlb.pool"));
}
