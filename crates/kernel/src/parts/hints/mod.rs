//! The parts that give hints about larger pages, a file each, and the one list of them: it makes the key of policy
//! files, the schema, and the dispatch.

mod madvise;
mod nobody;

use crate::parts::traits::Hints;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Makes the enum of the givers of hints out of a list: variant, name in policy files, module.
macro_rules! hints {
    ($($(#[$about:meta])* $part:ident = $name:literal in $module:ident,)*) => {
        /// Who says where larger pages are worth while.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        pub enum HintSource {
            $($(#[$about])* #[serde(rename = $name)] $part,)*
        }

        impl HintSource {
            /// Its name in policy files.
            pub fn name(self) -> &'static str {
                match self { $(Self::$part => $name),* }
            }
        }

        impl Hints for HintSource {
            fn obeys_program(&self) -> bool {
                match self { $(Self::$part => $module::$part.obeys_program()),* }
            }
        }
    };
}

hints! {
    /// The program, by MADV_HUGEPAGE, MADV_NOHUGEPAGE and MADV_COLLAPSE.
    #[default]
    Madvise = "madvise" in madvise,
    /// Nobody: such advice is ignored.
    Nobody = "none" in nobody,
}

/// Hints about larger pages.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HintsDesc {
    /// Who gives them: `madvise` or `none`. Default `madvise`.
    pub from: HintSource,
}
