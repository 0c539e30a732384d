//! Functions in another order: what a linker that is given a profile makes of a program. An order is found by the calls
//! that the recording itself makes (`mmulab reorder`), kept as a file, and applied to a recording like any other
//! change.
//!
//! ```text
//! recording --Profile--> instructions and calls by function --C3--> order --place--> OrderFile
//! OrderFile + recording --moved--> the recording, its code where that order has it
//! ```

mod c3;
mod code;
mod file;
mod moved;
mod place;
mod profile;
mod units;

pub use c3::CLUSTER_BYTES;
pub use file::{Move, OrderFile, OrderedFile};
pub use moved::reshape;
pub use profile::{Profile, Tables};

use file::SCHEMA;
use serde::Serialize;

/// What a file's order rests on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OrderedSummary {
    /// Its path.
    pub path: String,
    /// Functions that are known.
    pub functions: usize,
    /// Those that executed anything.
    pub ran: usize,
    /// Their bytes.
    pub ran_bytes: u64,
    /// Pages of 4 KB that those touch, as the file has them.
    pub pages: u64,
    /// The same in the order found.
    pub ordered_pages: u64,
    /// Instructions executed in functions.
    pub instructions: u64,
    /// Instructions executed in code of the file that belongs to no function known.
    pub elsewhere: u64,
    /// Why its functions are not known, if so.
    pub unknown: Option<String>,
}

/// The order of a recording's functions by C3, and what it rests on.
pub fn by_calls(profile: Profile, trace: &str, cluster_bytes: u64) -> (OrderFile, Vec<OrderedSummary>) {
    let mut file = OrderFile { schema: SCHEMA, method: "c3".into(), trace: trace.to_owned(), files: Vec::new() };
    let mut summaries = Vec::new();
    for profile in profile.finish() {
        let ran = || profile.units.0.iter().zip(&profile.nodes).filter(|(_, node)| node.weight > 0);
        let instructions: u64 = ran().map(|(_, node)| node.weight).sum();
        if instructions + profile.elsewhere == 0 {
            continue;
        }
        let ordered = place::ordered(&profile, cluster_bytes);
        let moved = |offset: u64| {
            let moves = ordered.as_ref().map_or(&[][..], |ordered| &ordered.moves);
            moves.binary_search_by_key(&offset, |part| part.offset).map_or(offset, |at| moves[at].to)
        };
        summaries.push(OrderedSummary {
            path: profile.path.to_string(),
            functions: profile.units.0.len(),
            ran: ran().count(),
            ran_bytes: ran().map(|(_, node)| node.bytes).sum(),
            pages: pages(ran().map(|(unit, node)| (unit.range.start, node.bytes))),
            ordered_pages: pages(ran().map(|(unit, node)| (moved(unit.range.start), node.bytes))),
            instructions,
            elsewhere: profile.elsewhere,
            unknown: profile.unknown.clone(),
        });
        file.files.extend(ordered);
    }
    (file, summaries)
}

/// The number of base pages that ranges of bytes touch.
fn pages(ranges: impl Iterator<Item = (u64, u64)>) -> u64 {
    let mut touched: Vec<(u64, u64)> = ranges.map(|(start, bytes)| (start >> 12, (start + bytes - 1) >> 12)).collect();
    touched.sort_unstable();
    let (mut sum, mut next) = (0, 0);
    for (first, last) in touched {
        sum += (last + 1).saturating_sub(first.max(next));
        next = next.max(last + 1);
    }
    sum
}

#[cfg(test)]
mod tests;
