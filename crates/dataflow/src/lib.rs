//! Instructions as an out-of-order core sees them: registers read and written, a class, and the accesses made.
//!
//! A decoder makes these of machine code, and generators declare them. A model of time takes them. The types stand
//! alone, so that none of the three depends on another.

mod class;
mod inst;
mod reg;
mod text;

pub use class::Class;
pub use inst::{Branch, Inst, Regs};
pub use reg::Reg;
