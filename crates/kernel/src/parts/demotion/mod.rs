//! The demotion parts, a file each, and the one list of them: it makes the key of policy files, the schema, and the
//! dispatch.

mod at_store;
mod needed;

pub(crate) use at_store::AtStore;
pub(crate) use needed::Needed;

use crate::parts::traits::Demotion;
use mmulab_pagetable::Leaf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Makes the enum of the demotion parts out of a list: variant, name in policy files, module.
macro_rules! demotions {
    ($($(#[$about:meta])* $part:ident = $name:literal in $module:ident,)*) => {
        /// When a larger page is taken apart.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        pub enum DemotionKind {
            $($(#[$about])* #[serde(rename = $name)] $part,)*
        }

        impl Demotion for DemotionKind {
            #[inline]
            fn at_store(&self, leaf: &Leaf) -> bool {
                match self { $(Self::$part => $part.at_store(leaf)),* }
            }
        }
    };
}

demotions! {
    /// When an operation, such as munmap or mprotect, concerns a part of it alone.
    #[default]
    Needed = "needed" in needed,
    /// Also at the first store to a page that is mapped read-only, such as one promoted while it was clean.
    AtStore = "store" in at_store,
}

/// Demotion of larger pages.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DemotionDesc {
    /// When: `needed` or `store`. Default `needed`.
    pub when: DemotionKind,
}
