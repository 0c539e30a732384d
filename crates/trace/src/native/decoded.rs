use crate::{Batch, Source, TraceError, TraceInfo};
use std::{
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::JoinHandle,
};

/// Batches that are on the way or being used: enough to smooth over uneven speeds, small enough for a shared cache.
const IN_FLIGHT: usize = 4;

/// A batch and the progress after it, or an error and the batch before it.
type Told = Result<(Batch, Option<f64>), (TraceError, Batch)>;

/// A source that is read in a thread of its own, ahead of whoever takes its batches.
///
/// The batches and their order are those of the source it wraps.
pub struct Decoded {
    info: TraceInfo,
    /// `None` once the source ended.
    full: Option<Receiver<Told>>,
    empty: Option<SyncSender<Batch>>,
    thread: Option<JoinHandle<()>>,
    progress: Option<f64>,
}

impl Decoded {
    /// Starts reading `source`.
    pub fn new(mut source: impl Source + 'static) -> Self {
        let info = source.info().clone();
        let (to_user, full) = sync_channel(IN_FLIGHT);
        let (empty, from_user) = sync_channel::<Batch>(IN_FLIGHT + 2);
        for _ in 0..IN_FLIGHT {
            // The channel has room for all: this never waits.
            let _ = empty.send(Batch::default());
        }
        let thread = std::thread::spawn(move || {
            while let Ok(mut batch) = from_user.recv() {
                let told = match source.next_batch(&mut batch) {
                    Ok(true) => Ok((batch, source.progress())),
                    Ok(false) => break,
                    Err(error) => Err((error, batch)),
                };
                let last = told.is_err();
                if to_user.send(told).is_err() || last {
                    break;
                }
            }
        });
        Self { info, full: Some(full), empty: Some(empty), thread: Some(thread), progress: None }
    }
}

impl Source for Decoded {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        let Some(full) = &self.full else { return Ok(false) };
        match full.recv() {
            Ok(Ok((next, progress))) => {
                self.progress = progress;
                let used = std::mem::replace(batch, next);
                if let Some(empty) = &self.empty {
                    // The reading thread may have ended: then nobody needs the memory.
                    let _ = empty.try_send(used);
                }
                Ok(true)
            }
            Ok(Err((error, partial))) => {
                *batch = partial;
                self.full = None;
                Err(error)
            }
            Err(_) => {
                self.full = None;
                Ok(false)
            }
        }
    }

    fn progress(&self) -> Option<f64> {
        self.progress
    }
}

impl Drop for Decoded {
    fn drop(&mut self) {
        // With both ends gone the thread's next send or receive fails, and it ends.
        self.full = None;
        self.empty = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
