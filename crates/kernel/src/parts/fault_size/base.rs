//! Fault size *base*: a fault maps a base page.

use crate::parts::part::{Part, Wrong};
use crate::parts::settings::FaultSettings;
use crate::parts::traits::{Candidate, FaultSize, Hole};

/// No size larger than a base page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base;

impl Part<FaultSettings<'_>> for Base {
    const NAME: &'static str = "base";
    const ABOUT: &'static str = "None: a fault maps a base page.";

    fn new(settings: &FaultSettings) -> Result<Self, Wrong> {
        match settings.sizes.is_empty() {
            true => Ok(Self),
            false => Err(("sizes", "by = \"base\" maps base pages only: remove them, or by".into())),
        }
    }
}

impl FaultSize for Base {
    fn sizes(&self) -> usize {
        0
    }

    fn candidate(&self, _: usize, _: &Hole, _: impl Fn(u64, u64) -> bool) -> Candidate {
        Candidate::NotConsidered
    }

    fn ends_family(&self, _: usize) -> bool {
        true
    }
}
