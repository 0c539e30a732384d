//! Page sizes that a measured region asks for.

use serde::{Deserialize, Serialize};

/// The pages that a region asks the kernel for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backing {
    /// Base pages, whatever the system's setting (MADV_NOHUGEPAGE).
    #[serde(rename = "4K")]
    Small,
    /// 2 MB pages (MADV_HUGEPAGE, then MADV_COLLAPSE for what did not become one).
    #[serde(rename = "2M")]
    Large,
}
