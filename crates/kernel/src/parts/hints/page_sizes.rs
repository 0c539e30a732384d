//! Hints *of page sizes*: the extended madvise(2) of Elastic Translations names a size for a range (paper 3, section
//! IV-D). The effect of Linux's own advice stays the same.

use crate::parts::part::{Part, Wrong};
use crate::parts::traits::Hints;

/// The program, or a profiler on its behalf, names page sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSizes;

impl Part for PageSizes {
    const NAME: &'static str = "page-sizes";
    const ABOUT: &'static str = "The program or a profiler, by the extended madvise of Elastic Translations, which \
         names the page size that a range should be translated by. Linux's own advice is obeyed, too.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Hints for PageSizes {
    fn obeys_program(&self) -> bool {
        true
    }

    fn takes_sizes(&self) -> bool {
        true
    }
}
