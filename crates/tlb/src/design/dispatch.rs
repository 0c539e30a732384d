//! Code that follows from the list of designs: the description of each design, its builder, and the static dispatch
//! among designs with a storage of their own.

use super::{About, Built, Change, Design, FillInput, Line, Plan, Storage};
use crate::{CoalescingCounts, Entry, key::Value, pages::Slot};
use mmulab_addr::{Asid, PageOrder, Vpn};

/// An array as its design built it, with the storage among those of all designs.
macro_rules! built {
    ($built:expr, $variant:ident) => {
        $built.with_own(|none| match none {})
    };
    ($built:expr, $variant:ident, $own:ident) => {
        $built.with_own(OwnStorage::$variant)
    };
}

macro_rules! dispatch {
    ($first:ident = $first_file:ident; $($variant:ident = $file:ident $(:: $own:ident)?;)*) => {
        impl Design {
            /// Description of the design.
            pub const fn about(self) -> &'static About {
                match self {
                    Self::$first => &super::$first_file::ABOUT,
                    $(Self::$variant => &super::$file::ABOUT,)*
                }
            }

            /// Builds an array, or refuses what is impossible about it and says what to do.
            pub(crate) fn build(self, plan: &Plan) -> Result<Built<OwnStorage>, String> {
                Ok(match self {
                    Self::$first => built!(super::$first_file::build(plan)?, $first),
                    $(Self::$variant => built!(super::$file::build(plan)?, $variant $(, $own)?),)*
                })
            }
        }

        /// The entries of an array whose design has a storage of its own.
        pub enum OwnStorage {
            $($($variant(super::$file::$own),)?)*
        }

        /// The method of whichever storage it is.
        impl Storage for OwnStorage {
            #[inline(never)]
            fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
                match self {
                    $($(Self::$variant(own) => super::$file::$own::hit(own, asid, vpn),)?)*
                }
            }

            fn hit_size(&mut self, asid: Asid, vpn: Vpn, size: usize) -> Option<Slot> {
                match self {
                    $($(Self::$variant(own) => super::$file::$own::hit_size(own, asid, vpn, size),)?)*
                }
            }

            #[inline(never)]
            fn read(&self, slot: Slot, vpn: Vpn) -> (Value, PageOrder) {
                match self {
                    $($(Self::$variant(own) => super::$file::$own::read(own, slot, vpn),)?)*
                }
            }

            fn put(
                &mut self,
                asid: Asid,
                vpn: Vpn,
                input: FillInput,
                tell: impl FnMut(Change, Asid, &Entry),
            ) -> Slot {
                match self {
                    $($(Self::$variant(own) => super::$file::$own::put(own, asid, vpn, input, tell),)?)*
                }
            }

            fn line(&self, at: u32, vpn: Vpn) -> Option<Line> {
                match self {
                    $($(Self::$variant(own) => super::$file::$own::line(own, at, vpn),)?)*
                }
            }

            fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
                match self {
                    $($(Self::$variant(own) => super::$file::$own::set_dirty(own, asid, vpn),)?)*
                }
            }

            fn drop_space(&mut self, asid: Option<Asid>, tell: impl FnMut(Change, Asid, &Entry)) {
                match self {
                    $($(Self::$variant(own) => super::$file::$own::drop_space(own, asid, tell),)?)*
                }
            }

            fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, tell: impl FnMut(Change, Asid, &Entry)) {
                match self {
                    $($(Self::$variant(own) => super::$file::$own::drop_range(own, asid, first, pages, tell),)?)*
                }
            }

            fn all(&self, tell: impl FnMut(Asid, &Entry)) {
                match self {
                    $($(Self::$variant(own) => super::$file::$own::all(own, tell),)?)*
                }
            }

            fn traffic(&self) -> [u64; 3] {
                match self {
                    $($(Self::$variant(own) => super::$file::$own::traffic(own),)?)*
                }
            }

            fn coalescing(&self) -> Option<CoalescingCounts> {
                match self {
                    $($(Self::$variant(own) => super::$file::$own::coalescing(own),)?)*
                }
            }
        }
    };
}

designs!(dispatch);

/// The names of the designs of which `is` is true, as a message lists them.
pub fn names(is: impl Fn(&About) -> bool) -> String {
    let names: Vec<&str> = Design::ALL.iter().map(|d| d.about()).filter(|about| is(about)).map(|a| a.name).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}
