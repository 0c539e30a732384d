//! Hints *of the program*: MADV_HUGEPAGE, MADV_NOHUGEPAGE and MADV_COLLAPSE are obeyed, as in Linux.

use crate::parts::part::{Part, Wrong};
use crate::parts::traits::Hints;

/// The program gives hints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Madvise;

impl Part for Madvise {
    const NAME: &'static str = "madvise";
    const ABOUT: &'static str = "The program, by MADV_HUGEPAGE, MADV_NOHUGEPAGE and MADV_COLLAPSE.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Hints for Madvise {
    fn obeys_program(&self) -> bool {
        true
    }
}
