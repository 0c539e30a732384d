//! Where counts begin, pause and end, and what was counted in between.

use super::{below::Below, execution::Execution, parts::Engine, state::Paused};
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
        self.go_on_counting(&mut NoObserver);
        self.close_process();
        self.below.enter(&mut self.state, 0);
        self.complete_walks(&mut NoObserver);
    }

    /// All that was begun is over, so that counts before and after it are apart.
    fn settle<O: Observe>(&mut self, obs: &mut O) {
        self.execution.end_instruction(&mut self.state);
        // What a walk in flight brings is counted when it ends, and its miss when it began.
        self.complete_walks(obs);
        self.close_process();
    }

    /// Nothing is counted from here on, until [`Self::go_on_counting`].
    #[cold]
    pub fn pause<O: Observe>(&mut self, obs: &mut O) {
        if self.state.account.paused.is_some() {
            return;
        }
        self.settle(obs);
        let (counted, costs) = (self.counted(), self.state.take_costs());
        self.state.account.paused = Some(Box::new(Paused { counted, costs }));
    }

    /// Counts go on from what they were when they paused.
    #[cold]
    pub fn go_on_counting<O: Observe>(&mut self, obs: &mut O) {
        let Some(paused) = self.state.account.paused.take() else { return };
        self.settle(obs);
        let Paused { counted, costs } = *paused;
        self.state.put_costs(costs);
        // Without what was counted before the pause, it is what does not count.
        let mut uncounted = self.counted_ever();
        uncounted.since(&counted);
        self.state.account.uncounted = Some(Box::new(uncounted));
    }

    /// Counts begin here.
    #[cold]
    pub fn resume<O: Observe>(&mut self, obs: &mut O) {
        self.settle(obs);
        self.state.restart_costs();
        self.below.restart_costs(&self.state.desc.options);
        self.execution.restart(&self.state);
        self.state.account.uncounted = Some(Box::new(self.counted_ever()));
    }
}
