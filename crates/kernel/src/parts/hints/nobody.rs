//! Hints *of nobody*: advice about larger pages is taken and has no effect.

use crate::parts::traits::Hints;

/// Nobody gives hints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nobody;

impl Hints for Nobody {
    fn obeys_program(&self) -> bool {
        false
    }
}
