//! Hints *of the program*: MADV_HUGEPAGE, MADV_NOHUGEPAGE and MADV_COLLAPSE are obeyed, as in Linux.

use crate::parts::traits::Hints;

/// The program gives hints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Madvise;

impl Hints for Madvise {
    fn obeys_program(&self) -> bool {
        true
    }
}
