//! Zeroing *at the fault*: who touches a page first waits until it is cleared, as in Linux and FreeBSD.

use crate::WorkKind;
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::ZeroingSettings;
use crate::parts::traits::Zeroing;
use crate::space::Cx;
use mmulab_addr::{PageOrder, Pfn};

/// The fault clears its page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AtFault;

impl Part<ZeroingSettings> for AtFault {
    const NAME: &'static str = "fault";
    const ABOUT: &'static str = "By the fault, which waits for it.";

    fn new(_: &ZeroingSettings) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Zeroing for AtFault {
    #[inline]
    fn zero(&self, cx: &mut Cx, _: Pfn, order: PageOrder) {
        cx.work(WorkKind::ZeroBytes, order.bytes());
    }
}
