//! Where counts begin and where they end, and what was counted in between.

use super::{below::Below, execution::Execution, parts::Engine};
use crate::{
    count::{Counted, Since},
    observe::{NoObserver, Observe},
};

impl<B: Below, X: Execution> Engine<B, X> {
    /// All counters since the machine was built.
    fn counted_ever(&mut self) -> Counted {
        let mut all = self.state.counted();
        self.execution.count(&self.state, &mut all);
        self.below.count(&self.state, &mut all);
        all
    }

    /// All counters since counts began.
    pub fn counted(&mut self) -> Counted {
        let mut all = self.counted_ever();
        if let Some(before) = &self.state.account.uncounted {
            all.since(before);
        }
        all
    }

    /// Completes all walks in flight.
    pub fn complete_walks<O: Observe>(&mut self, obs: &mut O) {
        self.execution.complete_all(&mut self.state, obs);
    }

    /// The run is over: the acting process gets its counts, the first system runs again, and walks in flight complete.
    pub fn close(&mut self) {
        self.close_process();
        self.below.enter(&mut self.state, 0);
        self.complete_walks(&mut NoObserver);
    }

    /// Counts begin here.
    #[cold]
    pub fn resume<O: Observe>(&mut self, obs: &mut O) {
        self.execution.end_instruction(&mut self.state);
        // What a walk in flight brings is counted when it ends, and its miss when it began.
        self.complete_walks(obs);
        self.close_process();
        self.state.restart_costs();
        self.below.restart_costs(&self.state.desc.options);
        self.execution.restart(&self.state);
        self.state.account.uncounted = Some(Box::new(self.counted_ever()));
    }
}
