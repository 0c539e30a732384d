//! Frames that others than the program had in use when it began, where memory is aged: the kernel's, and pages of
//! files.

use std::collections::VecDeque;

/// Runs of frames, ascending.
#[derive(Default)]
pub struct Held(VecDeque<(u32, u32)>);

impl Held {
    pub fn new(runs: Vec<(u32, u32)>) -> Self {
        Self(runs.into())
    }

    /// Up to `wanted` frames that follow each other, the lowest: first frame and how many.
    pub fn take(&mut self, wanted: u64) -> Option<(u32, u32)> {
        let run = self.0.front_mut()?;
        let taken = (run.0, wanted.min(u64::from(run.1 - run.0)) as u32);
        run.0 += taken.1;
        if run.0 == run.1 {
            self.0.pop_front();
        }
        Some(taken)
    }

    /// The same, out of the lowest run that has room for all, if one has: a file's pages lay together in guests.
    pub fn take_together(&mut self, wanted: u64) -> Option<(u32, u32)> {
        match self.0.iter_mut().find(|run| u64::from(run.1 - run.0) > wanted) {
            Some(run) => {
                run.0 += wanted as u32;
                Some((run.0 - wanted as u32, wanted as u32))
            }
            None => self.take(wanted),
        }
    }
}
