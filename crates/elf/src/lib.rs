//! ELF files as far as address translation cares: which pages of the file are mapped where, and whether hardware that
//! coalesces aligned groups of pages can find any in them (paper 1, section 2.3).

mod file;
mod layout;
mod libraries;
mod phase;

pub use file::{ElfError, ElfFile, Segment, read};
pub use layout::{LayoutError, Linker, Part, PlacedSegment, layout};
pub use libraries::libraries;
pub use phase::{GROUPS, Groups, Phase, phase_of};
