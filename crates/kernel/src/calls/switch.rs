//! The switch of a process for the policy's daemon, as prctl(2) would have it. With `promotion.serves = "enabled"`, the
//! daemon serves the processes that turned it on. khugepaged's scan serves the others.
//!
//! Elastic Translations and HawkEye have the switch in paper 3's artifact (cslab-ntua/etutils-rs, src/prctl.rs: `--et`,
//! `--hwk`). A tool sets it and then executes the program. So exec keeps it, as it keeps PR_SET_THP_DISABLE (prctl(2)).

use crate::kernel::Kernel;
use crate::manager::Manager;
use crate::report::counts::{EventError, EventKind};

impl Kernel {
    /// The process in `slot` turns the daemon on or off. A policy whose daemon has no switch refuses, as prctl(2)
    /// refuses an option that it does not know.
    pub(crate) fn prctl(&mut self, slot: usize, daemon: bool) -> Result<(), EventError> {
        if self.manager.switched_on_at_start().is_none() {
            return Err(EventError::Invalid);
        }
        self.shared.counts.events.add(EventKind::Prctl, 1);
        if let Some(space) = &mut self.spaces[slot] {
            space.is_switched_on = daemon;
        }
        Ok(())
    }
}
