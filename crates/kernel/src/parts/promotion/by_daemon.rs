//! Promotion *by copy*: faults promote nothing. If there is a daemon, it copies base pages to a free block.

use crate::FaultError;
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::PromotionSettings;
use crate::parts::traits::Promotion;
use crate::space::{AddressSpace, Cx};
use mmulab_addr::PageOrder;

/// Faults leave base pages as they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByDaemon;

impl Part<PromotionSettings> for ByDaemon {
    const NAME: &'static str = "copy";
    const ABOUT: &'static str = "They are copied to a free block: with `when = \"daemon\"`.";

    fn new(_: &PromotionSettings) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Promotion for ByDaemon {
    fn is_on(&self) -> bool {
        false
    }

    fn promote(&self, _: &mut AddressSpace, _: &mut Cx, _: u64) -> Result<Option<PageOrder>, FaultError> {
        Ok(None)
    }
}
