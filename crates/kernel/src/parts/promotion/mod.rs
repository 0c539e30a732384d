//! The promotion parts, a file each, and the enum that dispatches to the one of a run. A daemon that promotes is the
//! memory manager's, for it works on the whole system.

mod in_place;

pub(crate) use in_place::InPlace;

use crate::FaultError;
use crate::parts::traits::Promotion;
use crate::space::{AddressSpace, Cx};
use mmulab_addr::PageOrder;

/// The promotion part of a run.
#[derive(Clone, Debug)]
pub(crate) enum Promotions {
    /// Faults promote nothing.
    Never,
    /// Pages of a reservation become a larger page in place.
    InPlace(InPlace),
}

impl Promotions {
    /// Whether faults can promote.
    pub fn is_on(&self) -> bool {
        match self {
            Self::Never => false,
            Self::InPlace(_) => true,
        }
    }
}

impl Promotion for Promotions {
    #[inline]
    fn promote(&self, space: &mut AddressSpace, cx: &mut Cx, at: u64) -> Result<Option<PageOrder>, FaultError> {
        match self {
            Self::Never => Ok(None),
            Self::InPlace(part) => part.promote(space, cx, at),
        }
    }
}
