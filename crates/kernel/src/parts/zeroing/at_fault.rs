//! Zeroing *at the fault*: who touches a page first waits until it is cleared, as in Linux and FreeBSD.

use super::pace::Pace;
use crate::WorkKind;
use crate::parts::traits::Zeroing;
use crate::space::Cx;
use mmulab_addr::{PageOrder, Pfn};

/// The fault clears its page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AtFault;

impl AtFault {
    pub fn new(_: Pace) -> Self {
        Self
    }
}

impl Zeroing for AtFault {
    #[inline]
    fn zero(&self, cx: &mut Cx, _: Pfn, order: PageOrder) {
        cx.work(WorkKind::ZeroBytes, order.bytes());
    }
}
