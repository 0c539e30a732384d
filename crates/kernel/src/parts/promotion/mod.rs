//! The parts that promote at faults, a file each. The list of the files makes the key of policy files, its text in the
//! schema and the enum of a run's part (`parts/list.rs`). A daemon that promotes is a part of another kind, for it
//! works on the whole system.

use crate::FaultError;
use crate::parts::list::kind;
use crate::parts::settings::PromotionSettings;
use crate::parts::traits::Promotion;
use crate::space::{AddressSpace, Cx};
use mmulab_addr::PageOrder;

include!(concat!(env!("OUT_DIR"), "/promotion.rs"));

with_parts!(kind! {
    /// How base pages become a larger page.
    PromotionKind: ByDaemon;
    /// The promotion part of a run.
    #[derive(Clone, Debug)]
    Promotions: PromotionSettings;
});

impl Promotion for Promotions {
    fn is_on(&self) -> bool {
        each!(self, part => part.is_on())
    }

    #[inline]
    fn promote(&self, space: &mut AddressSpace, cx: &mut Cx, at: u64) -> Result<Option<PageOrder>, FaultError> {
        each!(self, part => part.promote(space, cx, at))
    }
}
