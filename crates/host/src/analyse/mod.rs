//! From curves to figures: pure functions over measured points, so that recorded curves test them.

mod figure;
mod figures;
mod fresh;
mod jumps;
mod levels;
mod prefetch;
mod retention;
mod shared;
mod stats;
mod steps;
mod stream;
mod translation;
mod walks;

pub use figure::{Confidence, Figure};
pub use figures::{figures, noise};
