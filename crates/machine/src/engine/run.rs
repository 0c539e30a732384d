//! The loop over a batch: references by the execution, control words here.

use super::{below::Below, execution::Execution, parts::Engine};
use crate::{ended::Ended, observe::Observe};
use mmulab_trace::{Batch, Event, Item};

impl<B: Below, X: Execution> Engine<B, X> {
    /// Runs a batch.
    pub fn run<O: Observe>(&mut self, batch: &Batch, obs: &mut O) -> Result<(), Ended> {
        let mut at = 0;
        self.note_stores(batch, at);
        while at < batch.refs.len() {
            at = X::run_references(self, batch, at, obs)?;
            if at < batch.refs.len() {
                self.execution.end_instruction(&mut self.state);
                match batch.refs[at].item() {
                    Item::Event(index) => {
                        self.event(&batch.events[index], obs)?;
                        self.note_stores(batch, at + 1);
                        if let Some(Event::Switch { tid, .. }) = batch.events.get(index + 1) {
                            self.execution.prefetch(&self.state, *tid);
                        }
                    }
                    Item::Retire(count) => self.state.cpu().begin(count),
                    Item::Code(_) => {}
                    Item::Access(..) => unreachable!("references are run up to a control word"),
                }
                at += 1;
            }
        }
        Ok(())
    }
}
