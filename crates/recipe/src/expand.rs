//! From a recipe of a mix to the mix, with everything known.

use crate::{Mix, Recipe, Value, braces::fill, mix::Member, resolve};
use mmulab_describe::DescribeError;
use mmulab_interleave::{MEMBERS_MAX, MemberDesc, MixDesc, Schedule};
use std::path::{Path, PathBuf};

/// Where things that mixes name are looked for, each list in order.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The directories of recipes.
    pub recipes: &'a [PathBuf],
    /// The directories where recordings of workloads are, as `NAME.mmt`.
    pub recordings: &'a [PathBuf],
}

/// The mix that a user calls `name`: a recipe by its name or its file's path, with what is to be set behind a question
/// mark (`pair?quantum=10k&cores=2`).
///
/// # Errors
/// It is no recipe of a mix, contradicts itself, or a member of it is not there.
pub fn mix(name: &str, places: Places) -> Result<MixDesc, DescribeError> {
    let (recipe, overrides) = name.split_once('?').unwrap_or((name, ""));
    let overrides: Vec<String> = overrides.split('&').filter(|set| !set.is_empty()).map(str::to_owned).collect();
    of(recipe, &overrides, places, &mut Vec::new())
}

/// `within`: the mixes that this one is a member of.
fn of(name: &str, overrides: &[String], places: Places, within: &mut Vec<PathBuf>) -> Result<MixDesc, DescribeError> {
    let (recipe, path) = resolve(name, places.recipes, overrides)?;
    let bad = |message: String| DescribeError::Impossible { name: recipe.name.clone(), message };
    let Some(mix) = &recipe.mix else {
        return Err(bad("it is not a mix: its recipe has no [mix] table; record it, or name its generator".into()));
    };
    if within.contains(&path) {
        return Err(bad("it is a member of itself: remove it from its members".into()));
    }
    within.push(path.clone());
    let filled = Filled { recipe: &recipe, instance: 0 };
    let schedule = schedule(mix, &filled)?;
    let mut members = Vec::new();
    for member in &mix.member {
        let count = match &member.count {
            Some(count) => filled.number("count", count, MEMBERS_MAX as u64)?,
            None => 1,
        };
        for instance in 1..=count {
            let filled = Filled { recipe: &recipe, instance };
            members.push(one(member, count, &filled, &path, places, within)?);
        }
    }
    within.pop();
    number_equal_names(&mut members);
    let keys = if overrides.is_empty() { String::new() } else { format!("?{}", overrides.join("&")) };
    Ok(MixDesc { name: format!("mix:{}{keys}", recipe.name), schedule, members })
}

fn schedule(mix: &Mix, filled: &Filled) -> Result<Schedule, DescribeError> {
    let quantum = filled.count("mix.quantum", &mix.quantum)?;
    if quantum == 0 {
        return Err(filled.bad("mix.quantum is 0: give a turn something to do".into()));
    }
    let cores = mix.cores.as_ref().map(|cores| filled.number("cores", cores, u64::from(u16::MAX))).transpose()?;
    if cores == Some(0) {
        return Err(filled.bad("mix.cores is 0: give 1 or more".into()));
    }
    if mix.migrate && cores.is_none() {
        return Err(filled.bad("mix.migrate needs to know among how many: give mix.cores".into()));
    }
    Ok(Schedule {
        apart: mix.apart,
        quantum,
        unit: mix.unit,
        cores: cores.map(|n| n as u16),
        migrate: mix.migrate,
        end: mix.end,
        instructions: mix.instructions.as_ref().map(|n| filled.count("mix.instructions", n)).transpose()?,
    })
}

/// An instance of a member.
fn one(
    member: &Member,
    count: u64,
    filled: &Filled,
    path: &Path,
    places: Places,
    within: &mut Vec<PathBuf>,
) -> Result<MemberDesc, DescribeError> {
    let mut desc = match (&member.workload, &member.trace) {
        (Some(workload), _) => of_workload(&filled.text(workload)?, member, filled, places, within)?,
        (None, Some(trace)) => of_trace(filled.text(trace)?, path),
        (None, None) => return Err(filled.bad("a member of the mix has neither `workload` nor `trace`".into())),
    };
    if let Some(name) = &member.name {
        desc.name = filled.text(name)?;
    }
    if count > 1 {
        desc.name = format!("{} {}", desc.name, filled.instance);
    }
    let optional = |key: &str, text: &Option<String>| text.as_ref().map(|text| filled.count(key, text)).transpose();
    desc.skip = optional("skip", &member.skip)?.unwrap_or(desc.skip);
    desc.instructions = optional("instructions", &member.instructions)?.or(desc.instructions);
    let stagger = optional("stagger", &member.stagger)?.unwrap_or(0);
    let after = optional("after", &member.after)?.unwrap_or(0);
    desc.after = after.saturating_add(stagger.saturating_mul(filled.instance - 1));
    let most = u64::from(u16::MAX) - 1;
    desc.core = member.core.as_ref().map(|core| filled.number("core", core, most)).transpose()?.map(|n| n as u16);
    Ok(desc)
}

fn of_trace(trace: String, path: &Path) -> MemberDesc {
    let (name, trace) = match trace.strip_prefix("gen:") {
        Some(generator) => (generator.split('?').next().unwrap_or(generator).to_owned(), trace),
        None => {
            let beside = path.parent().map(|directory| directory.join(&trace)).filter(|beside| beside.exists());
            let found = beside.unwrap_or_else(|| PathBuf::from(&trace));
            let stem = found.file_stem().map_or_else(|| trace.clone(), |stem| stem.to_string_lossy().into_owned());
            (stem, found.display().to_string())
        }
    };
    MemberDesc { name, trace, skip: 0, instructions: None, after: 0, core: None }
}

fn of_workload(
    name: &str,
    member: &Member,
    filled: &Filled,
    places: Places,
    within: &mut Vec<PathBuf>,
) -> Result<MemberDesc, DescribeError> {
    let overrides = member.set.iter().map(|(key, value)| Ok(format!("{key}={}", filled.text(&value.to_string())?)));
    let overrides: Vec<String> = overrides.collect::<Result<_, DescribeError>>()?;
    let (recipe, _) = resolve(name, places.recipes, &overrides)?;
    let mut desc = MemberDesc {
        name: recipe.name.clone(),
        trace: String::new(),
        skip: 0,
        instructions: None,
        after: 0,
        core: None,
    };
    if recipe.mix.is_some() {
        let inner = of(name, &overrides, places, within)?;
        let json = serde_json::to_string(&inner).map_err(|e| filled.bad(e.to_string()))?;
        desc.trace = format!("mix:{json}");
        return Ok(desc);
    }
    if let Some(generate) = &recipe.generate {
        let its = Filled { recipe: &recipe, instance: filled.instance };
        desc.trace = its.text(&generate.trace)?;
        desc.skip = its.count("generate.skip", &generate.skip)?;
        desc.instructions = Some(its.count("generate.instructions", &generate.instructions)?);
        return Ok(desc);
    }
    if let Some(why) = &recipe.refused {
        return Err(filled.bad(format!("its member {name} cannot be recorded: {why}")));
    }
    if !overrides.is_empty() {
        return Err(filled.bad(format!(
            "its member {name} is recorded: set what is to be otherwise when it is (`mmulab workloads record {name} \
             --set {}`)",
            overrides[0]
        )));
    }
    let file = format!("{}.mmt", recipe.name);
    let candidates: Vec<PathBuf> = places.recordings.iter().map(|directory| directory.join(&file)).collect();
    match candidates.iter().find(|candidate| candidate.exists()) {
        Some(found) => desc.trace = found.display().to_string(),
        None => {
            let looked: Vec<String> = candidates.iter().map(|candidate| candidate.display().to_string()).collect();
            return Err(filled.bad(format!(
                "its member {name} has not been recorded: there is no {}; record it with `mmulab workloads record \
                 {name}`",
                looked.join(" and no ")
            )));
        }
    }
    Ok(desc)
}

/// Members of one name are numbered, so that results can tell them apart.
fn number_equal_names(members: &mut [MemberDesc]) {
    let names: Vec<String> = members.iter().map(|member| member.name.clone()).collect();
    for (at, member) in members.iter_mut().enumerate() {
        if names.iter().filter(|name| **name == member.name).count() > 1 {
            let before = names[..at].iter().filter(|name| **name == names[at]).count();
            member.name = format!("{} #{}", names[at], before + 1);
        }
    }
}

/// Texts of a recipe, with names in braces replaced.
struct Filled<'a> {
    recipe: &'a Recipe,
    instance: u64,
}

impl Filled<'_> {
    fn bad(&self, message: String) -> DescribeError {
        DescribeError::Impossible { name: self.recipe.name.clone(), message }
    }

    fn text(&self, text: &str) -> Result<String, DescribeError> {
        let value = |name: &str| match name {
            "instance" => Some(self.instance.to_string()),
            name => self.recipe.parameter.get(name).map(|parameter| parameter.default.to_string()),
        };
        fill(text, value).map_err(|_| self.bad(format!("'{text}': its braces hold no parameter")))
    }

    fn count(&self, key: &str, text: &str) -> Result<u64, DescribeError> {
        let text = self.text(text)?;
        count(&text).ok_or_else(|| {
            self.bad(format!(
                "{key}: '{text}' is not a count; write a number, optionally with k, M or G (10^3, 10^6, 10^9)"
            ))
        })
    }

    fn number(&self, key: &str, value: &Value, most: u64) -> Result<u64, DescribeError> {
        let text = self.text(&value.to_string())?;
        text.parse()
            .ok()
            .filter(|&n| n <= most)
            .ok_or_else(|| self.bad(format!("{key}: '{text}' is not a whole number from 0 to {most}")))
    }
}

/// A count, with k, M, G or T behind it for powers of 1000.
fn count(text: &str) -> Option<u64> {
    let (digits, power) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 3),
        (at, 'M') => (&text[..at], 6),
        (at, 'G') => (&text[..at], 9),
        (at, 'T') => (&text[..at], 12),
        _ => (text, 0),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if part.len() > power || digits.ends_with('.') {
        return None;
    }
    let all = format!("{whole}{part}{}", "0".repeat(power - part.len()));
    if whole.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) { None } else { all.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_interleave::{Apart, Counted, End};

    const HEAD: &str = "title = \"T\"\nstanding = \"own\"\nwhy = \"a test\"\n";

    /// Recipes in a directory of their own, by their names.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str, recipes: &[(&str, &str)]) -> Self {
            let place = std::env::temp_dir().join(format!("mmulab-interleave-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&place).expect("a place");
            for (name, text) in recipes {
                let whole = format!("name = \"{name}\"\n{HEAD}{text}");
                std::fs::write(place.join(format!("{name}.toml")), whole).expect("a recipe");
            }
            Self(place)
        }

        fn mix(&self, name: &str) -> Result<MixDesc, String> {
            let own = std::slice::from_ref(&self.0);
            mix(name, Places { recipes: own, recordings: own }).map_err(|e| e.to_string())
        }

        fn refused(&self, name: &str) -> String {
            self.mix(name).expect_err("it must be refused")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const GUPS: &str = "[parameter.footprint]\ndefault = \"1M\"\nabout = \"size\"\n[generate]\n\
                        trace = \"gen:gups?footprint={footprint}\"\nskip = \"1k\"\ninstructions = \"2M\"\n";
    const PAIR: &str = "[parameter.n]\ndefault = 2\nabout = \"instances\"\n[mix]\nquantum = \"1.5k\"\ncores = \"{n}\"\n\
                        [[mix.member]]\nworkload = \"gups\"\nset = { footprint = \"4M\" }\ncount = \"{n}\"\n\
                        stagger = \"10\"\nafter = \"5\"\n\
                        [[mix.member]]\ntrace = \"gen:zipf?seed={instance}\"\nskip = \"7\"\ncore = 1\n";

    #[test]
    fn members_are_what_their_recipes_say() {
        let place = Place::new("members", &[("gups", GUPS), ("pair", PAIR)]);
        let found = place.mix("pair").expect("a mix");
        assert_eq!((found.name.as_str(), found.schedule.quantum, found.schedule.cores), ("mix:pair", 1500, Some(2)));
        let gups = |instance: u64| MemberDesc {
            name: format!("gups {instance}"),
            trace: "gen:gups?footprint=4M".into(),
            skip: 1000,
            instructions: Some(2_000_000),
            after: 10 * instance - 5,
            core: None,
        };
        assert_eq!(found.members[..2], [gups(1), gups(2)]);
        let zipf = &found.members[2];
        assert_eq!((zipf.name.as_str(), zipf.trace.as_str()), ("zipf", "gen:zipf?seed=1"));
        assert_eq!((zipf.skip, zipf.instructions, zipf.core), (7, None, Some(1)));
    }

    #[test]
    fn the_schedule_can_be_set_like_parameters() {
        let place = Place::new("schedule", &[("gups", GUPS), ("pair", PAIR)]);
        let found = place.mix("pair?n=3&quantum=9&unit=instructions&as=machines&end=first&cores=1").expect("a mix");
        assert_eq!(found.members.len(), 4);
        let schedule = &found.schedule;
        assert_eq!((schedule.quantum, schedule.unit, schedule.apart), (9, Counted::Instructions, Apart::Machines));
        assert_eq!((schedule.end, schedule.cores, schedule.migrate), (End::First, Some(1), false));
        assert!(place.refused("pair?quantum=0").contains("mix.quantum is 0"));
        assert!(place.refused("pair?cores=none").contains("'none' is not a whole number from 0 to 65535"));
        assert!(place.refused("pair?end=never").contains("--set end=never: unknown variant `never`"));
        assert!(place.refused("pair?quantom=3").contains("did you mean `quantum`?"));
    }

    #[test]
    fn a_mix_may_be_a_member_but_not_of_itself() {
        let outer =
            "[mix]\n[[mix.member]]\nworkload = \"pair\"\nset = { n = 1 }\n[[mix.member]]\nworkload = \"gups\"\n";
        let own = "[mix]\n[[mix.member]]\nworkload = \"own\"\n";
        let place = Place::new("nested", &[("gups", GUPS), ("pair", PAIR), ("outer", outer), ("own", own)]);
        let found = place.mix("outer").expect("a mix");
        assert!(found.members[0].trace.starts_with("mix:{\"name\":\"mix:pair?n=1\""), "{}", found.members[0].trace);
        assert!(place.refused("own").contains("own: it is a member of itself"));
    }

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        let recorded = "[record]\nrun = [\"true\"]\ninstructions = \"1M\"\n";
        let of = |member: &str| format!("[mix]\n[[mix.member]]\n{member}\n");
        let place = Place::new(
            "missing",
            &[
                ("never-recorded", recorded),
                ("absent", &of("workload = \"never-recorded\"")),
                ("set", &of("workload = \"never-recorded\"\nset = { n = 1 }")),
                ("empty", &of("name = \"x\"")),
                ("none", "[mix]\nmember = []\n"),
                ("wandering", "[mix]\nmigrate = true\nmember = [{ trace = \"gen:gups\" }]\n"),
                ("both", &format!("{recorded}{}", of("trace = \"gen:gups\""))),
            ],
        );
        let (absent, recording) = (place.refused("absent"), place.0.join("never-recorded.mmt"));
        assert!(absent.contains(&format!("there is no {}; record it with", recording.display())), "{absent}");
        assert!(absent.contains("`mmulab workloads record never-recorded`"), "{absent}");
        std::fs::write(&recording, "").expect("a recording");
        assert_eq!(place.mix("absent").expect("a mix").members[0].trace, recording.display().to_string());
        assert!(place.refused("set").contains("this workload has no parameter `n`"));
        assert!(place.refused("empty").contains("neither `workload` nor `trace`"));
        assert!(place.refused("none").contains("mix.member is empty"));
        assert!(place.refused("wandering").contains("give mix.cores"));
        assert!(place.refused("both").contains("one of them is the workload"));
        assert!(place.refused("never-recorded").contains("it is not a mix"));
    }

    #[test]
    fn members_of_one_name_are_numbered() {
        let twice = "[mix]\nmember = [{ trace = \"gen:gups\" }, { trace = \"gen:gups\" }, { trace = \"a/b.mmt\" }]\n";
        let place = Place::new("names", &[("twice", twice)]);
        let names: Vec<String> = place.mix("twice").expect("a mix").members.into_iter().map(|m| m.name).collect();
        assert_eq!(names, ["gups #1", "gups #2", "b"]);
    }

    #[test]
    fn counts_are_exact() {
        let known = [("0", 0), ("12", 12), ("1.5k", 1500), ("2M", 2_000_000), ("0.25G", 250_000_000)];
        assert!(known.iter().all(|&(text, n)| count(text) == Some(n)));
        assert!(["", "k", "1.", "1.5", "1.0005k", "-1", "1e3", "99999999999T"].iter().all(|t| count(t).is_none()));
    }
}
