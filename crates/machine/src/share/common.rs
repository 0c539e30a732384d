//! What machines with one search of their TLBs have in common, as a text: those with equal texts may share it. The text
//! holds all that decides what these levels do: their arrays, and the kernel whose pages they hold.

use crate::describe::{Check, Resolved};
use mmulab_tlb::{ArrayDesc, Hierarchy, HierarchyDesc, SharedLevels};
use serde_json::json;

/// The text for these levels; `None` if they cannot be simulated apart from the rest.
///
/// An adviser has a state of its own. References that go through the caches need each hit, and threads of a core have
/// arrays in common. What else a plain machine may have is left to the trail ([`super`]), such as daemons that wake by
/// the machine's clock.
pub(crate) fn in_common(desc: &Resolved, tlbs: &Hierarchy, levels: SharedLevels) -> Option<String> {
    let m = &desc.machine;
    let is_plain =
        desc.adviser.is_none() && desc.options.check == Check::None && !m.cache_rules.data && m.core.threads == 1;
    let is_apart = match levels {
        SharedLevels::First => tlbs.can_share_first(&m.tlb, &m.tlb_rules),
        SharedLevels::Both => !m.tlb.is_empty(),
    };
    if !is_plain || !is_apart {
        return None;
    }
    let of_level = |array: &&ArrayDesc| levels == SharedLevels::Both || array.level == 1;
    let unsourced =
        |array: &ArrayDesc| ArrayDesc { source: String::new(), assumed: Default::default(), ..array.clone() };
    let arrays: Vec<ArrayDesc> = m.tlb.iter().filter(of_level).map(unsourced).collect();
    let rules = HierarchyDesc { source: String::new(), assumed: Default::default(), ..m.tlb_rules.clone() };
    Some(
        json!({
            "arrays": arrays,
            "rules": rules,
            "cores": m.core.count,
            "table": m.table,
            "memory": m.memory,
            "policy": desc.policy,
            "options": desc.options,
        })
        .to_string(),
    )
}
