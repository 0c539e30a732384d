//! Random programs of several processes, machines by name, and results as JSON: for tests of whole runs.

use mmulab_addr::{Pid, Prot, Tid, VirtAddr};
use mmulab_machine::{Ended, Machine, Options, describe, report};
use mmulab_trace::{Advice, Backing, Batch, Event, MapFlags, Ref, Source, TextReader, TraceInfo, write_batch};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;
use std::{io::Cursor, path::Path, sync::Arc};

pub const AT: u64 = 0x4000_0000;
/// Pages that each process plays with.
pub const PAGES: u64 = 4096;
/// Instructions of each step.
pub const STEP: u64 = 20;

/// Memory for data and code.
pub fn map(addr: VirtAddr, len: u64) -> Event {
    Event::Mmap { addr, len, prot: Prot::RW.with(Prot::X), flags: MapFlags::default(), backing: Backing::Anon }
}

/// Two processes map this many pages each; the first goes on.
pub fn two_processes(pages: u64) -> Batch {
    let mut batch = Batch::default();
    for pid in [2, 1] {
        batch.push_event(Event::Switch { pid: Pid(pid), tid: Tid(pid) });
        batch.push_event(map(VirtAddr::new(AT), pages << 12));
    }
    batch
}

/// Two processes, and a child of the first, take turns; `text` is what they do. Huge pages are first used by stores.
pub fn random(seed: u64, steps: u64) -> String {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut batch = two_processes(PAGES);
    let mut below = |n: u64| rng.next_u64() % n;
    for step in 0..steps {
        let (first, pages) = (below(PAGES), 1 + below(300));
        let (addr, len) = (VirtAddr::new(AT + (first << 12)), pages.min(PAGES - first) << 12);
        match below(24) {
            0 => batch.push_event(Event::Munmap { addr, len }),
            1 => batch.push_event(map(addr, len)),
            2 => batch.push_event(Event::Mprotect { addr, len, prot: if below(2) == 0 { Prot::R } else { Prot::RW } }),
            3 => batch.push_event(Event::Madvise { addr, len, advice: Advice::Dontneed }),
            4..10 => {
                let pid = 1 + below(2) as u32;
                batch.push_event(Event::Switch { pid: Pid(pid), tid: Tid(pid) });
            }
            _ => {}
        }
        if step == steps / 3 {
            batch.push_event(Event::Fork { child: Pid(3), shares_memory: false });
        }
        batch.refs.push(Ref::fetch(VirtAddr::new(AT), STEP as u32));
        for page in 0..below(96) {
            let va = VirtAddr::new(AT + (((first + page) % PAGES) << 12) + (below(512) << 3));
            batch.refs.push(Ref::write(va));
            if below(3) == 0 {
                batch.refs.push(Ref::read(va));
            }
        }
    }
    let mut out = Vec::new();
    write_batch(&batch, &mut out).expect("memory");
    String::from_utf8(out).expect("text")
}

pub fn source(text: &str) -> Box<dyn Source> {
    Box::new(TextReader::new(Cursor::new(text.as_bytes().to_vec()), "t".into()))
}

/// A machine of the checkout, or why there is none.
pub fn build<S: ToString>(names: describe::Names, overrides: &[S], options: &Options) -> Result<Machine, String> {
    let dirs = |d: &str| vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(d)];
    let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
    let desc = describe::resolve(names, &overrides, options, &dirs("machines"), &dirs("policies"))
        .map_err(|e| e.to_string())?;
    Machine::new(Arc::new(desc), true).map_err(|e| e.to_string())
}

pub fn machine(name: &str, policy: &str, overrides: &[&str], options: &Options) -> Machine {
    let names = describe::Names { machine: name, policy, host_policy: None };
    build(names, overrides, options).expect("a machine")
}

pub fn result(machine: &mut Machine, info: &TraceInfo) -> Value {
    let report = report(machine, info, &Ended::End, None).expect("counts that add up");
    serde_json::to_value(&report).expect("JSON")
}
