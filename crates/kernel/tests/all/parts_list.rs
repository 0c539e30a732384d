//! The lists of parts hold what the folders of `src/parts` hold, and a file that is no part is refused by name.

// The build script, whose functions are tested on folders of other files.
#[allow(dead_code)]
#[path = "../../build.rs"]
mod build;

use mmulab_kernel::{
    ContiguousKind, DaemonKind, DemotionKind, FaultSizeKind, HintSource, PlacementKind, PromotionKind, ReclaimKind,
    ZeroingKind,
};
use schemars::{JsonSchema, schema_for};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

fn parts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/parts")
}

/// The names of the Rust files of a folder, without their endings.
fn files(folder: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let rust = files.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    let stems = rust.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    stems.filter(|stem| stem != "mod").collect()
}

/// A list holds a part for each file of the folder. Each has a name of its own that reads back, and is in the schema.
fn holds<K: Copy + Debug + PartialEq + Serialize + DeserializeOwned + JsonSchema>(folder: &str, all: &[K]) {
    // `AtStore` for `at_store`: compared in small letters, without what separates words.
    let parts: BTreeSet<String> = all.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
    let files: BTreeSet<String> = files(&parts_of(folder)).iter().map(|stem| stem.replace('_', "")).collect();
    assert_eq!(parts, files, "{folder}");
    let names: Vec<serde_json::Value> = all.iter().map(|kind| serde_json::to_value(kind).unwrap()).collect();
    let back: Vec<K> = names.iter().map(|name| serde_json::from_value(name.clone()).unwrap()).collect();
    assert_eq!(back, all, "{folder}: names read back");
    let schema = schema_for!(K);
    let listed = schema.get("oneOf").and_then(|all| all.as_array()).unwrap();
    let listed: Vec<_> = listed.iter().map(|one| one["const"].clone()).collect();
    assert_eq!(listed, names, "{folder}: names in the schema");
}

fn parts_of(folder: &str) -> PathBuf {
    parts().join(folder)
}

#[test]
fn lists_hold_what_folders_hold() {
    holds("contiguous", ContiguousKind::ALL);
    holds("daemon", DaemonKind::ALL);
    holds("demotion", DemotionKind::ALL);
    holds("fault_size", FaultSizeKind::ALL);
    holds("hints", HintSource::ALL);
    holds("placement", PlacementKind::ALL);
    holds("promotion", PromotionKind::ALL);
    holds("reclaim", ReclaimKind::ALL);
    holds("zeroing", ZeroingKind::ALL);
    // `text` has settings that go together in place of a kind to choose, so it has no list.
    let folders = fs::read_dir(parts()).unwrap().map(|entry| entry.unwrap().path());
    let others = folders.filter(|path| path.is_dir() && !path.ends_with("text"));
    assert_eq!(others.count(), 9, "a folder of src/parts that no line above names");
}

#[test]
fn an_unknown_name_is_refused_with_those_there_are() {
    let error = serde_json::from_str::<DemotionKind>("\"never\"").unwrap_err().to_string();
    assert!(error.contains("unknown variant `never`, expected `store` or `needed`"), "{error}");
}

/// A folder of these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("shared")).unwrap();
    fs::write(folder.join("shared/helper.rs"), "").unwrap();
    fs::write(folder.join("mod.rs"), "").unwrap();
    for (file, text) in files {
        fs::write(folder.join(file), text).unwrap();
    }
    folder
}

#[test]
fn every_file_of_a_folder_is_a_part() {
    let texts =
        [("way_back.rs", "pub(crate) enum WayBack {\n"), ("ahead.rs", "//! Ahead.\npub(crate) struct Ahead;\n")];
    let list = build::list(&folder("well", &texts)).unwrap();
    let named: Vec<_> = list.iter().map(|file| (file.module.as_str(), file.part.as_str())).collect();
    assert_eq!(named, [("ahead", "Ahead"), ("way_back", "WayBack")]);
    let text = build::macros("well", &list);
    assert!(text.contains("$then! { [ahead::Ahead, way_back::WayBack, ] $($rest)* }"), "{text}");
    assert!(text.contains("Self::WayBack($part) => $call,"), "{text}");
}

#[test]
fn a_file_that_is_no_part_is_refused_with_what_is_missing() {
    for (name, file, text, expected) in [
        ("another", "ahead.rs", "// struct Ahead;\npub struct Ahead2;\nimpl Ahead {}\n", "no `struct Ahead` in it"),
        ("empty", "at_end.rs", "", "no `struct AtEnd` in it"),
        ("large", "AtEnd.rs", "struct AtEnd;\n", "small letters, digits and _"),
        ("hyphen", "at-end.rs", "struct AtEnd;\n", "small letters, digits and _"),
    ] {
        let error = build::list(&folder(name, &[(file, text)])).unwrap_err();
        assert!(error.contains(file) && error.contains(expected), "{error}");
    }
    let error = build::list(&folder("none", &[])).unwrap_err();
    assert!(error.contains("holds no part"), "{error}");
}
