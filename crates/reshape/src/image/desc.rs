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
    /// same entry of the upper tables as both. With a maxpagesize of 1 GiB, files need 1 TiB, by default from
    /// `0x100000000000` on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
}

/// Addresses that files laid out anew are mapped at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    pub start: u64,
    pub bytes: u64,
}

impl Window {
    /// From 192 GiB to 0x4000000000, where QEMU's user mode begins to map (its TASK_UNMAPPED_BASE).
    const SMALL: Self = Self { start: 0x30_0000_0000, bytes: 64 << 30 };
    /// Room for a few hundred segments, each in 1 GiB of its own: far above what QEMU's user mode maps from below.
    const LARGE: Self = Self { start: 0x1000_0000_0000, bytes: 1 << 40 };

    /// The address behind it.
    pub fn end(self) -> u64 {
        self.start + self.bytes
    }
}

/// The end of what 48-bit addresses leave to programs.
const USER_END: u64 = 1 << 47;

impl ImageDesc {
    /// The maxpagesize, in bytes.
    pub fn max_page_size(&self) -> u64 {
        self.max_page_size.map_or(self.linker.default_max_page_size(), PageOrder::bytes)
    }

    /// The window as it is by default.
    fn usual_window(&self) -> Window {
        if self.max_page_size() < PageOrder::P1G.bytes() { Window::SMALL } else { Window::LARGE }
    }

    /// The window, if the address given can be its first.
    pub fn checked_window(&self) -> Option<Window> {
        let usual = self.usual_window();
        let Some(text) = &self.window else { return Some(usual) };
        let start = parse_bytes(text)?;
        let fits = start % BASE_BYTES == 0 && (BASE_BYTES..=USER_END - usual.bytes).contains(&start);
        fits.then_some(Window { start, ..usual })
    }

    /// The window.
    pub fn window(&self) -> Window {
        self.checked_window().unwrap_or(self.usual_window())
    }
}
