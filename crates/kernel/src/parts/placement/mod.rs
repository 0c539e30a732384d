//! The placement parts, a file each, and the one list of them: it makes the key of policy files, the schema, and the
//! dispatch.

mod buddy;
mod ca;
mod coala;
mod neighbour;
mod reservation;

pub(crate) use buddy::Buddy;
pub(crate) use ca::Ca;
pub(crate) use coala::Coala;
pub(crate) use neighbour::Neighbour;
pub(crate) use reservation::Reservation;

use crate::parts::traits::Placement;
use crate::ranges::Span;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx};
use mmulab_addr::{PageOrder, Pfn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Makes the enums of the placement parts out of a list: variant, name in policy files, module.
macro_rules! placements {
    ($($(#[$about:meta])* $part:ident = $name:literal in $module:ident,)*) => {
        /// How frames are chosen.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        pub enum PlacementKind {
            $($(#[$about])* #[serde(rename = $name)] $part,)*
        }

        impl PlacementKind {
            /// Its name in policy files.
            pub fn name(self) -> &'static str {
                match self { $(Self::$part => $name),* }
            }
        }

        /// The placement part of a run.
        #[derive(Clone, Debug)]
        pub(crate) enum Placements {
            $($part($part),)*
        }

        impl From<PlacementKind> for Placements {
            fn from(kind: PlacementKind) -> Self {
                match kind { $(PlacementKind::$part => Self::$part($part),)* }
            }
        }

        impl Placement for Placements {
            #[inline]
            fn take(
                &self,
                space: &mut AddressSpace,
                cx: &mut Cx,
                span: &Span<Vma>,
                at: u64,
                order: PageOrder,
            ) -> Option<Pfn> {
                match self { $(Self::$part(part) => part.take(space, cx, span, at, order),)* }
            }
        }
    };
}

placements! {
    /// The frames that the allocator gives.
    #[default]
    Buddy = "buddy" in buddy,
    /// The page's own place in an aligned block that is reserved for its surroundings.
    Reservation = "reservation" in reservation,
    /// The frame beside that of a neighbouring page, if it is free.
    Neighbour = "neighbour" in neighbour,
    /// The frame at the offset of the mapping, which is placed in a free region as a whole: CA paging.
    Ca = "ca" in ca,
    /// The frame at the page's own place in the aligned block of 64 KiB (base pages) or 32 MiB (pages of 2 MiB) that
    /// the other pages of its range lie in: CoalaPaging of Elastic Translations.
    Coala = "coala" in coala,
}
