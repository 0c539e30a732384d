//! The daemons that make larger pages on simulated time, a file each, and the one list of them: it makes the key of
//! policy files, the schema, and the dispatch.

mod coala;
mod copy;
mod coverage;
mod hawkeye;
mod ingens;
mod khugepaged;
mod limits;
mod linear;
mod pace;
mod quicksilver;
mod ranger;
mod settings;
mod trident;

pub(crate) use coala::CoalaKhugepaged;
pub(crate) use hawkeye::HawkEye;
pub(crate) use ingens::Ingens;
pub(crate) use khugepaged::Khugepaged;
pub(crate) use quicksilver::Quicksilver;
pub use quicksilver::QuicksilverDesc;
pub(crate) use ranger::Ranger;
pub(crate) use settings::DaemonSettings;
pub use settings::Served;
pub(crate) use trident::Trident;

use crate::KernelError;
use crate::parts::traits::Daemon;
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Makes the enums of the daemons out of a list: variant, name in policy files.
macro_rules! daemons {
    ($($(#[$about:meta])* $part:ident = $name:literal,)*) => {
        /// Which daemon makes larger pages.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        pub enum DaemonKind {
            $($(#[$about])* #[serde(rename = $name)] $part,)*
        }

        impl DaemonKind {
            /// Its name in policy files.
            pub fn name(self) -> &'static str {
                match self { $(Self::$part => $name),* }
            }
        }

        /// The daemon of a run.
        #[derive(Debug)]
        pub(crate) enum Daemons {
            $($part($part),)*
        }

        impl Daemons {
            /// The daemon of a kind.
            ///
            /// # Errors
            /// The key of a value that it cannot have, and why; no key: several.
            pub fn new(kind: DaemonKind, settings: &DaemonSettings) -> Result<Self, (&'static str, String)> {
                match kind { $(DaemonKind::$part => $part::new(settings).map(Self::$part),)* }
            }
        }

        impl Daemon for Daemons {
            #[inline]
            fn wakes_at(&self) -> u64 {
                match self { $(Self::$part(part) => part.wakes_at(),)* }
            }

            fn wake(
                &mut self,
                system: &mut SystemCx,
                compaction: &mut Compaction,
                now_ns: u64,
            ) -> Result<(), KernelError> {
                match self { $(Self::$part(part) => part.wake(system, compaction, now_ns),)* }
            }
        }
    };
}

daemons! {
    /// Linux's: it scans all processes from their lowest address on, and copies base pages into huge pages.
    #[default]
    Khugepaged = "khugepaged",
    /// Ingens': as khugepaged, but where memory is fragmented it promotes only regions of which 90 % are in use.
    Ingens = "ingens",
    /// HawkEye's: it promotes the regions first of which most base pages were accessed of late.
    HawkEye = "hawkeye",
    /// That of Elastic Translations: it promotes to 64K, 2M and 32M, in place where part of a range lies together, in
    /// the order of hints.
    CoalaKhugepaged = "coala-khugepaged",
    /// Trident's: it promotes to 1G where a free 1G can be had or made by smart compaction, else to 2M.
    Trident = "trident",
    /// Translation Ranger's: it brings the pages of a mapping into frames that follow each other, by moves and
    /// exchanges; base pages that fill 2M become one page there.
    Ranger = "ranger",
}
