//! The `reshape.image` table: linker, maximum page size, and the window of addresses for files that are laid out anew.

use mmulab_addr::{BASE_BYTES, PageOrder, parse_bytes};
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
    /// The first of the 64 GiB of addresses that files laid out anew are mapped at; the recorded program must have
    /// nothing there. Default: `0x3000000000`, which lies above programs that are linked to a fixed place, their heaps,
    /// and the low memory that run-time systems ask for, below where QEMU maps what a program asks for, and under the
    /// same entry of the upper tables as both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
}

/// Where the window begins by default: 192 GiB.
const WINDOW: u64 = 0x30_0000_0000;
/// Its bytes: what is below 0x4000000000, where QEMU's user mode begins to map (its TASK_UNMAPPED_BASE).
pub const WINDOW_BYTES: u64 = 64 << 30;
/// The end of what 48-bit addresses leave to programs.
const USER_END: u64 = 1 << 47;

impl ImageDesc {
    /// The maxpagesize, in bytes.
    pub fn max_page_size(&self) -> u64 {
        self.max_page_size.map_or(self.linker.default_max_page_size(), PageOrder::bytes)
    }

    /// The first address of the window, if it is one.
    pub fn checked_window(&self) -> Option<u64> {
        let Some(text) = &self.window else { return Some(WINDOW) };
        parse_bytes(text).filter(|at| at % BASE_BYTES == 0 && (BASE_BYTES..=USER_END - WINDOW_BYTES).contains(at))
    }

    /// The first address of the window.
    pub fn window_start(&self) -> u64 {
        self.checked_window().unwrap_or(WINDOW)
    }
}
