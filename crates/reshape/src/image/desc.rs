use mmulab_addr::PageOrder;
use mmulab_elf::Linker;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How ELF files are laid out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ImageDesc {
    /// The linker. Default: `lld`.
    pub linker: Linker,
    /// Its maxpagesize. Default: the linker's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_page_size: Option<PageOrder>,
}

impl ImageDesc {
    /// The maxpagesize, in bytes.
    pub fn max_page_size(&self) -> u64 {
        self.max_page_size.map_or(self.linker.default_max_page_size(), PageOrder::bytes)
    }
}
