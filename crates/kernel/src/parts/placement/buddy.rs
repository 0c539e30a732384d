//! Placement *buddy*: the frames that the allocator gives, wherever they lie.

use crate::parts::part::{Part, Wrong};
use crate::parts::traits::Placement;
use crate::ranges::Span;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx};
use mmulab_addr::{PageOrder, Pfn};

/// The allocator's own choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buddy;

impl Part for Buddy {
    const NAME: &'static str = "buddy";
    const ABOUT: &'static str = "The frames that the allocator gives.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Placement for Buddy {
    #[inline]
    fn take(&self, _: &mut AddressSpace, cx: &mut Cx, _: &Span<Vma>, _: u64, order: PageOrder) -> Option<Pfn> {
        cx.memory.take_anon(order)
    }
}
