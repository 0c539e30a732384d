//! No hints: advice about larger pages is taken and has no effect.

use crate::parts::part::{Part, Wrong};
use crate::parts::traits::Hints;

/// No source of hints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoHints;

impl Part for NoHints {
    const NAME: &'static str = "none";
    const ABOUT: &'static str = "Without hints: advice about larger pages is ignored.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Hints for NoHints {
    fn obeys_program(&self) -> bool {
        false
    }
}
