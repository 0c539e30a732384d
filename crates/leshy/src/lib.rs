//! Leshy selects a page size for each part of a program's memory (paper 3, section IV-D). A TLB of N entries then
//! covers most of the program's TLB misses.
//!
//! ```text
//! profile     samples of TLB misses, summed up by 4 KiB page
//! goal        what is asked: share of the misses, entries of the TLB, what misses are weighed by
//! bins        the pages of a profile as bins of every page size, hottest first
//! board       bins that are chosen, and those that may still be chosen beside them
//! selection   the result: bins that do not overlap
//! artifact    the heuristic of the paper's published artifact
//! paper       the paper's Algorithm 1
//! bound       bytes that no selection can be below, and a selection near them
//! hints       a selection as a file that a later run applies
//! file        a profile as a file, and its selections as hints
//! ask         a question as JSON, and its answer
//! ```
//!
//! Each line uses only those above it. Nothing here knows machines, kernels or traces.

mod artifact;
mod ask;
mod bins;
mod board;
mod bound;
mod file;
mod goal;
mod hints;
mod paper;
mod profile;
mod selection;

pub use artifact::artifact;
pub use ask::{Answer, Ask, Candidates, Method, Problem};
pub use bins::{Bin, Bins, Entry, Level};
pub use bound::{bound, by_prices};
pub use file::{Heat, ProfileFile, ProfileHead, ProfiledMapping, Row};
pub use goal::{Budget, Goal, LeshyError, WHOLE, Weight};
pub use hints::{Hint, HintFile, HintSource, Mapping};
pub use paper::paper;
pub use profile::{Page, Profile};
pub use selection::Selection;
