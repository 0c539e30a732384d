//! Places of functions in an order: those of each section, one behind the other, from where its first one began.

use super::{
    c3::{Call, order},
    file::{Move, OrderedFile},
    profile::FileProfile,
};

/// The order of the functions of a file by C3; none if none of them moves.
pub fn ordered(profile: &FileProfile, cluster_bytes: u64) -> Option<OrderedFile> {
    let units = &profile.units.0;
    let mut moves = Vec::new();
    let sections = units.last().map_or(0, |last| last.section + 1);
    for section in 0..sections {
        // Sections are in the order of the file, and so are their functions.
        let members: Vec<usize> = (0..units.len()).filter(|&number| units[number].section == section).collect();
        let Some(&first) = members.first() else { continue };
        let local = |number: usize| members.binary_search(&number).ok();
        let nodes: Vec<_> = members.iter().map(|&number| profile.nodes[number]).collect();
        let calls: Vec<Call> = profile
            .calls
            .iter()
            .filter_map(|call| Some(Call { from: local(call.from)?, to: local(call.to)?, count: call.count }))
            .collect();
        let mut to = units[first].range.start;
        for number in order(&nodes, &calls, cluster_bytes) {
            let unit = &units[members[number]];
            let (offset, bytes) = (unit.range.start, unit.range.end - unit.range.start);
            if offset != to {
                moves.push(Move { offset, bytes, to, name: unit.name.clone() });
            }
            to += bytes;
        }
    }
    moves.sort_by_key(|part| part.offset);
    (!moves.is_empty()).then(|| OrderedFile { path: profile.path.to_string(), moves })
}
