//! From curves to figures: pure functions over measured points, so that recorded curves test them.

mod figures;
mod prefetch;
mod retention;
mod shared;
mod stats;
mod steps;
mod translation;
mod walks;

pub use figures::{Confidence, Figure, figures, noise};
