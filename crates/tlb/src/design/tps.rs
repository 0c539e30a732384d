//! Tailored page sizes: an entry is a page of any power of two, as large as in the table. It holds no more than the
//! table states for one page (Guvenilir and Patt, ISCA 2020).
//!
//! ```text
//! | flags | ASID, page number | page size: which low bits of the page number are not compared | frame |
//! ```

use super::{
    About, Built, Cost, Keys, Kind, Line, Looks, Plan,
    group::{GroupDesign, GroupEntry},
    group_store::GroupStore,
};
use crate::{classes::MAX_CLASSES, key::Value};
use mmulab_addr::{Asid, PageOrder, Vpn};

pub const ABOUT: About = About {
    name: "tps",
    doc: "One page of any power of two between the two `sizes`, as the table says, fully associative (tailored page \
          sizes: Guvenilir and Patt, ISCA 2020). No `group`.",
    keys: Keys { sets: false, ..Keys::OF_GROUPS },
    coalesces: false,
    cost: |desc, _| Cost::plain(desc),
};

pub fn build(plan: &Plan) -> Result<Built<Entries>, String> {
    plan.no_group()?;
    let &[smallest, largest] = plan.sizes else {
        return Err(format!("{} sizes: design tps takes two, the smallest and the largest", plan.sizes.len()));
    };
    let sizes: Vec<_> = (smallest.get()..=largest.get()).map(PageOrder::new).collect();
    let (count, most) = (sizes.len(), MAX_CLASSES);
    if count > most {
        return Err(format!("sizes {smallest} to {largest} are {count} powers of two: at most {most}"));
    }
    let entries = Entries::new(Tps { smallest }, plan.sets, plan.ways, plan.store());
    Ok(Built {
        kind: Kind::Own(Box::new(entries)),
        classes: sizes.iter().map(ToString::to_string).collect(),
        sizes,
        group: None,
        looks: Looks::default(),
    })
}

pub type Entries = GroupStore<Tps>;

pub struct Tps {
    smallest: PageOrder,
}

impl GroupDesign for Tps {
    type Extra = ();

    fn index(&self) -> PageOrder {
        PageOrder::P4K
    }

    fn make(&self, line: &Line, _: Asid, _: &[Option<GroupEntry<()>>]) -> GroupEntry<()> {
        GroupEntry::of_page(line.page(), line.value, PageOrder::P4K)
    }

    fn value(held: &GroupEntry<()>, _: Vpn) -> Value {
        held.value
    }

    /// No two pages of the table are one entry.
    fn join(&self, _: &GroupEntry<()>, _: &GroupEntry<()>) -> Option<GroupEntry<()>> {
        None
    }

    fn without(_: &GroupEntry<()>, _: &GroupEntry<()>) -> Option<GroupEntry<()>> {
        None
    }

    fn class(&self, order: PageOrder) -> u8 {
        order.get() - self.smallest.get()
    }
}
