//! What every algorithm's file has: a description, and the kernel that comes of it; and what may be done with kernels,
//! whose types differ. It stands below the algorithms, and their list above them.

use crate::{described::described, kernel::Kernel};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// What a user may say of a generator, as `key=value`.
pub trait Describe: DeserializeOwned + Serialize + JsonSchema + Default {
    /// What it is called.
    const NAME: &str;
    /// The algorithm.
    type Kernel: Kernel;

    /// The algorithm as described.
    ///
    /// # Errors
    /// Which key cannot be as it is, and what it may be.
    fn kernel(&self) -> Result<Self::Kernel, String>;
}

/// Something that can be done with a kernel of any type.
pub trait Visit {
    /// What comes of it.
    type Out;
    /// Does it.
    fn visit<K: Kernel>(self, kernel: K, identity: String) -> Self::Out;
}

/// A kernel as `keys` describe it, and the one text of all that describe the same.
pub fn built<D: Describe>(keys: Map<String, Value>) -> Result<(D::Kernel, String), String> {
    let (desc, identity): (D, String) = described(D::NAME, keys)?;
    let kernel = desc.kernel()?;
    kernel.layout().check()?;
    Ok((kernel, identity))
}
