//! The keys of recovery from bloat. They have a file of their own because the description of promotion contains them
//! and the settings of daemons repeat them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Recovery from bloat: while memory is short, the daemon takes huge pages apart and gives back their base pages of
/// zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecoveryDesc {
    /// The high watermark: recovery begins once more of memory than this is used, in percent. Default 85.
    #[schemars(range(max = 100))]
    pub above_percent: u8,
    /// The low watermark: recovery ends once no more of memory than this is used, in percent. At most
    /// `above_percent`. Default 70.
    #[schemars(range(max = 100))]
    pub below_percent: u8,
    /// Base pages of zeros for which a huge page is taken apart, of its 512. Default 1.
    #[schemars(range(min = 1, max = 512))]
    pub zero_pages: u32,
}

impl Default for RecoveryDesc {
    /// As HawkEye has them.
    fn default() -> Self {
        Self { above_percent: 85, below_percent: 70, zero_pages: 1 }
    }
}
