//! Reasons for refusing to reshape a trace, each with its remedy.

use mmulab_addr::{Bytes, show_bytes};
use mmulab_elf::LayoutError;
use thiserror::Error;

/// Why a trace cannot be had otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReshapeError {
    /// No linker could do it.
    #[error("{0}")]
    Layout(#[from] LayoutError),
    /// The trace has references only.
    #[error("{0} does not tell the program's mappings, so its ELF files are unknown; record it with mmulab")]
    NoMappings(String),
    /// The trace has references only, and hints are for mappings.
    #[error("{0} contains no mappings that hints could be for; record the program with mmulab")]
    NothingToHint(String),
    /// The trace does not tell of objects.
    #[error("{0} does not tell what the program asks of its allocator; record it with `mmulab record --heap`")]
    NoHeap(String),
    /// A parameter of the allocator cannot be.
    #[error("heap.{key} is '{value}': give {wanted}", value = show_bytes(value.0))]
    Heap {
        /// The parameter.
        key: &'static str,
        /// Its value.
        value: Bytes,
        /// What it must be.
        wanted: &'static str,
    },
    /// A file of a function order that is none.
    #[error("the function order is none: {0}\nhint: make it with `mmulab reorder TRACE --out FILE`")]
    Order(String),
    /// Addresses that cannot be used.
    #[error(
        "image.window is '{0}': give a multiple of 4096 whose next 64 GiB (with a maxpagesize of 1 GiB, 1 TiB) lie in \
         the lower half of a 48-bit address space"
    )]
    Window(String),
}
