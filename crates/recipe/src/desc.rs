//! Schema of workload recipes (`workloads/NAME.toml`): one type per table and one field per key. Parser and JSON
//! schema both derive from these types, so the comments of the fields are also the documentation of the keys.

use crate::{Mix, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A workload: a real program, how to get, start and drive it, which part of it is recorded, and what that stands for.
///
/// Commands, inputs and variables may contain names in braces. `{work}` is a directory made for this run and removed
/// after it. `{files}` is a copy of the recipe's files, and `{cache}` the directory of fetched files. `{port}` is a
/// free port on the loopback interface, and `{NAME}` the value of a parameter. A brace that is meant as such is written
/// twice.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The name it is chosen by, equal to its file's.
    pub name: String,
    /// The name people know it by.
    pub title: String,
    /// The program, and its properties.
    #[serde(default)]
    pub about: String,
    /// How true it is to what the papers ran.
    pub standing: Standing,
    /// The reason: the parts that are as in the papers, and those that are smaller, newer or left out.
    pub why: String,
    /// Why it cannot be recorded, and what would be needed. A recipe with this is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Statements of papers about it.
    #[serde(default)]
    pub paper: Vec<Paper>,
    /// Parameters that `--set` can change.
    #[serde(default)]
    pub parameter: BTreeMap<String, Parameter>,
    /// Packages and files that it needs.
    #[serde(default)]
    pub install: Install,
    /// Run as an unprivileged user: programs that refuse to serve root must be, and servers that need no rights of
    /// root's should be. Nothing changes for users who are not root.
    #[serde(default)]
    pub unprivileged: bool,
    /// The directory of `workloads/files` that `{files}` is a copy of. Default: the recipe's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// Bytes free on the disk of the work directory without which it is not begun, such as `500M` (powers of 1024).
    #[serde(default = "default_room")]
    pub room: String,
    /// Commands that run before, natively, in the work directory.
    #[serde(default)]
    pub setup: Vec<Step>,
    /// The generator that stands for the program, in place of `record`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<Generate>,
    /// Other workloads that run beside each other, in place of `record`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mix>,
    /// The recorded program. Absent in a recipe that is refused, generated or a mix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
    /// That the recorded program is a server, and what drives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// Bounds that `check` holds a short recording to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
}

fn default_room() -> String {
    "500M".into()
}

/// How true a recipe is to what the papers ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// The program, its input and its options are the paper's, but for versions.
    Faithful,
    /// The program is the paper's; its input, its length or its surroundings are smaller or others.
    Reduced,
    /// No paper ran it.
    Own,
}

/// Statements of a paper about a workload.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Which paper, and where in it.
    pub source: String,
    /// The mechanisms' numbers in the project's list of them, such as `S1-M042`.
    #[serde(default)]
    pub mechanisms: Vec<String>,
    /// The program that it ran, in its words or nearly.
    pub ran: String,
    /// Figures it states: their names, and the figures with their units.
    #[serde(default)]
    pub stated: BTreeMap<String, String>,
}

/// A value that `--set` can change.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its value unless set, scaled to what runs here. What is set must be of the same kind: a whole number or a text.
    pub default: Value,
    /// The paper's value, if it states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<Value>,
    /// Its meaning, with its unit.
    pub about: String,
}

/// Packages and files that must be there, and their sources. Files that are fetched are kept in the cache.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Install {
    /// Debian packages. Root has missing ones installed; for others, the command lists them.
    #[serde(default)]
    pub apt: Vec<Package>,
    /// npm packages with their exact versions (`react@18.2.0`), installed to `{cache}/node_modules` without running
    /// their scripts. npm checks what it fetches against the registry's digests.
    #[serde(default)]
    pub npm: Vec<String>,
    /// Files out of crates, copied to `{cache}/FILE`.
    #[serde(default, rename = "crate")]
    pub crates: Vec<CrateFile>,
    /// Artifacts of Maven's central repository, copied to `{cache}/FILE`.
    #[serde(default)]
    pub maven: Vec<Artifact>,
}

/// A Debian package.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Its name.
    pub package: String,
    /// The program (looked for in PATH) or the file (an absolute path, `*` stands for any part of a name) whose
    /// presence says that it is installed.
    pub provides: String,
}

/// A file out of a crate.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrateFile {
    /// The crate.
    pub name: String,
    /// Its exact version.
    pub version: String,
    /// The file's path in the crate.
    pub take: String,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
}

/// An artifact of Maven's central repository.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// `group:artifact:version`, or `group:artifact:version:packaging:classifier`.
    pub artifact: String,
    /// The name of the file it becomes.
    pub file: String,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
}

/// A command.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The program and its arguments.
    pub run: Vec<String>,
    /// A file that its output is written to. Default: shown if it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Variables added to its environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// A generator that executes the program's algorithm, where its data or its size forbid recording.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Generate {
    /// The generator with its keys: `gen:NAME?key=value`. Only parameters may stand in braces.
    pub trace: String,
    /// One that is so small that its algorithm is run as a program, recorded, and compared with it by `check`. Default:
    /// `trace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin: Option<String>,
    /// Instructions that are left out, such as `10M` (powers of 1000).
    #[serde(default = "none")]
    pub skip: String,
    /// Instructions that are taken, such as `100M`.
    pub instructions: String,
}

/// The recorded program and the part of it that is recorded.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The program and its arguments; it runs in the work directory.
    pub run: Vec<String>,
    /// A file that it reads as its standard input. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Variables added to its environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Instructions left out at the beginning: start-up and warm-up, such as `500M` (powers of 1000).
    #[serde(default = "none")]
    pub skip: String,
    /// Instructions recorded, such as `100M`; the program is stopped then.
    pub instructions: String,
    /// QEMU's CPU model, for programs that trip over emulated extensions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Record a whole system that runs it, its kernel too. The program, `server.ready` and `server.drive` run there.
    /// What is left out is counted from the first client on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
}

/// The system that a recorded program runs in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Its memory, such as `2G`; its files are in it, too.
    #[serde(default = "default_memory")]
    pub memory: String,
    /// When it gives transparent huge pages: `always`, `madvise` or `never`. Default: the kernel's own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thp: Option<Thp>,
    /// Files and directories it has besides the programs and their libraries: where they are there, by where they are
    /// here.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// When Linux gives transparent huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Thp {
    /// Wherever they fit.
    Always,
    /// Where madvise(2) asks for them.
    Madvise,
    /// Never.
    Never,
}

fn default_memory() -> String {
    "1G".into()
}

fn none() -> String {
    "0".into()
}

/// A client that drives a recorded server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// A command that succeeds once the server serves. Default: it serves when `{port}` takes connections.
    #[serde(default)]
    pub ready: Vec<String>,
    /// Seconds it may take until then; under the recorder everything takes longer.
    #[serde(default = "ready_seconds")]
    #[schemars(range(min = 1, max = 86_400))]
    pub ready_seconds: u32,
    /// The clients: commands run natively one after the other, and again from the first, until enough is recorded.
    pub drive: Vec<Step>,
    /// How often the clients run if the recording does not end before.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub times: u32,
    /// The signal that asks the server to end when the clients are done.
    #[serde(default)]
    pub stop: Signal,
}

fn ready_seconds() -> u32 {
    120
}

fn one() -> u32 {
    1
}

/// A signal that asks a program to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum Signal {
    /// The signal that `kill` sends.
    #[default]
    #[serde(rename = "SIGTERM")]
    Term,
    /// The signal that Ctrl-C sends.
    #[serde(rename = "SIGINT")]
    Int,
}

/// Bounds of a short recording: the least and the most of each, both allowed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Instructions of the short recording, after those left out.
    pub instructions: String,
    /// Instructions left out before it. Default: those of `record`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
    /// Different 4 KB pages that code is fetched from.
    #[schemars(inner(range(min = 0, max = 1_000_000_000_000_u64)))]
    pub code_pages: [u64; 2],
    /// Different 4 KB pages that are loaded from or stored to.
    #[schemars(inner(range(min = 0, max = 1_000_000_000_000_u64)))]
    pub data_pages: [u64; 2],
    /// Processes that appear.
    #[serde(default = "single")]
    #[schemars(inner(range(min = 0, max = 1_000_000_000_000_u64)))]
    pub processes: [u64; 2],
    /// Threads of all of them.
    #[serde(default = "single")]
    #[schemars(inner(range(min = 0, max = 1_000_000_000_000_u64)))]
    pub threads: [u64; 2],
}

fn single() -> [u64; 2] {
    [1, 1]
}
