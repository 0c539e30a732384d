use mmulab_trace::{Batch, Description, EndInfo, Source, TraceError, TraceInfo};

/// What tells the batches of a source otherwise.
pub trait Teller: Send {
    /// The source.
    fn source(&self) -> &dyn Source;
    /// The same, to be read.
    fn source_mut(&mut self) -> &mut dyn Source;
    /// What is known of the trace as it is told.
    fn info(&self) -> &TraceInfo;
    /// Tells otherwise what the source said in `batch`.
    fn tell(&mut self, batch: &mut Batch) -> Result<(), TraceError>;
    /// What a copy says of it beside what a copy of the source would.
    fn describe(&self, _description: &mut Description) {}
}

/// A trace told otherwise. It ends where its source does, or where what it says cannot be told.
pub struct Retold<T> {
    teller: T,
    over: bool,
}

impl<T: Teller> Retold<T> {
    /// What `teller` makes of its source.
    pub fn new(teller: T) -> Self {
        Self { teller, over: false }
    }
}

impl<T: Teller> Source for Retold<T> {
    fn info(&self) -> &TraceInfo {
        self.teller.info()
    }

    fn tell_code(&mut self) -> bool {
        self.teller.source_mut().tell_code()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        if self.over {
            return Ok(false);
        }
        let read = self.teller.source_mut().next_batch(batch);
        let told = self.teller.tell(batch);
        self.over = !matches!((&read, &told), (Ok(true), Ok(())));
        told.and(read)
    }

    fn progress(&self) -> Option<f64> {
        self.teller.source().progress()
    }

    fn description(&self) -> Description {
        let mut description = self.teller.source().description();
        self.teller.describe(&mut description);
        description
    }

    fn end(&self) -> Option<&EndInfo> {
        self.teller.source().end()
    }
}
