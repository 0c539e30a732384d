//! Registry of the GPU generators: their names, the schemas of their keys, and the way from a text to a trace source.
//! The keys `cores`, `warps`, `instructions` and `populate` apply to every program and are read here. A core must have
//! room for the warps of one thread block.

use super::{
    describe::Describe,
    grid::{Grid, INSTRUCTIONS},
    programs::{
        backprop::BackpropDesc, bfs::GpuBfsDesc, btree::GpuBtreeDesc, hotspot::HotspotDesc, kmeans::KmeansDesc,
        lud::LudDesc, nw::NwDesc, pathfinder::PathfinderDesc, srad::SradDesc, streamcluster::GpuStreamclusterDesc,
    },
    schedule::{Manner, Schedule, Shape},
};
use crate::{described::described, query::count};
use mmulab_trace::{Ref, Source};
use schemars::{Schema, schema_for};
use serde_json::{Map, Value};

/// Cores and warps of a core, unless told: those of `machines/gpu-mix-baseline.toml`.
const USUAL: Shape = Shape { cores: 16, warps: 32 };
/// Most cores, and most warps of one: what a machine may have.
const MOST: u64 = 1024;

macro_rules! programs {
    ($($desc:ty),* $(,)?) => {
        /// The names of all.
        pub const NAMES: &[&str] = &[$(<$desc as Describe>::NAME),*];

        /// The schemas of all, by name.
        pub fn schemas() -> Vec<(&'static str, Schema)> {
            vec![$((<$desc as Describe>::NAME, schema_for!($desc))),*]
        }

        fn source(name: &str, text: &str, asked: Asked) -> Result<Box<dyn Source>, String> {
            match name {
                $(<$desc as Describe>::NAME => schedule::<$desc>(text, asked),)*
                _ => Err(format!("no generator '{name}'")),
            }
        }
    };
}

programs![
    BackpropDesc,
    GpuBfsDesc,
    GpuBtreeDesc,
    HotspotDesc,
    KmeansDesc,
    LudDesc,
    NwDesc,
    PathfinderDesc,
    SradDesc,
    GpuStreamclusterDesc,
];

/// Whether it is one of these.
pub fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

struct Asked {
    keys: Map<String, Value>,
    shape: Shape,
    told: Manner,
}

fn schedule<D: Describe>(text: &str, asked: Asked) -> Result<Box<dyn Source>, String> {
    let Asked { keys, shape, told } = asked;
    let (desc, mut identity): (D, String) = described(D::NAME, keys)?;
    let grid = desc.grid()?;
    grid.layout().check()?;
    let most = (0..).map_while(|n| grid.launch(n)).take(3).map(|launch| launch.warps()).max().unwrap_or(1);
    if shape.warps < most {
        return Err(format!("warps is {}, and a block of {} has {most}: give as many at least", shape.warps, D::NAME));
    }
    let Manner { populate, instructions } = told;
    identity += &format!("&cores={}&warps={}&populate={populate}", shape.cores, shape.warps);
    if instructions != INSTRUCTIONS {
        identity += &format!("&instructions={instructions}");
    }
    Ok(Box::new(Schedule::new(text.to_owned(), identity, grid, shape, told)))
}

/// The program called `name` with `keys`, its own and `cores`, `warps`, `instructions` and `populate`.
///
/// # Errors
/// A key or value that cannot be.
pub fn open(name: &str, text: &str, mut keys: Map<String, Value>) -> Result<Box<dyn Source>, String> {
    let mut number = |key: &str, usual: u64, most: u64| {
        let Some(Value::String(given)) = keys.remove(key) else { return Ok(usual) };
        let found = count(&given).filter(|n| (1..=most).contains(n));
        found.ok_or_else(|| format!("{key} is '{given}': give 1 to {most}"))
    };
    let shape = Shape { cores: number("cores", USUAL.cores, MOST)?, warps: number("warps", USUAL.warps, MOST)? };
    let instructions = number("instructions", INSTRUCTIONS.into(), Ref::MAX_BLOCK.into())? as u32;
    // A program copies its input to the GPU before it starts anything there.
    let populate = match keys.remove("populate") {
        Some(Value::String(given)) => {
            given.parse().map_err(|_| format!("populate is '{given}': give true or false"))?
        }
        _ => true,
    };
    source(name, text, Asked { keys, shape, told: Manner { populate, instructions } })
}
