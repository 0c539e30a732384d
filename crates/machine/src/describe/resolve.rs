//! Resolution of a run's description: machine file, policy files, assignments and options become one checked value.
//! Results repeat the resolved value with all assumptions, so a reader can see every number behind a result.
//!
//! ```text
//! machine file --------------.
//! policy files --------------+--> resolve --> Resolved: machine, policies, options, assignments, assumptions
//! --set KEY=VALUE, options --'
//! ```

use super::{
    assumption::{Assumption, gather, value_of},
    check::{check, walk_caches},
    machine::MachineDesc,
    options::{Check, Options},
    timing,
};
use mmulab_describe::{self as read, DescribeError};
use mmulab_kernel::{HintSource, KernelDesc, PolicyDesc};
use mmulab_tlb::Coalescing;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;

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
    /// Whoever advised the kernel about page sizes in this run, if anybody did: its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adviser: Option<String>,
    /// The options.
    pub options: Options,
    /// The assignments that were made.
    pub set: Vec<String>,
    /// Everything assumed.
    pub assumptions: Vec<Assumption>,
}

/// Machine and policies, by name in the directories or by path.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The machine.
    pub machine: &'a str,
    /// The policy of the kernel that programs run on.
    pub policy: &'a str,
    /// The policy of the host below virtual machines; [`HOST_POLICY`] if none is named.
    pub host_policy: Option<&'a str>,
}

/// The policy of a host if none is given.
pub const HOST_POLICY: &str = "linux-4k";

/// The policy file of a name.
///
/// # Errors
/// A mistake in a file, with the place and the remedy.
pub fn policy(name: &str, dirs: &[PathBuf]) -> Result<PolicyDesc, DescribeError> {
    file("policy", name, dirs, &[])
}

/// Reads machine and policies, applies the assignments (keys of the machine; `policy.KEY` for the policy's,
/// `host_policy.KEY` for the host's) and the options.
///
/// # Errors
/// A mistake in a file, or files that do not fit together, with the place and the remedy.
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
    let mut policy: PolicyDesc = file("policy", names.policy, policy_dirs, &for_policy)?;
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
    let mut host_policy: Option<PolicyDesc> = match machine.guest {
        Some(_) => Some(file("policy", names.host_policy.unwrap_or(HOST_POLICY), policy_dirs, &for_host)?),
        None => None,
    };
    if host_policy.as_ref().is_some_and(|policy| !policy.serves_hosts()) {
        return Err(DescribeError::Impossible {
            name: machine.name,
            message:
                "host_policy: hints.from is \"leshy\", and what it samples are addresses of the guests' programs, \
                      which the host cannot use: give that policy to the guests"
                    .into(),
        });
    }
    let is_profiled = policy.hints.as_ref().is_some_and(|hints| hints.from == HintSource::Leshy);
    if is_profiled && options.check != Check::None {
        return Err(DescribeError::Impossible {
            name: machine.name,
            message: "check: with hints.from = \"leshy\" page sizes follow TLB misses, of which the twin without \
                      coalescing has others: give hints from a file (hints.from = \"page-sizes\"), or leave out --check"
                .into(),
        });
    }
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
    if let Some(ceiling) = machine.shootdown.as_ref().and_then(|shootdown| shootdown.flush_ceiling) {
        let is_free = |prefix: &str| !set.iter().any(|s| s.starts_with(&format!("{prefix}linux.flush_ceiling")));
        let kernels = [(Some(&mut policy), "policy."), (host_policy.as_mut(), "host_policy.")];
        for (kernel, prefix) in kernels {
            if let Some(kernel) = kernel.filter(|_| is_free(prefix)) {
                kernel.default_flush_ceiling(ceiling);
            }
        }
    }
    timing::check(&machine, options)?;
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
    if let Some(sampling) = options.sampling.filter(|sampling| sampling.cycles == 0.0) {
        assumptions.push(Assumption {
            place: "options.sampling".into(),
            key: "cycles".into(),
            value: sampling.cycles.to_string(),
            reason: "no source states what a sample costs the program; 0 leaves its time as it is without samples"
                .into(),
        });
    }
    Ok(Resolved {
        machine,
        policy,
        host_policy,
        adviser: None,
        options: options.clone(),
        set: set.to_vec(),
        assumptions,
    })
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
    read::Whole::read::<T>(what, name, dirs)?.typed(set)
}
