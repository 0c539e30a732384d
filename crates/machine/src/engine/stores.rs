//! Stores reported to kernels that look for pages of zeros: which base pages a stretch of references stores to.
//!
//! The engine asks once for each batch and once after each event whether the kernel wants to know. The loop over
//! references does no work for it. The kernel learns of a stretch before that runs. So a daemon which wakes within
//! it takes pages for stored to that are stored to a little later.

use super::{below::Below, execution::Execution, parts::Engine};
use mmulab_addr::Access;
use mmulab_trace::{Batch, Item};

impl<B: Below, X: Execution> Engine<B, X> {
    /// Reports the stores from word `from` of a batch up to the next event, if the kernel of the acting process wants
    /// to know.
    #[inline]
    pub(super) fn note_stores(&mut self, batch: &Batch, from: usize) {
        if self.state.system.kernel.wants_stores() {
            self.report_stores(batch, from);
        }
    }

    #[cold]
    fn report_stores(&mut self, batch: &Batch, from: usize) {
        let pid = self.state.acting.actor.pid;
        let items = batch.refs[from..].iter().map(|word| word.item());
        let stretch = items.take_while(|item| !matches!(item, Item::Event(_)));
        let stores = stretch.filter_map(|item| match item {
            Item::Access(Access::Write, va, _) => Some(va),
            Item::Access(..) | Item::Retire(_) | Item::Code(_) | Item::Event(_) => None,
        });
        self.state.system.kernel.note_stores(pid, stores);
    }
}
