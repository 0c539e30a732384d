//! Reader of workload recipes: finds the file, applies `--set`, and checks the rules that TOML types cannot express.
//! A mistake in a recipe is thus reported before any program is started.

use crate::{
    Recipe, Value,
    braces::{BraceError, fill},
    texts::texts,
};
use mmulab_describe::{DescribeError, find, load, nearest, text, typed};
use std::{collections::BTreeMap, path::PathBuf};
use toml::Table;

/// Names that stand for what is only known when a recipe runs.
pub const RUN_TIME_NAMES: [&str; 4] = ["work", "files", "cache", "port"];

/// The name that stands for the number of a member's instance in a mix, from 1.
const INSTANCE: &str = "instance";

/// Reads the recipe `name` (a path, or a name in one of `dirs`), gives its parameters the values of `overrides`
/// (`key=value`) and checks that it makes sense. Afterwards each parameter's `default` is its value.
///
/// # Errors
/// There is none of that name, it cannot be read, is no recipe, or contradicts itself; a `set` names no parameter, or
/// is of the wrong kind.
pub fn resolve(name: &str, dirs: &[PathBuf], overrides: &[String]) -> Result<(Recipe, PathBuf), DescribeError> {
    let path = find("workload", name, dirs)?;
    let mut recipe: Recipe = text(&load(&path)?, &path.display().to_string())?;
    for assignment in overrides {
        set(&mut recipe, assignment)?;
    }
    check(&recipe)?;
    Ok((recipe, path))
}

/// Keys of a mix that can be set.
const OF_MIX: [&str; 7] = ["as", "quantum", "unit", "cores", "migrate", "end", "instructions"];

fn set(recipe: &mut Recipe, assignment: &str) -> Result<(), DescribeError> {
    let place = format!("--set {assignment}");
    let wrong = |message: String| DescribeError::Malformed { place: place.clone(), message };
    let (key, value) = assignment.split_once('=').ok_or_else(|| wrong("write it as key=value".into()))?;
    let mut known: Vec<String> = recipe.parameter.keys().cloned().collect();
    if let Some(mix) = recipe.mix.as_mut().filter(|_| !recipe.parameter.contains_key(key)) {
        if OF_MIX.contains(&key) {
            let mut table = Table::try_from(&*mix).map_err(|e| wrong(e.to_string()))?;
            // Counts are texts, though they look like numbers.
            let value = match key {
                "migrate" => {
                    value.parse().map(toml::Value::Boolean).map_err(|_| wrong("write true or false".into()))?
                }
                _ => toml::Value::String(value.to_owned()),
            };
            table.insert(key.to_owned(), value);
            *mix = typed(table, &place)?;
            return Ok(());
        }
        known.extend(OF_MIX.map(str::to_owned));
    }
    let parameters: &mut BTreeMap<String, crate::Parameter> = &mut recipe.parameter;
    let Some(parameter) = parameters.get_mut(key) else {
        let hint = nearest(key, known.iter().map(String::as_str));
        let hint = hint.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let known = if known.is_empty() { "it has none".into() } else { format!("it has: {}", known.join(", ")) };
        return Err(wrong(format!("this workload has no parameter `{key}` ({known}){hint}")));
    };
    parameter.default = match &parameter.default {
        Value::Number(_) => {
            Value::Number(value.parse().map_err(|_| wrong(format!("'{value}' is not a whole number")))?)
        }
        Value::Text(_) => Value::Text(value.into()),
    };
    Ok(())
}

/// What cannot be seen by reading alone.
fn check(recipe: &Recipe) -> Result<(), DescribeError> {
    let bad = |message: String| Err(DescribeError::Impossible { name: recipe.name.clone(), message });
    for name in RUN_TIME_NAMES {
        if recipe.parameter.contains_key(name) {
            return bad(format!("parameter `{name}`: the name stands for something else; choose another"));
        }
    }
    let ways = [
        ("[record]", recipe.record.is_some()),
        ("[generate]", recipe.generate.is_some()),
        ("[mix]", recipe.mix.is_some()),
    ];
    let ways: Vec<&str> = ways.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
    if ways.is_empty() && recipe.refused.is_none() {
        return bad(
            "nothing is recorded: give a [record], [generate] or [mix] table, or `refused` with the reason".into()
        );
    }
    if ways.len() > 1 {
        return bad(format!("{}: one of them is the workload; remove the other", ways.join(" and ")));
    }
    if recipe.record.as_ref().is_some_and(|record| record.run.is_empty()) {
        return bad("record.run is empty: name a program".into());
    }
    if let Some(generate) = recipe.generate.as_ref().filter(|generate| !generate.trace.starts_with("gen:")) {
        return bad(format!("generate.trace is '{}': write it as gen:NAME?key=value", generate.trace));
    }
    if let Some(mix) = &recipe.mix {
        if mix.member.is_empty() {
            return bad("mix.member is empty: name what is mixed".into());
        }
        if mix.member.iter().any(|member| member.workload.is_some() == member.trace.is_some()) {
            return bad("a member of the mix has neither `workload` nor `trace`, or both: name one".into());
        }
        if recipe.parameter.contains_key(INSTANCE) {
            return bad(format!("parameter `{INSTANCE}`: the name stands for something else; choose another"));
        }
    }
    if recipe.server.is_some() && recipe.record.is_none() && recipe.refused.is_none() {
        return bad("a [server] without [record]: say how it is started".into());
    }
    if let Some(server) = &recipe.server
        && server.drive.is_empty()
    {
        return bad("server.drive is empty: a server that nobody asks does nothing".into());
    }
    let texts = texts(recipe);
    let known = |name: &str| {
        let otherwise = if recipe.mix.is_some() { name == INSTANCE } else { RUN_TIME_NAMES.contains(&name) };
        otherwise || recipe.parameter.contains_key(name)
    };
    for (place, text) in &texts {
        match fill(text, |name| known(name).then(String::new)) {
            Ok(_) => {}
            Err(BraceError::Lone(brace)) => {
                return bad(format!("{place}: a lone `{brace}` in '{text}'; write it twice if it is meant as such"));
            }
            Err(BraceError::Unknown(name)) => {
                let all = recipe.parameter.keys().map(String::as_str).chain(RUN_TIME_NAMES);
                let hint = nearest(&name, all).map(|n| format!("; did you mean `{{{n}}}`?")).unwrap_or_default();
                return bad(format!("{place}: nothing is named `{{{name}}}`{hint}"));
            }
        }
    }
    if let Some(server) = &recipe.server
        && server.ready.is_empty()
        && !texts.iter().any(|(_, text)| text.contains("{port}"))
    {
        return bad("server.ready is empty and no command names `{port}`: mmulab cannot find out when it serves".into());
    }
    for (place, text) in counts(recipe) {
        if !is_count(text) {
            return bad(format!(
                "{place}: '{text}' is not a count; write a number, optionally with k, M or G (10^3, 10^6, 10^9)"
            ));
        }
    }
    match &recipe.expect {
        Some(expect) => {
            let all = [
                ("code_pages", expect.code_pages),
                ("data_pages", expect.data_pages),
                ("processes", expect.processes),
                ("threads", expect.threads),
            ];
            match all.iter().find(|(_, [least, most])| least > most) {
                Some((key, [least, most])) => bad(format!("expect.{key} is [{least}, {most}]: the least comes first")),
                None => Ok(()),
            }
        }
        None => Ok(()),
    }
}

/// Every text that must be a count, with its place.
fn counts(recipe: &Recipe) -> Vec<(&'static str, &str)> {
    let mut out = vec![("room", recipe.room.as_str())];
    if let Some(record) = &recipe.record {
        out.extend(record.system.iter().map(|system| ("record.system.memory", system.memory.as_str())));
        out.extend([("record.skip", record.skip.as_str()), ("record.instructions", &record.instructions)]);
    }
    if let Some(generate) = &recipe.generate {
        out.extend([("generate.skip", generate.skip.as_str()), ("generate.instructions", &generate.instructions)]);
    }
    if let Some(expect) = &recipe.expect {
        out.push(("expect.instructions", &expect.instructions));
        out.extend(expect.skip.iter().map(|skip| ("expect.skip", skip.as_str())));
    }
    out
}

/// Whether `text` is digits, perhaps with a point among them, and perhaps a unit.
fn is_count(text: &str) -> bool {
    let digits = text.strip_suffix(['k', 'K', 'M', 'G', 'T']).unwrap_or(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    [whole, part].iter().all(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
name = "small"
title = "Small"
standing = "own"
why = "a test"
[parameter.size]
default = 3
about = "how much"
[parameter.word]
default = "a"
about = "which"
[record]
run = ["cat", "{size}", "{work}"]
instructions = "1M"
"#;

    fn read(text: &str, overrides: &[&str]) -> Result<Recipe, String> {
        let mut recipe: Recipe = mmulab_describe::text(text, "small.toml").map_err(|e| e.to_string())?;
        for assignment in overrides {
            set(&mut recipe, assignment).map_err(|e| e.to_string())?;
        }
        check(&recipe).map_err(|e| e.to_string())?;
        Ok(recipe)
    }

    fn refused(text: &str, overrides: &[&str]) -> String {
        read(text, overrides).expect_err("it must be refused")
    }

    #[test]
    fn parameters_take_values_of_their_kind() {
        let recipe = read(SMALL, &["size=12", "word=12"]).expect("a recipe");
        assert_eq!(recipe.parameter["size"].default, Value::Number(12));
        assert_eq!(recipe.parameter["word"].default, Value::Text("12".into()));
        assert_eq!(refused(SMALL, &["size=many"]), "--set size=many: 'many' is not a whole number");
        assert!(refused(SMALL, &["sise=1"]).ends_with("(it has: size, word); did you mean `size`?"));
        assert!(refused(SMALL, &["size"]).ends_with("write it as key=value"));
    }

    #[test]
    fn mistakes_in_a_recipe_have_their_place() {
        let with = |from: &str, to: &str| refused(&SMALL.replace(from, to), &[]);
        assert!(with("title", "titel").contains("small.toml:3:1: unknown field `titel`"));
        assert!(with("title", "titel").contains("did you mean `title`?"));
        assert!(with("{size}", "{sise}").contains("record.run: nothing is named `{sise}`; did you mean `{size}`?"));
        assert!(with("{size}", "{size").contains("record.run: a lone `{`"));
        assert!(with("\"1M\"", "\"1 M\"").contains("record.instructions: '1 M' is not a count"));
        assert!(
            with("parameter.word", "parameter.port").contains("parameter `port`: the name stands for something else")
        );
        assert!(with("run = [\"cat\", \"{size}\", \"{work}\"]", "run = []").contains("record.run is empty"));
        let bare = &SMALL[..SMALL.find("[record]").expect("it is there")];
        assert!(refused(bare, &[]).contains("nothing is recorded"));
        let generate = "[generate]\ntrace = \"gen:gups\"\ninstructions = \"1M\"\n";
        assert!(read(&format!("{bare}{generate}"), &[]).is_ok());
        assert!(refused(&format!("{bare}{}", generate.replace("gen:", "")), &[]).contains("write it as gen:NAME"));
        assert!(refused(&format!("{SMALL}{generate}"), &[]).contains("one of them is the workload"));
    }

    #[test]
    fn servers_must_be_asked_and_found() {
        let server = |rest: &str| format!("{SMALL}[server]\n{rest}\n");
        assert!(refused(&server("drive = []"), &[]).contains("server.drive is empty"));
        assert!(
            refused(&server("drive = [{ run = [\"true\"] }]"), &[]).contains("mmulab cannot find out when it serves")
        );
        assert!(read(&server("drive = [{ run = [\"ask\", \"{port}\"] }]"), &[]).is_ok());
        assert!(read(&server("ready = [\"true\"]\ndrive = [{ run = [\"true\"] }]"), &[]).is_ok());
    }

    #[test]
    fn expectations_have_the_least_first() {
        let text = format!("{SMALL}[expect]\ninstructions = \"1M\"\ncode_pages = [2, 1]\ndata_pages = [1, 2]\n");
        assert!(refused(&text, &[]).contains("expect.code_pages is [2, 1]: the least comes first"));
    }

    #[test]
    fn counts_are_told_from_other_texts() {
        assert!(["0", "12", "1.5G", "500M", "3k"].iter().all(|t| is_count(t)));
        assert!(["", "M", "1.", ".5", "1e9", "-1", "1MB"].iter().all(|t| !is_count(t)));
    }
}
