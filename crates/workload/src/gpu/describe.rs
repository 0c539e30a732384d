//! What every GPU program's file has: a description, and the grid that comes of it. It stands below the programs, and
//! their registry above them.

use super::grid::Grid;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

/// What describes a GPU program.
pub trait Describe: DeserializeOwned + Serialize + JsonSchema {
    /// Its name.
    const NAME: &str;
    /// What it describes.
    type Grid: Grid;

    /// The program.
    ///
    /// # Errors
    /// Which key cannot be as it is, and what it may be.
    fn grid(&self) -> Result<Self::Grid, String>;
}
