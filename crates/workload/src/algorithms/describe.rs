//! What the file of every algorithm has (a description, and the algorithm built from it), and what can be done with
//! algorithms of any type. It lies below the algorithms, and their list above them.

use crate::{algorithm::Algorithm, described::described};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Keys that a user may give of a generator, as `key=value`.
pub trait Describe: DeserializeOwned + Serialize + JsonSchema + Default {
    /// Its name.
    const NAME: &str;
    /// The algorithm.
    type Algorithm: Algorithm;

    /// The algorithm as described.
    ///
    /// # Errors
    /// Which key cannot be as it is, and what it may be.
    fn algorithm(&self) -> Result<Self::Algorithm, String>;
}

/// Something that can be done with an algorithm of any type.
pub trait Visit {
    /// Its result.
    type Out;
    /// Does it.
    fn visit<A: Algorithm>(self, algorithm: A, identity: String) -> Self::Out;
}

/// An algorithm as `keys` describe it, and the one text of all that describe the same.
pub fn built<D: Describe>(keys: Map<String, Value>) -> Result<(D::Algorithm, String), String> {
    let (desc, identity): (D, String) = described(D::NAME, keys)?;
    let algorithm = desc.algorithm()?;
    algorithm.layout().check()?;
    Ok((algorithm, identity))
}
