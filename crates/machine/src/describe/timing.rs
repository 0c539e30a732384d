//! Whether a machine can be run in time (`--timing`), as it is described.

use super::{
    machine::MachineDesc,
    options::{Check, Options},
};
use mmulab_describe::DescribeError;

/// Refuses what a core in time is not modelled for, with the remedy.
pub fn check(machine: &MachineDesc, options: &Options) -> Result<(), DescribeError> {
    let bad = |message: String| Err(DescribeError::Impossible { name: machine.name.clone(), message });
    if !options.timing {
        return match options.sample {
            Some(_) => bad("samples are of time by a core in time: give --timing too".into()),
            None => Ok(()),
        };
    }
    if let Some(sample) = options.sample.filter(|s| u64::from(s.length) + u64::from(s.warm) >= s.period()) {
        return bad(format!(
            "samples of {} instructions with {} before each do not fit in {}: take fewer of them",
            sample.length,
            sample.warm,
            sample.period()
        ));
    }
    if machine.core.timing.is_none() {
        let what = "it has no core.timing, which says how its cores keep instructions in flight: leave out --timing, \
                    or run a machine that has it";
        return bad(what.into());
    }
    let unfit = [
        (machine.gpu.is_some(), "shader cores"),
        (machine.core.threads > 1, "hardware threads (core.threads)"),
        (machine.shares(), "TLB arrays or walkers that cores share"),
        (options.check != Check::None, "runs with --check"),
        (options.savable.is_some(), "a savable share of walk cycles"),
    ];
    match unfit.into_iter().find(|(is_so, _)| *is_so) {
        Some((_, what)) => bad(format!("time by a core in time is not modelled for {what}: leave out --timing")),
        None => Ok(()),
    }
}
