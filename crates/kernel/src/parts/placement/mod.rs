//! The placement parts, a file each. The list of the files makes the key of policy files, its text in the schema and
//! the enum of a run's part (`parts/list.rs`).

use crate::parts::list::kind;
use crate::parts::traits::Placement;
use crate::ranges::Span;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx};
use mmulab_addr::{PageOrder, Pfn};

include!(concat!(env!("OUT_DIR"), "/placement.rs"));

with_parts!(kind! {
    /// How frames are chosen.
    PlacementKind: Buddy;
    /// The placement part of a run.
    #[derive(Clone, Debug)]
    Placements: ();
});

impl Placement for Placements {
    #[inline]
    fn take(&self, space: &mut AddressSpace, cx: &mut Cx, span: &Span<Vma>, at: u64, order: PageOrder) -> Option<Pfn> {
        each!(self, part => part.take(space, cx, span, at, order))
    }
}
