//! The daemons that make larger pages on simulated time, a file each. The list of the files makes the key of policy
//! files, its text in the schema and the enum of a run's part (`parts/list.rs`). Code shared by daemons that scan is in
//! `scan/`.

mod scan;

use crate::KernelError;
use crate::parts::list::kind;
use crate::parts::settings::{DaemonSettings, Served};
use crate::parts::traits::{Daemon, Declare, Declares};
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;

pub(crate) use scan::mthp::SMALLEST_BLOCK;

include!(concat!(env!("OUT_DIR"), "/daemon.rs"));

with_parts!(kind! {
    /// Which daemon makes larger pages.
    DaemonKind: Khugepaged;
    /// The daemon of a run.
    #[derive(Debug)]
    Daemons: DaemonSettings<'_>;
});

/// Declarations of the daemon of a kind.
macro_rules! declares {
    ([$($module:ident::$Part:ident,)*] $kind:expr, $served:expr) => {
        match $kind { $(DaemonKind::$Part => <$module::$Part as Declare>::declares($served),)* }
    };
}

impl DaemonKind {
    /// Declarations of a policy with this daemon, for the table of policies.
    pub(crate) fn declares(self, served: Served) -> Declares {
        with_parts!(declares! { self, served })
    }
}

impl Daemon for Daemons {
    fn wants_stores(&self) -> bool {
        each!(self, part => part.wants_stores())
    }

    #[inline]
    fn wakes_at(&self) -> u64 {
        each!(self, part => part.wakes_at())
    }

    fn wake(&mut self, system: &mut SystemCx, compaction: &mut Compaction, now_ns: u64) -> Result<(), KernelError> {
        each!(self, part => part.wake(system, compaction, now_ns))
    }
}
