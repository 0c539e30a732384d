//! From curves to figures: pure functions over measured points, so that recorded curves test them.

mod figures;
mod retention;
mod stats;
mod steps;

pub use figures::{Confidence, Figure, figures, noise};
