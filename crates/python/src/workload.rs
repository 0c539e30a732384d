//! Python binding of workload recipes: list recipes, read one with parameters set, expand a mix, and replace `{NAME}`
//! in a text. Recipes are checked in Rust; Python executes the commands in them.

use crate::errors::{failure, request, user};
use mmulab_describe as describe;
use pyo3::prelude::*;
use serde_json::json;
use std::{collections::BTreeMap, path::PathBuf};

fn directories(text: &str) -> PyResult<Vec<PathBuf>> {
    serde_json::from_str(text).map_err(request)
}

/// The recipes in `dirs`: names, titles and files.
#[pyfunction]
pub fn list_workloads(dirs: &str) -> PyResult<String> {
    let rows: Vec<_> = describe::list(&directories(dirs)?)
        .into_iter()
        .map(|(name, path)| {
            let title = describe::title(&path).unwrap_or_default();
            let table = describe::load(&path).and_then(|text| describe::table(&text, &name));
            json!({ "name": name, "title": title, "path": path, "mix": table.is_ok_and(|t| t.contains_key("mix")) })
        })
        .collect();
    serde_json::to_string(&rows).map_err(failure)
}

/// One recipe, checked, its parameters set; and its file.
#[pyfunction]
pub fn workload(name: &str, sets: Vec<String>, dirs: &str) -> PyResult<String> {
    let (recipe, path) = mmulab_recipe::resolve(name, &directories(dirs)?, &sets).map_err(user)?;
    serde_json::to_string(&json!({ "recipe": recipe, "path": path })).map_err(failure)
}

/// The mix that a user calls `name`, as `run` and all that takes a trace take it; its members' recordings are in
/// `recordings`.
#[pyfunction]
pub fn mix(name: &str, dirs: &str, recordings: Vec<PathBuf>) -> PyResult<String> {
    let places = mmulab_recipe::Places { recipes: &directories(dirs)?, recordings: &recordings };
    let mix = mmulab_recipe::mix(name, places).map_err(user)?;
    Ok(format!("mix:{}", serde_json::to_string(&mix).map_err(failure)?))
}

/// The schema of recipes.
#[pyfunction]
pub fn workload_schema() -> PyResult<String> {
    serde_json::to_string(&schemars::schema_for!(mmulab_recipe::Recipe)).map_err(failure)
}

/// A text of a checked recipe with its names replaced by `values`.
#[pyfunction]
pub fn fill_braces(text: &str, values: BTreeMap<String, String>) -> PyResult<String> {
    mmulab_recipe::fill(text, |name| values.get(name).cloned()).map_err(|e| failure(format!("{text}: {e:?}")))
}
