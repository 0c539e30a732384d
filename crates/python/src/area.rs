//! Python binding of the TLB area model, which lets designs be compared at equal area. One function returns the areas
//! of a machine's TLB arrays, and the arrays of another design that need no more area.

use crate::{
    errors::{request, user},
    simulate::{Job, Search, text},
};
use mmulab_energy::{Wanted, area, fit};
use mmulab_machine::{Machine, Options};
use pyo3::prelude::*;
use serde_json::json;
use std::sync::Arc;

/// A machine's TLB arrays, and those of another design in their area; each with its area.
#[pyfunction]
pub fn machine_fit(
    machine: &str,
    design: Option<&str>,
    groups: [u16; 2],
    sets: Vec<String>,
    search: &str,
) -> PyResult<String> {
    let search: Search = serde_json::from_str(search).map_err(request)?;
    let job = Job::of(machine, "linux-4k", sets);
    let resolved = job.resolve(&Options::default(), &search)?;
    // What cannot be built has no area.
    let resolved = Arc::new(resolved);
    Machine::new(Arc::clone(&resolved), true).map_err(user)?;
    let desc = &resolved.machine;
    let asid_bits = desc.tlb_rules.asid_bits;
    let fitted = match design {
        None => None,
        Some(name) => {
            let Some(&(_, wanted)) = Wanted::NAMES.iter().find(|(known, _)| *known == name) else {
                let known = Wanted::NAMES.map(|(known, _)| known).join(", ");
                return Err(user(format!("design '{name}' is not one of {known}")));
            };
            let tlb = fit(&desc.tlb, asid_bits, wanted, groups).map_err(user)?;
            Some(json!({ "tlb": tlb, "area": area(&tlb, asid_bits) }))
        }
    };
    text(&json!({ "tlb": desc.tlb, "area": area(&desc.tlb, asid_bits), "fitted": fitted }))
}
