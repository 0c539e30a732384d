//! Shader cores: warps, lanes and walks in flight, as a part of the engine.
//!
//! ```text
//! lanes of an instruction --coalesced--> lookups --miss--> walk in flight <--join-- other lookups
//!                                                              '--end--> TLBs, at the core's next instruction
//! ```

mod cores;
mod execution;
mod in_flight;
mod lanes;
mod placement;
mod shader;
mod table;
mod walks;
mod warps;

pub(crate) use shader::ShaderCores;
