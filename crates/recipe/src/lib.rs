//! Recipes of workloads: what a `workloads/NAME.toml` says, read and checked. What is done with it is the command
//! line's.

mod braces;
mod desc;
mod expand;
mod mix;
mod resolve;
mod texts;
mod value;

pub use braces::{BraceError, fill};
pub use desc::{
    Artifact, CrateFile, Expect, Generate, Install, Package, Paper, Parameter, Recipe, Record, Server, Signal,
    Standing, Step, System, Thp,
};
pub use expand::{Places, mix};
pub use mix::{Member, Mix};
pub use resolve::{RUN_TIME_NAMES, resolve};
pub use value::Value;
