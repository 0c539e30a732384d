//! Plain entries: one page of the table each, in the set of its own number.
//!
//! ```text
//! | flags | ASID, page number less the bits that choose the set | page size | frame |
//! ```

use super::{About, Built, Cost, Keys, Kind, Looks, Plan};
use crate::pages::Pages;

pub const ABOUT: About = About {
    name: "plain",
    doc: "One page of the table.",
    keys: Keys::OF_PAGES,
    coalesces: false,
    cost: |desc, _| Cost::plain(desc),
};

pub fn build(plan: &Plan) -> Result<Built, String> {
    if let Some(group) = plan.desc.group {
        return Err(format!("group is {group}: a plain array coalesces nothing; give design or leave it out"));
    }
    Ok(Built {
        kind: Kind::Pages(Pages::new(plan.store(), plan.sets, plan.desc.entries, plan.sizes)),
        sizes: plan.sizes.to_vec(),
        classes: plan.size_names(),
        group: None,
        looks: Looks::default(),
    })
}
