//! Parser of generator texts: from `gen:NAME?key=value` to a trace source or a run in real memory. Keys are checked
//! against the schema of the generator. Texts of equal meaning get one canonical identity, the basis of the trace's
//! hash.
//!
//! ```text
//! gen:NAME?keys --split--> GPU program? --> gpu::open                                (open)
//!                 |
//!                 `-> parse --> built: checked description, algorithm --> Generator     (open)
//!                                                                `---> native::run   (run_native)
//! ```

use crate::{
    algorithm::Algorithm,
    algorithms::{self, NAMES, Visit},
    generator::Generator,
    gpu,
    layout::Region,
    native,
    part::Part,
    program::{Manner, Program},
    query::{count, hint},
};
use mmulab_trace::Source;
use serde_json::{Map, Value};
use thiserror::Error;

/// Why a `gen:` text is no generator.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{text}: {what}")]
pub struct GenerateError {
    text: String,
    what: String,
}

impl GenerateError {
    /// The same without the text.
    pub fn what(&self) -> &str {
        &self.what
    }
}

/// Why a generator's algorithm did not run in real memory.
#[derive(Debug, Error)]
pub enum NativeError {
    /// It is no generator.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// Its arrays cannot be mapped.
    #[error("{text}: its arrays cannot be mapped: {error}")]
    Map {
        /// Which.
        text: String,
        /// Why.
        error: std::io::Error,
    },
}

/// The generators with the schemas of their parameters, as JSON.
pub fn list() -> Value {
    let all = algorithms::schemas()
        .into_iter()
        .chain(gpu::schemas())
        .map(|(name, schema)| (name.to_owned(), schema.to_value()));
    Value::Object(all.collect())
}

/// A `gen:` text taken apart.
struct Asked<'a> {
    name: &'a str,
    keys: Map<String, Value>,
    part: Part,
    populate: bool,
    manner: Manner,
}

/// The name that a `gen:` text has, and its keys.
fn split(text: &str) -> Result<(&str, Map<String, Value>), String> {
    let rest = text.strip_prefix("gen:").ok_or("a generator is written gen:NAME?key=value")?;
    let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut keys = Map::new();
    for pair in query.split('&').filter(|p| !p.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("'{pair}' is not key=value"))?;
        if keys.insert(key.to_owned(), Value::from(value)).is_some() {
            return Err(format!("{key} is given twice"));
        }
    }
    Ok((name, keys))
}

fn parse(text: &str) -> Result<Asked<'_>, String> {
    let (name, mut keys) = split(text)?;
    let part = part(&mut keys)?;
    let populate = truth("populate", &mut keys)?;
    let manner = manner(&mut keys)?;
    Ok(Asked { name, keys, part, populate, manner })
}

/// `part=K/N`, which all generators take.
fn part(keys: &mut Map<String, Value>) -> Result<Part, String> {
    let Some(Value::String(given)) = keys.remove("part") else { return Ok(Part::WHOLE) };
    given
        .split_once('/')
        .and_then(|(index, count)| Some(Part { index: index.parse().ok()?, count: count.parse().ok()? }))
        .filter(|part| part.index < part.count)
        .ok_or_else(|| format!("part is '{given}': give K/N, part K (from 0) of N, such as 0/4"))
}

/// `populate=true` or `init=true`, which all generators take.
fn truth(key: &str, keys: &mut Map<String, Value>) -> Result<bool, String> {
    let Some(Value::String(given)) = keys.remove(key) else { return Ok(false) };
    given.parse().map_err(|_| format!("{key} is '{given}': give true or false"))
}

/// Most threads.
const THREADS_MAX: u64 = 1024;
/// Most rounds of a thread's turn.
const QUANTUM_MAX: u64 = 1 << 40;

/// `init=true`, which all generators take, and `threads=N` and `quantum=N`, which those take that threads can share.
fn manner(keys: &mut Map<String, Value>) -> Result<Manner, String> {
    let init = truth("init", keys)?;
    let usual = Manner::default();
    let mut number = |key: &str, usual: u64, most: u64| {
        let Some(Value::String(given)) = keys.remove(key) else { return Ok(usual) };
        let found = count(&given).filter(|n| (1..=most).contains(n));
        found.ok_or_else(|| format!("{key} is '{given}': give 1 to {most}"))
    };
    let threads = number("threads", usual.threads, THREADS_MAX)?;
    let quantum = number("quantum", usual.quantum, QUANTUM_MAX)?;
    Ok(Manner { init, threads, quantum })
}

fn visit<V: Visit>(text: &str, asked: Asked<'_>, what: V) -> Result<V::Out, GenerateError> {
    let bad = |what: String| GenerateError { text: text.to_owned(), what };
    let Asked { name, keys, .. } = asked;
    let unknown = || match gpu::is_known(name) {
        true => format!("{name} is told of warps, and has no program for processors"),
        false => {
            let known: Vec<&str> = NAMES.iter().chain(gpu::NAMES).copied().collect();
            format!("no generator '{name}'{}; known: {}", hint(name, &known), known.join(", "))
        }
    };
    algorithms::with(name, keys, what).ok_or_else(|| bad(unknown()))?.map_err(bad)
}

/// As [`visit`], where what is done may find a mistake, too.
fn try_visit<T, V: Visit<Out = Result<T, String>>>(text: &str, asked: Asked<'_>, what: V) -> Result<T, GenerateError> {
    visit(text, asked, what)?.map_err(|what| GenerateError { text: text.to_owned(), what })
}

struct Open<'a> {
    text: &'a str,
    part: Part,
    populate: bool,
    manner: Manner,
}

impl Visit for Open<'_> {
    type Out = Result<Box<dyn Source>, String>;

    fn visit<A: Algorithm>(self, algorithm: A, mut identity: String) -> Self::Out {
        if self.part != Part::WHOLE {
            identity += &format!("&part={}/{}", self.part.index, self.part.count);
        }
        if self.populate {
            identity += "&populate=true";
        }
        let Manner { init, threads, quantum } = self.manner;
        if init {
            identity += "&init=true";
        }
        if threads > 1 {
            identity += &format!("&threads={threads}&quantum={quantum}");
        }
        let program = Program::new(algorithm, self.manner)?;
        Ok(Box::new(Generator::new(self.text.to_owned(), identity, program, self.part).populated(self.populate)))
    }
}

/// The generator that `gen:NAME?key=value&key=value` names.
///
/// # Errors
/// An unknown name or key, with the nearest known one, or a value that cannot be.
pub fn open(text: &str) -> Result<Box<dyn Source>, GenerateError> {
    let bad = |what: String| GenerateError { text: text.to_owned(), what };
    if let Ok((name, keys)) = split(text)
        && gpu::is_known(name)
    {
        return gpu::open(name, text, keys).map_err(bad);
    }
    let asked = parse(text).map_err(|what| GenerateError { text: text.to_owned(), what })?;
    let Asked { part, populate, manner, .. } = asked;
    try_visit(text, asked, Open { text, part, populate, manner })
}

struct Regions;

impl Visit for Regions {
    type Out = Vec<Region>;

    fn visit<A: Algorithm>(self, algorithm: A, _identity: String) -> Self::Out {
        algorithm.layout().regions().to_vec()
    }
}

/// Where the arrays of the generator that `text` names lie, and how many threads it has.
pub(crate) fn regions(text: &str) -> Result<(Vec<Region>, u64), GenerateError> {
    let asked = parse(text).map_err(|what| GenerateError { text: text.to_owned(), what })?;
    let threads = asked.manner.threads;
    Ok((visit(text, asked, Regions)?, threads))
}

struct Run(Manner);

impl Visit for Run {
    type Out = Result<std::io::Result<native::Done>, String>;

    fn visit<A: Algorithm>(self, algorithm: A, _identity: String) -> Self::Out {
        Ok(native::run(Program::new(algorithm, self.0)?))
    }
}

/// Runs the algorithm that `gen:NAME?key=value&key=value` names in real memory.
///
/// # Errors
/// It is no generator, asks for a part, or its arrays cannot be mapped.
pub fn run_native(text: &str) -> Result<native::Done, NativeError> {
    let bad = |what: String| GenerateError { text: text.to_owned(), what };
    let asked = parse(text).map_err(bad)?;
    if asked.part != Part::WHOLE {
        return Err(bad("a program of its own does all of the work: leave out part".into()).into());
    }
    let manner = asked.manner;
    try_visit(text, asked, Run(manner))?.map_err(|error| NativeError::Map { text: text.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        open(text).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn arrays_may_be_there_beforehand() {
        let mapped = |text: &str| -> Vec<bool> {
            let mut batch = Default::default();
            assert!(open(text).unwrap().next_batch(&mut batch).unwrap());
            let populate = |e: &mmulab_trace::Event| match e {
                mmulab_trace::Event::Mmap { flags, .. } => Some(flags.populate),
                _ => None,
            };
            batch.events.iter().filter_map(populate).collect()
        };
        assert_eq!(mapped("gen:gups"), [false, false]);
        assert_eq!(mapped("gen:gups?populate=true"), [false, true], "code is not filled");
        assert!(refused("gen:gups?populate=yes").contains("give true or false"));
    }

    #[test]
    fn mistakes_are_named_with_the_nearest_right_thing() {
        assert!(refused("gen:gupps").contains("did you mean 'gups'?"));
        assert!(refused("gen:gups?footprnt=1G").contains("did you mean 'footprint'?"));
        assert!(refused("gen:gups?footprint=3M").contains("power of two"));
        assert!(refused("gen:stride?stride=0").contains("stride is 0: give 1 to 64T"));
        assert!(refused("gen:zipf?exponent=0").contains("exponent is 0"));
        assert!(refused("gen:sparse?share=0").contains("share is 0"));
        assert!(refused("gen:gups?updates=many").contains("updates is 'many', which is not a number: give 0 to"));
        assert!(refused("gen:stride?footprint=64K&stride=65K").contains("stride is 65K: give 1 to the footprint, 64K"));
        assert!(refused("gen:pointer-chase?footprint=4K&node=8K").contains("node is 8K: give 8 to the footprint, 4K"));
        assert!(refused("gen:svm?features=16&nonzeros=17").contains("nonzeros is 17: give 1 to features, 16"));
        assert!(refused("gen:svm?instances=3&blocks=4").contains("blocks is 4: give 1 to instances, 3"));
        assert!(refused("gen:xsbench?gridpoints=2").contains("gridpoints is 2: give 0 or 3 to 1073741824"));
        assert!(refused("gen:gups?seed=1&seed=2").contains("twice"));
        assert!(refused("gen:gups?part=4/4").contains("give K/N"));
        assert!(refused("gen:gups?init=1").contains("init is '1': give true or false"));
        assert!(refused("gen:gups?threads=0").contains("threads is '0': give 1 to 1024"));
        assert!(refused("gen:pointer-chase?threads=2").contains("one thread does all"));
    }

    #[test]
    fn texts_that_mean_the_same_have_one_identity() {
        let hash = |text: &str| open(text).unwrap().info().hash.clone().unwrap();
        let one = hash("gen:gups?footprint=1G&seed=1");
        assert!(one.starts_with("gen:gups?footprint=1073741824&seed=1&updates=1000000"), "{one}");
        assert_eq!(one, hash("gen:gups?updates=1000000&footprint=1024M"));
        assert_eq!(one, hash("gen:gups?updates=1e6&footprint=1073741824"));
        assert_ne!(one, hash("gen:gups?footprint=1G&seed=2"));
        assert_eq!(one, hash("gen:gups?updates=1M&footprint=1G&part=0/1"));
        assert_ne!(one, hash("gen:gups?updates=1M&footprint=1G&part=0/2"));
        assert_eq!(one, hash("gen:gups?footprint=1G&threads=1&quantum=9&init=false"));
        assert_ne!(hash("gen:gups?threads=2"), hash("gen:gups?threads=2&quantum=9"));
    }
}
