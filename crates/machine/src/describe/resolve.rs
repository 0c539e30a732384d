//! Resolution of a run's description: machine file, policy files, assignments and options become one checked value.
//! Results repeat the resolved value with all assumptions, so a reader can see every number behind a result.
//!
//! ```text
//! machine file --------------.
//! policy files --------------+--> resolve --> Resolved: machine, policies, options, assignments, assumptions
//! --set KEY=VALUE, options --'
//! ```

use super::{DescribeError, MachineDesc, find, load};
use crate::Sample;
use mmulab_describe as read;
use mmulab_kernel::{KernelDesc, PolicyDesc};
use mmulab_tlb::{Coalescing, Inclusion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};
use toml::{Table, Value};

/// What to do when a trace touches memory that no mapping holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unmapped {
    /// `fault` for traces that carry address-space events, else `map`.
    #[default]
    Auto,
    /// Count a violation and go on with the next reference.
    Fault,
    /// Map anonymous memory there (`linux.implicit_vma` bytes at a time).
    Map,
    /// End the run there.
    Stop,
}

/// What is proven of every step of a run, besides running it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Nothing: full speed.
    #[default]
    None,
    /// After every reference and event: no TLB holds a translation that the tables do not bear out, and the tables are
    /// those of the same run with TLBs that do not coalesce. Takes some times as long, more where the kernel acts
    /// often.
    Translations,
}

/// Options of a run that belong neither to the machine nor to the policy.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// What to do about references to unmapped memory.
    pub unmapped: Unmapped,
    /// Keep costs by 2 MiB of memory and by block of code.
    pub profile: bool,
    /// Track which base pages are truly touched, so that bloat can be told.
    pub touched: bool,
    /// What is proven besides.
    pub check: Check,
    /// Number of instructions that run first and are not counted: counts begin with TLBs, caches and page tables in
    /// use.
    #[schemars(range(min = 0, max = i64::MAX))]
    #[serde(skip_serializing_if = "is_zero")]
    pub skip: u64,
    /// End after this number of instructions; those of `skip` are not among them.
    #[schemars(range(min = 0, max = i64::MAX))]
    pub max_instructions: Option<u64>,
    /// Threads that run machines; 0 means as many as are useful. No result depends on it, so none repeats it.
    #[serde(skip_serializing)]
    #[schemars(range(min = 0, max = 1024))]
    pub threads: usize,
    /// Overrides every machine's base CPI: cycles per instruction, measured by you.
    #[schemars(range(min = 0.01, max = 100_000.0))]
    pub base_cpi: Option<f64>,
    /// The share of walk cycles that would be saved were the walks gone, in place of the window model.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub savable: Option<f64>,
    /// Time by a core in time ([`CoreDesc::timing`](super::CoreDesc)), with data and code in the caches, rather than by
    /// the base CPI.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub timing: bool,
    /// With `timing`: only samples of the run are run in time, and stand for all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// Overrides the seed of memory's random placement.
    #[schemars(range(min = 0, max = i64::MAX))]
    pub seed: Option<u64>,
    /// Traces of further virtual machines beside the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vms: Vec<String>,
    /// References each virtual machine makes before it is the next one's turn, where there are several.
    #[schemars(range(min = 1, max = i64::MAX))]
    pub quantum: Option<u64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A value that no source states, and why it is what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Assumption {
    /// The table it is in, such as `tlb.STLB`.
    #[serde(rename = "where")]
    pub place: String,
    /// The key.
    pub key: String,
    /// Its value, as TOML.
    pub value: String,
    /// The reason.
    pub reason: String,
}

/// One machine under one policy, every value known: what a result is a result of.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Resolved {
    /// The machine.
    pub machine: MachineDesc,
    /// The policy; in virtual machines, the guests'.
    pub policy: PolicyDesc,
    /// The policy of the host, where there are virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_policy: Option<PolicyDesc>,
    /// The options.
    pub options: Options,
    /// The assignments that were made.
    pub set: Vec<String>,
    /// Everything assumed.
    pub assumptions: Vec<Assumption>,
}

/// What is run on what, by name in the directories or by path.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The machine.
    pub machine: &'a str,
    /// The policy of the kernel that programs run on.
    pub policy: &'a str,
    /// The policy of the host below virtual machines; [`HOST_POLICY`] if none is named.
    pub host_policy: Option<&'a str>,
}

/// The policy of a host that is told none.
pub const HOST_POLICY: &str = "linux-4k";

/// Reads machine and policies, applies the assignments (keys of the machine; `policy.KEY` for the policy's,
/// `host_policy.KEY` for the host's) and the options.
///
/// # Errors
/// What cannot be read or does not fit together, with the place and the remedy.
pub fn resolve(
    names: Names,
    set: &[String],
    options: &Options,
    machine_dirs: &[PathBuf],
    policy_dirs: &[PathBuf],
) -> Result<Resolved, DescribeError> {
    let of = |prefix: &str| -> Vec<String> {
        set.iter().filter_map(|s| s.strip_prefix(prefix)).map(str::to_owned).collect()
    };
    let (for_policy, for_host) = (of("policy."), of("host_policy."));
    let of_machine = |s: &&String| !s.starts_with("policy.") && !s.starts_with("host_policy.");
    let for_machine: Vec<String> = set.iter().filter(of_machine).cloned().collect();
    read::within::<Options>(&value_of(options))
        .map_err(|wrong| DescribeError::Malformed { place: "options of the run".into(), message: wrong.to_string() })?;
    let mut machine: MachineDesc = file("machine", names.machine, machine_dirs, &for_machine)?;
    let policy: PolicyDesc = file("policy", names.policy, policy_dirs, &for_policy)?;
    if machine.guest.is_none() && (names.host_policy.is_some() || !for_host.is_empty() || !options.vms.is_empty()) {
        return Err(DescribeError::Impossible {
            name: machine.name,
            message:
                "a host's policy and further virtual machines need a guest: give --guest-memory SIZE, or a machine \
                      with a [virtual] table"
                    .into(),
        });
    }
    if !options.vms.is_empty() && (options.touched || options.profile) {
        return Err(DescribeError::Impossible {
            name: machine.name,
            message:
                "pages touched and costs by place are kept of one virtual machine: leave out --touched and --profile, \
                      or the further machines"
                    .into(),
        });
    }
    let host_policy: Option<PolicyDesc> = match machine.guest {
        Some(_) => Some(file("policy", names.host_policy.unwrap_or(HOST_POLICY), policy_dirs, &for_host)?),
        None => None,
    };
    if let Some(cpi) = options.base_cpi {
        machine.core.base_cpi = cpi;
        machine.core.assumed.remove("base_cpi");
        machine.core.source = format!("{}; base_cpi given by the user", machine.core.source);
    }
    if let Some(seed) = options.seed {
        machine.memory.seed = seed;
        machine.guest.iter_mut().for_each(|guest| guest.memory.seed = seed);
    }
    check(&machine)?;
    super::timing::check(&machine, options)?;
    let impossible = |key: &str, message| DescribeError::Impossible {
        name: machine.name.clone(),
        message: format!("{key}: {message}"),
    };
    let table = machine.table.clone().complete().map_err(|message| impossible("table", message))?;
    let of_guest = machine.guest.as_ref().map(|guest| guest.table.clone().complete());
    let of_guest = of_guest.transpose().map_err(|message| impossible("virtual.table", message))?;
    machine.table = table;
    walk_caches(&machine).map_err(|message| impossible("walker", message))?;
    if let (Some(guest), Some(table)) = (&mut machine.guest, of_guest) {
        guest.table = table;
    }
    machine.memory.say_aged();
    machine.guest.iter_mut().for_each(|guest| guest.memory.say_aged());
    let mut assumptions = Vec::new();
    gather("", &value_of(&machine), &mut assumptions);
    gather("policy", &value_of(&policy), &mut assumptions);
    if let Some(host_policy) = &host_policy {
        gather("host_policy", &value_of(host_policy), &mut assumptions);
    }
    Ok(Resolved { machine, policy, host_policy, options: options.clone(), set: set.to_vec(), assumptions })
}

impl Resolved {
    /// The same without TLBs, for a trace of misses: every reference walks.
    pub fn without_tlbs(mut self) -> Self {
        self.machine.tlb.clear();
        self.machine.tlb_rules.coalescing = Coalescing::None;
        self
    }

    /// The part the kernel is built from, where programs run on the machine itself.
    pub fn kernel_desc(&self) -> KernelDesc {
        KernelDesc {
            memory: self.machine.memory.clone(),
            policy: self.policy.clone(),
            table: self.machine.table.clone(),
            cpus: self.machine.cpus_apart(),
            asid_bits: self.machine.tlb_rules.asid_bits,
        }
    }
}

fn file<T: serde::de::DeserializeOwned + JsonSchema>(
    what: &'static str,
    name: &str,
    dirs: &[PathBuf],
    set: &[String],
) -> Result<T, DescribeError> {
    let path = find(what, name, dirs)?;
    let text = load(&path)?;
    let place = path.display().to_string();
    // Read once as it stands, so that an error in the file carries its line and column.
    let whole: T = read::text(&text, &place)?;
    if set.is_empty() {
        return Ok(whole);
    }
    let mut table: Table = read::table(&text, &place)?;
    for assignment in set {
        read::set(&mut table, assignment)?;
    }
    let place = format!("{place} with {}", set.iter().map(|s| format!("--set {s}")).collect::<Vec<_>>().join(" "));
    read::typed(table, &place)
}

fn check(machine: &MachineDesc) -> Result<(), DescribeError> {
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
            "core.threads is {}, and tlb_rules.asid_bits 0: entries of two threads in one array could not be told apart; \
             give asid_bits",
            core.threads
        ));
    }
    super::perf::check(machine)?;
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
fn walk_caches(machine: &MachineDesc) -> Result<(), String> {
    let below = machine.guest.iter().flat_map(|guest| guest.cache.iter().map(|cache| (&machine.table, cache)));
    let own = machine.walker.cache.iter().map(|cache| (machine.walked_table(), cache));
    for (table, cache) in own.chain(below).filter(|(_, cache)| cache.entries > 0) {
        let Some(held) = table.kind.guide_levels() else { continue };
        if let Some(level) = cache.levels.iter().find(|level| !held.contains(level)) {
            let name = &cache.name;
            return Err(if held.is_empty() {
                format!("{name}: a hashed table has nothing that walk caches hold: give it 0 entries")
            } else {
                format!(
                    "{name} holds level {level}: caches of an elastic cuckoo table hold its guides: 4 (4K), 5 (2M), 6 (1G)"
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

fn value_of<T: Serialize>(description: &T) -> Value {
    Value::try_from(description).unwrap_or_else(|_| Value::Table(Table::new()))
}

/// Collects the `assumed` maps of every table, with the value each key has.
fn gather(place: &str, value: &Value, into: &mut Vec<Assumption>) {
    match value {
        Value::Table(table) => {
            let reasons: BTreeMap<String, String> =
                table.get("assumed").and_then(|a| a.clone().try_into().ok()).unwrap_or_default();
            for (key, reason) in reasons {
                let value = table.get(&key).map(ToString::to_string).unwrap_or_default();
                into.push(Assumption { place: place.to_owned(), key, value, reason });
            }
            for (key, inner) in table.iter().filter(|(k, _)| *k != "assumed") {
                let below = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                gather(&below, inner, into);
            }
        }
        Value::Array(entries) => {
            for entry in entries {
                let name = entry.get("name").and_then(Value::as_str).unwrap_or("?");
                gather(&format!("{place}.{name}"), entry, into);
            }
        }
        _ => {}
    }
}
