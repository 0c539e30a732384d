//! List of all texts of a recipe that may contain `{NAME}`, each with its place for error messages. The recipe check
//! looks for unknown names in these texts only, so a new field with names in braces must be added here.

use crate::{Member, Recipe, Step, Value};

/// Every text of a recipe in which names may stand in braces, with its place.
pub fn texts(recipe: &Recipe) -> Vec<(String, &str)> {
    let mut out = Vec::new();
    for (i, step) in recipe.setup.iter().enumerate() {
        of_step(&format!("setup {}", i + 1), step, &mut out);
    }
    if let Some(generate) = &recipe.generate {
        out.push(("generate.trace".into(), generate.trace.as_str()));
    }
    if let Some(mix) = &recipe.mix {
        out.push(("mix.quantum".into(), mix.quantum.as_str()));
        out.extend(mix.instructions.iter().map(|text| ("mix.instructions".into(), text.as_str())));
        out.extend(of_value(&mix.cores).map(|text| ("mix.cores".into(), text)));
        for (i, member) in mix.member.iter().enumerate() {
            let place = |key: &str| format!("mix.member {}, {key}", i + 1);
            let Member { name, workload, trace, skip, instructions, after, stagger, .. } = member;
            let plain = [
                ("name", name),
                ("workload", workload),
                ("trace", trace),
                ("skip", skip),
                ("instructions", instructions),
                ("after", after),
                ("stagger", stagger),
            ];
            out.extend(plain.iter().filter_map(|(key, text)| Some((place(key), text.as_ref()?.as_str()))));
            out.extend(of_value(&member.count).map(|text| (place("count"), text)));
            out.extend(of_value(&member.core).map(|text| (place("core"), text)));
            let texts =
                member.set.iter().filter_map(|(key, value)| Some((place(&format!("set.{key}")), as_text(value)?)));
            out.extend(texts);
        }
    }
    if let Some(record) = &recipe.record {
        out.extend(record.run.iter().map(|text| ("record.run".into(), text.as_str())));
        out.extend(record.input.iter().map(|text| ("record.input".into(), text.as_str())));
        out.extend(record.env.iter().map(|(key, text)| (format!("record.env.{key}"), text.as_str())));
        let files = record.system.iter().flat_map(|system| &system.files);
        out.extend(files.flat_map(|(here, there)| [here, there]).map(|t| ("record.system.files".into(), t.as_str())));
    }
    if let Some(server) = &recipe.server {
        out.extend(server.ready.iter().map(|text| ("server.ready".into(), text.as_str())));
        for (i, step) in server.drive.iter().enumerate() {
            of_step(&format!("server.drive {}", i + 1), step, &mut out);
        }
    }
    out
}

fn of_step<'a>(place: &str, step: &'a Step, out: &mut Vec<(String, &'a str)>) {
    out.extend(step.run.iter().chain(&step.output).map(|text| (place.to_owned(), text.as_str())));
    out.extend(step.env.iter().map(|(key, text)| (format!("{place}, env.{key}"), text.as_str())));
}

fn of_value(value: &Option<Value>) -> impl Iterator<Item = &str> {
    value.iter().filter_map(as_text)
}

fn as_text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        Value::Number(_) => None,
    }
}
