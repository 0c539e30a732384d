//! ELF files as far as they concern address translation. The results are the places where the pages of the file are
//! mapped. They also show whether hardware that coalesces aligned groups of pages finds any in them (paper 1, section
//! 2.3). Code that ends between two multiples of 2 MB can be padded to the next one (paper 2, section VI-A). Reports
//! name code by the functions of a file and its source lines.

mod file;
mod functions;
mod layout;
mod libraries;
mod pad;
mod phase;
mod residual;
mod section;
mod sections;
mod source;
mod unwind;

pub use file::{ElfError, ElfFile, Segment, read};
pub use functions::{Function, Functions, functions};
pub use layout::{LayoutError, Linker, Part, PlacedSegment, layout};
pub use libraries::libraries;
pub use pad::{PadError, PadPlan, PadRefusal, PadTarget, Padded, PaddedSegment, Verified, pad, undo};
pub use phase::{GROUPS, Groups, Phase, phase_of};
pub use residual::{Residual, SUPERPAGE, residual_of};
pub use sections::{CodeSection, LoadedSection, code_sections, loaded_sections};
pub use source::{SourceLine, source_lines};
pub use unwind::{Registers, Unwinder};
