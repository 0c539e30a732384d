//! Every number of every generator has a range, which its schema declares and its refusal names.

use mmulab_workload::{list, open};
use serde_json::Value;

/// A key that is a number or a size, with the ends of its range as a user writes them.
struct Key {
    generator: String,
    name: String,
    least: String,
    most: String,
}

fn keys() -> Vec<Key> {
    let mut found = Vec::new();
    for (generator, schema) in list().as_object().expect("schemas by name") {
        for (name, field) in schema["properties"].as_object().expect("keys") {
            let end = |bytes: &str, number: &str| match (&field[bytes], &field[number]) {
                (Value::String(text), _) => text.clone(),
                (_, Value::Number(number)) => number.to_string().trim_end_matches(".0").to_owned(),
                _ => panic!("{generator} declares no range of {name}"),
            };
            if !["size", "workload"].contains(&name.as_str()) {
                let (least, most) = (end("x-least", "minimum"), end("x-most", "maximum"));
                found.push(Key { generator: generator.clone(), name: name.clone(), least, most });
            }
        }
        // What generators take besides their own keys.
        let common: &[(&str, &str)] = match generator.starts_with("gpu-") {
            true => &[("cores", "1024"), ("warps", "1024"), ("instructions", "31")],
            false => &[("threads", "1024"), ("quantum", "1099511627776")],
        };
        found.extend(common.iter().map(|&(name, most)| Key {
            generator: generator.clone(),
            name: name.into(),
            least: "1".into(),
            most: most.into(),
        }));
    }
    assert!(found.len() > 150, "{} keys", found.len());
    found
}

fn refusal(generator: &str, keys: &str) -> Option<String> {
    open(&format!("gen:{generator}?{keys}")).err().map(|error| error.to_string())
}

#[test]
fn what_is_out_of_range_is_refused_with_the_key_and_the_range() {
    for Key { generator, name, most, .. } in keys() {
        for odd in
            ["nan", "inf", "-inf", "-1", "1e18", "1e308", "18446744073709551616", "18446744073709551615", "much", ""]
        {
            // Seeds may be large.
            if name == "seed" && odd == "1e18" {
                continue;
            }
            let given = format!("{name}={odd}");
            let said = refusal(&generator, &given).unwrap_or_else(|| panic!("{generator} takes {given}"));
            assert!(said.starts_with(&format!("gen:{generator}?{given}: {name} is ")), "{said}");
            assert!(said.contains(": give ") && said.ends_with(&format!("to {most}{}", unit(&said))), "{said}");
        }
    }
}

/// What follows a range of sizes that the value is no size at all.
fn unit(said: &str) -> &'static str {
    if said.contains("not a number of bytes") { ", such as 64K" } else { "" }
}

#[test]
fn the_ends_of_ranges_are_taken_or_refused_in_words() {
    // Each alone and, as far as they go together, all at once. The preparations of a generator at its start do not
    // overflow. They do not take the memory that it would have the program take.
    let all = keys();
    for key in &all {
        for end in [&key.least, &key.most] {
            check(&key.generator, &format!("{}={end}", key.name));
        }
    }
    for generator in all.iter().map(|key| &key.generator) {
        let own = || all.iter().filter(|key| &key.generator == generator);
        for end in [|key: &Key| key.least.clone(), |key: &Key| key.most.clone()] {
            let keys: Vec<String> = own().map(|key| format!("{}={}", key.name, end(key))).collect();
            check(generator, &keys.join("&"));
        }
    }
}

#[test]
fn a_part_is_one_of_as_many_as_can_be_counted() {
    for odd in ["nan/2", "1/inf", "-1/2", "2/2", "0/0", "0/18446744073709551616", "1e18", "1/2/3", ""] {
        let said = refusal("gups", &format!("part={odd}")).unwrap_or_else(|| panic!("it takes part={odd}"));
        assert!(said.contains(&format!("part is '{odd}': give K/N, part K (from 0) of N")), "{said}");
    }
    check("gups", "part=18446744073709551614/18446744073709551615");
}

fn check(generator: &str, keys: &str) {
    let Some(said) = refusal(generator, keys) else { return };
    let reasons = ["make it smaller", "make the graph smaller", "give ", "one thread does all", "the graph has"];
    assert!(reasons.iter().any(|reason| said.contains(reason)), "{said}");
}
