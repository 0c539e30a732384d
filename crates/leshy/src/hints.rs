//! Hint files: a selection of page sizes that a later run of the program applies.
//!
//! A hint names the mapping it lies in and the offset there, not an address alone. Under address-space layout
//! randomisation a mapping has another address in every run. Mappings of one program that look alike are numbered in
//! the order in which the program made them.

use mmulab_addr::{PageOrder, Pid, VirtAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the format, as files contain it.
const FORMAT: &str = "mmulab-hints";
/// The version of the format that is written and read.
const VERSION: u32 = 1;

/// A mapping of a program, as reports name it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mapping {
    /// The path of the program. Empty for a trace that begins without an exec.
    pub program: String,
    /// The name that reports give it: a file with its access rights, `[heap]`, `[stack]`, `anon`.
    pub name: String,
    /// The access rights it was first mapped with: `rw-`.
    pub prot: String,
    /// Its number among the program's mappings of that name and those rights, in the order of their making; the first
    /// is 0.
    #[schemars(range(min = 0, max = 4_294_967_295_i64))]
    pub nth: u64,
}

impl Mapping {
    /// No mapping: offsets are addresses.
    pub fn none() -> Self {
        Self { program: String::new(), name: "(unmapped)".into(), prot: "---".into(), nth: 0 }
    }
}

/// A page size for a piece of memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hint {
    /// The page size, which is also the length.
    pub size: PageOrder,
    /// The mapping that it lies in, or of which most of its misses are.
    pub mapping: Mapping,
    /// Bytes from the address at which the mapping was first made to the first byte hinted. Negative where the hinted
    /// memory begins below that.
    #[schemars(range(min = -9_007_199_254_740_991_i64, max = 9_007_199_254_740_991_i64))]
    pub offset: i64,
    /// The process that was profiled.
    #[schemars(with = "u32", range(min = 0, max = 4_294_967_295_u32))]
    pub pid: Pid,
    /// Its first address in the profiled run.
    #[schemars(with = "u64", range(min = 0, max = 18_446_744_073_709_551_615_u64))]
    pub start: VirtAddr,
    /// Sampled misses in it.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub misses: u64,
    /// Cycles of their walks.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub cycles: u64,
}

/// Where hints come from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HintSource {
    /// The trace that was profiled.
    pub trace: String,
    /// The machine it ran on.
    pub machine: String,
    /// The page policy it ran under.
    pub policy: String,
    /// Kind of the samples: `misses` or `accessed`.
    pub sampler: String,
    /// One of this number of misses was sampled.
    #[schemars(range(min = 1, max = 1_000_000_000_i64))]
    pub period: u64,
    /// How the sizes were selected: `artifact`, `paper` or `optimum`.
    pub method: String,
    /// Weight of a miss: `misses` or `latency`.
    pub weight: String,
    /// The share of the misses that was asked for, in 1/100000.
    #[schemars(range(min = 1, max = 100_000_i64))]
    pub target: u32,
    /// The TLB entries that were to suffice.
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_i64))]
    pub entries: u64,
    /// The sampled misses that the selection covers, as weighed.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub covered: u64,
    /// All sampled misses, as weighed.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub total: u64,
}

/// A file of hints.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Translation-size hints of mmulab")]
pub struct HintFile {
    /// `mmulab-hints`.
    pub format: String,
    /// The version of the format: 1.
    #[schemars(range(min = 1, max = 4_294_967_295_i64))]
    pub version: u32,
    /// Where the hints come from.
    pub source: HintSource,
    /// The hints, most important first. They do not overlap.
    pub hints: Vec<Hint>,
}

impl HintFile {
    /// A file of `hints`.
    pub fn new(source: HintSource, hints: Vec<Hint>) -> Self {
        Self { format: FORMAT.into(), version: VERSION, source, hints }
    }

    /// Reads the text of a file called `name`.
    ///
    /// # Errors
    /// It is not a hint file, or of another version.
    pub fn read(name: &str, text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let what = "`mmulab leshy --out FILE` writes hint files";
        let head: Head = serde_json::from_str(text).map_err(|e| format!("{name}: not a hint file ({e}); {what}"))?;
        if head.format != FORMAT {
            return Err(format!("{name}: its format is {:?}, not {FORMAT:?}; {what}", head.format));
        }
        if head.version != VERSION {
            let version = head.version;
            return Err(format!(
                "{name}: hints of version {version}; this mmulab reads version {VERSION}: write it anew"
            ));
        }
        serde_json::from_str(text).map_err(|e| format!("{name}: {e}; {what}"))
    }
}
