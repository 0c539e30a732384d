//! Checks of a machine file that concern several of its tables.

use super::machine::MachineDesc;
use mmulab_addr::PageOrder;
use mmulab_describe::DescribeError;
use mmulab_tlb::{COALESCED, Inclusion};
use std::collections::BTreeSet;

/// Refuses what cannot be, with the remedy.
pub(super) fn check(machine: &MachineDesc) -> Result<(), DescribeError> {
    let bad = |message: String| Err(DescribeError::Impossible { name: machine.name.clone(), message });
    let core = &machine.core;
    if u32::from(core.count) * u32::from(core.threads) > 1024 {
        let (threads, count) = (core.threads, core.count);
        return bad(format!("core.threads is {threads}, of {count} cores: give no more than 1024 CPUs in all"));
    }
    if core.threads > 1 && machine.gpu.is_some() {
        return bad("core.threads: shader cores run warps; leave it out, or [gpu]".into());
    }
    if core.threads > 1
        && machine.tlb_rules.inclusion == Inclusion::Inclusive
        && let Some(own) = machine.tlb.iter().find(|array| array.per_thread)
    {
        return bad(format!(
            "{} is per_thread, and inclusion is modelled for one thread's arrays: set tlb_rules.inclusion to none, or \
             core.threads to 1",
            own.name
        ));
    }
    if core.threads > 1 && machine.tlb_rules.asid_bits == 0 {
        return bad(format!(
            "core.threads is {}, and tlb_rules.asid_bits 0: entries of two threads in one array could not be told \
             apart; give asid_bits",
            core.threads
        ));
    }
    if let Some(targets) = core.timing.as_ref().and_then(|timing| timing.branch_targets.as_ref()) {
        targets.check().or_else(bad)?;
    }
    perf_events(machine)?;
    base_pages(machine).or_else(bad)?;
    if machine.gpu.is_some()
        && let Some(holding) = machine.tlb.iter().find(|array| array.hold.is_some())
    {
        return bad(format!(
            "{}: hold: shader cores go on with other warps while one waits: leave it out, or [gpu]",
            holding.name
        ));
    }
    if let Some(shootdown) = &machine.shootdown {
        if machine.gpu.is_some() {
            return bad("shootdown: flushes of shader cores are not modelled: leave out [shootdown], or [gpu]".into());
        }
        shootdown.check().or_else(bad)?;
    }
    if machine.guest.is_some() {
        let shared = machine.walker.shared || machine.tlb.iter().any(|array| array.shared);
        if machine.gpu.is_some() || shared {
            return bad(
                "virtual: what cores share, and warps, are modelled for programs on the machine itself: leave out \
                 [gpu] and shared, or the virtual machines"
                    .into(),
            );
        }
    }
    machine.energy.check(&machine.tlb, &machine.walker, &machine.cache).or_else(bad)
}

/// Whether the walker has what its tables need, and nothing else.
pub(super) fn walk_caches(machine: &MachineDesc) -> Result<(), String> {
    let below = machine.guest.iter().flat_map(|guest| guest.cache.iter().map(|cache| (&machine.table, cache)));
    let own = machine.walker.cache.iter().map(|cache| (machine.walked_table(), cache));
    for (table, cache) in own.chain(below).filter(|(_, cache)| cache.entries > 0) {
        let Some(held) = table.kind.walk_table_levels() else { continue };
        if let Some(level) = cache.levels.iter().find(|level| !held.contains(level)) {
            let name = &cache.name;
            return Err(if held.is_empty() {
                format!("{name}: a hashed table has nothing that walk caches hold: give it 0 entries")
            } else {
                format!(
                    "{name} holds level {level}: caches of an elastic cuckoo table hold its walk tables: 4 (4K), 5 \
                     (2M), 6 (1G)"
                )
            });
        }
    }
    let tables = [Some(&machine.table), machine.guest.as_ref().map(|guest| &guest.table)];
    if machine.walker.hash_cycles > 0 && !tables.into_iter().flatten().any(|table| table.format().is_searched()) {
        return Err("hash_cycles is for page tables found by hashing: leave it out, or set table.kind".into());
    }
    Ok(())
}

/// Whether some TLB holds the pages of a table whose base pages are larger than 4 KiB. If none does, all references
/// walk.
fn base_pages(machine: &MachineDesc) -> Result<(), String> {
    let tables = [Some(&machine.table), machine.guest.as_ref().map(|guest| &guest.table)];
    // In a virtual machine, an entry is of the smaller page.
    let Some(base) = tables.into_iter().flatten().map(|table| table.base()).min() else { return Ok(()) };
    let are_held = machine.tlb.is_empty() || machine.tlb.iter().any(|array| array.sizes.contains(&base));
    if are_held || tables.into_iter().flatten().all(|table| table.base() == PageOrder::P4K) {
        return Ok(());
    }
    Err(format!(
        "no TLB holds pages of {base}, which are the base pages of its page table ({}): add \"{base}\" to the sizes of \
         its TLBs",
        machine.table.kind.name()
    ))
}

/// Refuses events that cannot be.
fn perf_events(machine: &MachineDesc) -> Result<(), DescribeError> {
    let bad = |message: String| Err(DescribeError::Impossible { name: machine.name.clone(), message });
    let mut names = BTreeSet::new();
    for event in &machine.perf.event {
        let name = &event.name;
        if !names.insert(name) {
            return bad(format!("perf: two events are named '{name}': leave one out"));
        }
        if !event.sizes.is_empty() && !event.counts.has_sizes() {
            return bad(format!("perf: {name}: sizes part hits and misses of the second level only: leave them out"));
        }
        if let Some(odd) = event.sizes.iter().find(|s| *s != COALESCED && s.parse::<PageOrder>().is_err()) {
            return bad(format!(
                "perf: {name}: '{odd}' is not a page size: write one, such as \"4K\", or \"{COALESCED}\""
            ));
        }
    }
    Ok(())
}
