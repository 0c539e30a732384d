//! The `[energy]` table of a machine description: known values for read energy, write energy and leakage of single
//! structures, for example from CACTI. The energy model supplies every value that the table leaves out.

use mmulab_tlb::ArrayDesc;
use mmulab_walker::{CacheDesc, WalkerDesc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Energy and area of one structure, in place of the model's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StructureDesc {
    /// Whose: a TLB array, a walk cache, a cache, `memory`, or `NAME.predictor` of an array.
    pub name: String,
    /// Energy of one lookup, all ways read, in pJ. Default: the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub read_pj: Option<f64>,
    /// Energy of writing one entry, in pJ. Default: the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub write_pj: Option<f64>,
    /// Its leakage, in mW. Default: the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub leakage_mw: Option<f64>,
    /// Where the numbers come from, such as a version of CACTI and its technology.
    #[serde(default)]
    pub source: String,
}

/// The energy of translation: what replaces the model's numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnergyDesc {
    /// Structures whose numbers are known, for instance from CACTI.
    pub structure: Vec<StructureDesc>,
    /// Where they come from.
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    pub assumed: BTreeMap<String, String>,
}

impl EnergyDesc {
    /// Checks that every structure is one of a machine's.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self, tlb: &[ArrayDesc], walker: &WalkerDesc, caches: &[CacheDesc]) -> Result<(), String> {
        let predictors = tlb.iter().filter(|a| a.predictor.is_some()).map(|a| format!("{}.predictor", a.name));
        let mut names: Vec<String> = tlb.iter().map(|a| a.name.clone()).chain(predictors).collect();
        names.extend(walker.cache.iter().map(|c| c.name.clone()));
        names.extend(caches.iter().map(|c| c.name.clone()));
        names.push("memory".into());
        for s in &self.structure {
            if !names.contains(&s.name) {
                return Err(format!("energy.structure names '{}': this machine has {}", s.name, names.join(", ")));
            }
        }
        Ok(())
    }

    /// The figures of the structure called `name`.
    pub fn of(&self, name: &str) -> Option<&StructureDesc> {
        self.structure.iter().find(|s| s.name == name)
    }
}
