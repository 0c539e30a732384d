//! The demotion parts, a file each. The list of the files makes the key of policy files, its text in the schema and the
//! enum of a run's part (`parts/list.rs`).

use crate::parts::list::kind;
use crate::parts::traits::Demotion;
use mmulab_addr::PageOrder;
use mmulab_pagetable::Leaf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

include!(concat!(env!("OUT_DIR"), "/demotion.rs"));

with_parts!(kind! {
    /// When a larger page is taken apart.
    DemotionKind: Needed;
    /// The demotion part of a run.
    #[derive(Clone, Debug)]
    Demotions: ();
});

impl Demotion for Demotions {
    #[inline]
    fn at_store(&self, leaf: &Leaf, base: PageOrder) -> bool {
        each!(self, part => part.at_store(leaf, base))
    }
}

/// Demotion of larger pages.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DemotionDesc {
    /// When: `needed` or `store`. Default `needed`.
    pub when: DemotionKind,
}
