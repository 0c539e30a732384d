//! The first level of a machine, as a text: machines with equal texts can have one search of it. The text holds all
//! that decides what the first level does: its arrays, and the kernel whose pages it holds.

use crate::describe::{Check, Resolved};
use mmulab_tlb::{ArrayDesc, Hierarchy};
use serde_json::json;

/// The text; `None` if the machine's first level cannot be simulated apart from the rest.
///
/// References that go through the caches need each hit, and threads of a core have arrays in common. What else a plain
/// machine may have is left to the trail ([`super`]), such as daemons that wake by the machine's clock.
pub(crate) fn first_level(desc: &Resolved, tlbs: &Hierarchy) -> Option<String> {
    let m = &desc.machine;
    let is_plain = desc.options.check == Check::None && !m.cache_rules.data && m.core.threads == 1;
    if !is_plain || !tlbs.can_share_first(&m.tlb, &m.tlb_rules) {
        return None;
    }
    let unsourced =
        |array: &ArrayDesc| ArrayDesc { source: String::new(), assumed: Default::default(), ..array.clone() };
    let arrays: Vec<ArrayDesc> = m.tlb.iter().filter(|array| array.level == 1).map(unsourced).collect();
    Some(
        json!({
            "arrays": arrays,
            "asid_bits": m.tlb_rules.asid_bits,
            "coalescing": m.tlb_rules.coalescing,
            "cores": m.core.count,
            "table": m.table,
            "memory": m.memory,
            "policy": desc.policy,
            "options": desc.options,
        })
        .to_string(),
    )
}
