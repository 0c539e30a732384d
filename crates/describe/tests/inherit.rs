//! Files that inherit: what is merged, what is refused, and where an error is said to be.

use mmulab_describe::{DescribeError, Whole};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// A description with all that inheritance tells apart: tables, lists with names, reasons.
#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
struct Thing {
    name: String,
    #[serde(default)]
    title: String,
    core: Core,
    #[serde(default)]
    part: Vec<Part>,
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
struct Core {
    #[schemars(range(min = 1, max = 8))]
    count: u32,
    #[serde(default)]
    #[schemars(range(min = 0, max = 900), extend("x-formerly" = "pace"))]
    speed: u32,
    #[serde(default)]
    assumed: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
struct Part {
    name: String,
    #[schemars(range(min = 1, max = 64))]
    size: u32,
}

/// A directory of descriptions that is gone with the test.
struct Dir(PathBuf);

impl Dir {
    fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("mmulab-inherit-{}-{number}", std::process::id()));
        for (name, text) in files {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        Self(dir)
    }

    fn read(&self, name: &str, overrides: &[&str]) -> Result<Thing, DescribeError> {
        let overrides: Vec<_> = overrides.iter().map(ToString::to_string).collect();
        Whole::read::<Thing>("thing", name, std::slice::from_ref(&self.0))?.typed(&overrides)
    }

    /// The error's text, without the directory.
    fn refused(&self, name: &str, overrides: &[&str]) -> String {
        let error = self.read(name, overrides).expect_err("it should be refused");
        error.to_string().replace(&format!("{}/", self.0.display()), "")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

const OLD: &str = r#"
name = "old"
title = "The old one"
[core]
count = 4
speed = 10
assumed = { count = "a guess", speed = "a guess too" }
[[part]]
name = "a"
size = 1
[[part]]
name = "b"
size = 2
"#;

fn part(name: &str, size: u32) -> Part {
    Part { name: name.into(), size }
}

#[test]
fn keys_of_the_file_come_before_those_of_its_base() {
    let dir = Dir::new(&[("old.toml", OLD), ("new.toml", "base = 'old'\nname = 'new'\n[core]\ncount = 2\n")]);
    let new = dir.read("new", &[]).expect("a thing");
    assert_eq!((new.core.count, new.core.speed), (2, 10));
    assert_eq!(new.part, [part("a", 1), part("b", 2)]);
    assert_eq!(new.name, "new");
    assert_eq!(new.title, "", "a title is each file's own");
}

#[test]
fn a_value_that_is_set_loses_the_inherited_reason() {
    let dir = Dir::new(&[
        ("old.toml", OLD),
        ("new.toml", "base = 'old'\nname = 'new'\n[core]\ncount = 2\n"),
        ("kept.toml", "base = 'old'\nname = 'kept'\n[core]\ncount = 2\nassumed = { count = 'another guess' }\n"),
    ]);
    let reasons = |name| dir.read(name, &[]).expect("a thing").core.assumed;
    assert_eq!(reasons("new"), BTreeMap::from([("speed".to_owned(), "a guess too".to_owned())]));
    assert_eq!(reasons("kept").get("count").map(String::as_str), Some("another guess"));
}

#[test]
fn a_list_is_replaced_or_an_entry_changed_by_its_name() {
    let dir = Dir::new(&[
        ("old.toml", OLD),
        ("changed.toml", "base = 'old'\nname = 'n'\n[part.b]\nsize = 9\n"),
        ("replaced.toml", "base = 'old'\nname = 'n'\n[[part]]\nname = 'c'\nsize = 3\n"),
    ]);
    assert_eq!(dir.read("changed", &[]).expect("a thing").part, [part("a", 1), part("b", 9)]);
    assert_eq!(dir.read("replaced", &[]).expect("a thing").part, [part("c", 3)]);
}

#[test]
fn bases_have_bases_and_assignments_come_last() {
    let dir = Dir::new(&[
        ("base/common.toml", "[core]\ncount = 1\nspeed = 7\n"),
        ("mid.toml", "base = 'common'\nname = 'mid'\n[core]\ncount = 2\n"),
        ("new.toml", "base = './mid.toml'\nname = 'new'\n"),
    ]);
    let new = dir.read("new", &["core.speed=8"]).expect("a thing");
    assert_eq!((new.core.count, new.core.speed), (2, 8));
}

#[test]
fn a_base_that_nobody_knows_is_refused_with_the_nearest() {
    let dir = Dir::new(&[("older.toml", OLD), ("new.toml", "name = 'new'\nbase = 'oldr'\n")]);
    let error = dir.refused("new", &[]);
    assert!(error.starts_with("new.toml:2:8: base: no thing named 'oldr' (did you mean 'older'?)"), "{error}");
}

#[test]
fn a_circle_of_bases_is_refused_with_its_way() {
    let dir = Dir::new(&[
        ("a.toml", "base = 'b'\nname = 'a'\n"),
        ("b.toml", "base = 'c'\nname = 'b'\n"),
        ("c.toml", "base = './a.toml'\nname = 'c'\n"),
    ]);
    let error = dir.refused("a", &[]);
    assert!(error.contains("c.toml:1:8: ") && error.ends_with("a -> b -> c -> a"), "{error}");
}

#[test]
fn an_error_is_placed_in_the_file_that_says_it() {
    let dir = Dir::new(&[
        ("old.toml", OLD),
        ("high.toml", "base = 'old'\nname = 'n'\n[core]\ncount = 9\n"),
        ("entry.toml", "base = 'old'\nname = 'n'\n[part.b]\nsize = 99\n"),
        ("wrong.toml", "base = 'old'\nname = 'n'\n[core]\ncuont = 2\n"),
        ("bad.toml", "name = 'b'\n[core]\ncount = 2\nsped = 1\n"),
        ("below.toml", "base = 'bad'\nname = 'n'\n"),
    ]);
    assert_eq!(dir.refused("high", &[]), "high.toml:4:9: core.count is 9: give 1 to 8");
    assert_eq!(dir.refused("entry", &[]), "entry.toml:4:8: part.b.size is 99: give 1 to 64");
    let wrong = dir.refused("wrong", &[]);
    assert!(wrong.starts_with("wrong.toml:4:1: unknown field `cuont`") && wrong.contains("`count`?"), "{wrong}");
    assert!(dir.refused("below", &[]).starts_with("bad.toml:4:1: unknown field `sped`"));
}

#[test]
fn an_entry_that_is_not_inherited_cannot_be_changed() {
    let dir = Dir::new(&[("old.toml", OLD), ("new.toml", "base = 'old'\nname = 'n'\n[part.c]\nsize = 1\n")]);
    let error = dir.refused("new", &[]);
    assert!(error.starts_with("new.toml:1:8: part: no entry named 'c'"), "{error}");
}

#[test]
fn only_files_inherit() {
    let dir = Dir::new(&[("old.toml", OLD), ("number.toml", "base = 3\nname = 'n'\n")]);
    assert!(dir.refused("old", &["base=old"]).contains("only a file inherits"));
    assert!(dir.refused("number", &[]).contains("base is 3: give the name of a thing"));
}

#[test]
fn what_a_file_must_say_itself_is_missed() {
    let dir = Dir::new(&[("old.toml", OLD), ("new.toml", "base = 'old'\n")]);
    assert!(dir.refused("new", &[]).contains("missing field `name`"));
}

/// A former name of a key is read like its name of today, in a file, in one that inherits, and by `--set`. Its range
/// holds.
#[test]
fn former_names_are_read() {
    let dir = Dir::new(&[
        ("old.toml", "name = \"old\"\ncore = { count = 1, pace = 3 }\n"),
        ("new.toml", "name = \"new\"\ncore = { count = 1, speed = 5 }\n"),
        ("child.toml", "base = \"new\"\nname = \"child\"\ncore.pace = 7\n"),
        ("both.toml", "name = \"both\"\ncore = { count = 1, pace = 3, speed = 4 }\n"),
        ("far.toml", "name = \"far\"\ncore = { count = 1, pace = 901 }\n"),
    ]);
    let speed = |name: &str, overrides: &[&str]| {
        dir.read(name, overrides).map(|thing| thing.core.speed).map_err(|e| e.to_string())
    };
    assert_eq!(speed("old", &[]), Ok(3));
    assert_eq!(speed("child", &[]), Ok(7), "what the file says comes before what it inherits, by either name");
    assert_eq!(speed("new", &["core.pace=6"]), Ok(6));
    assert_eq!(speed("old", &["core.speed=6", "core.pace=7"]), Ok(7), "what is set last counts");
    let error = speed("both", &[]).unwrap_err();
    assert!(error.contains("unknown field `pace`") && error.contains("both.toml:2"), "{error}");
    let error = speed("far", &[]).unwrap_err();
    assert!(error.contains("core.speed is 901: give 0 to 900"), "{error}");
}
