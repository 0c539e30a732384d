//! Hints *of page sizes*: the extended madvise(2) of Elastic Translations names a size for a range (paper 3, section
//! IV-D). What Linux's own advice does stays as it is.

use crate::parts::traits::Hints;

/// The program, or a profiler on its behalf, names page sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSizes;

impl Hints for PageSizes {
    fn obeys_program(&self) -> bool {
        true
    }

    fn takes_sizes(&self) -> bool {
        true
    }
}
