//! Invalidations after page-table edits. A stale entry in a TLB or walk cache would be a wrong translation, so the
//! compiler rejects an ignored `Flush`. If no cached entry can be stale, the `Flush` delivers no invalidation.
//!
//! ```text
//! map, unmap, set, split --> Flush --deliver--> Invalidate --> TLBs and walk caches
//!                              |
//!                              '-----lazy-----> no invalidation, for a stated reason
//! ```

use mmulab_addr::{Asid, PageOrder, VirtAddr, VirtRange};
use schemars::JsonSchema;
use serde::{Serialize, Serializer, ser::SerializeStruct};

/// Translations that TLBs and walk caches must drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(tag = "flush", rename_all = "lowercase")]
pub enum Invalidate {
    /// One page of an address space, and the walk-cache entries on its path (INVLPG and INVPCID type 0: Intel SDM
    /// vol. 3A, section 4.10.4.1).
    Page {
        /// The address space.
        asid: Asid,
        /// The page's first address.
        va: VirtAddr,
        /// Its size.
        #[serde(rename = "size")]
        order: PageOrder,
    },
    /// Every page that meets a range.
    Range {
        /// The address space.
        asid: Asid,
        /// The range.
        range: VirtRange,
        /// The smallest page that changed in it: what an instruction for a single page must step by.
        #[serde(skip)]
        stride: PageOrder,
    },
    /// A whole address space, but for its global pages.
    #[serde(rename = "space", serialize_with = "asid")]
    #[schemars(with = "Space")]
    Asid(Asid),
    /// Everything, global pages too.
    All,
}

impl Invalidate {
    /// Whether it reaches what was kept of the addresses `spans` of address space `owner`.
    pub fn meets(&self, owner: Asid, spans: VirtRange) -> bool {
        match *self {
            Self::Page { asid, va, order } => {
                owner == asid && VirtRange::sized(va.align_down(order), order.bytes()).overlaps(spans)
            }
            Self::Range { asid, range, .. } => owner == asid && range.overlaps(spans),
            Self::Asid(asid) => owner == asid,
            Self::All => true,
        }
    }
}

/// An address space, as a flush of it is written.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "its schema is all that is wanted of it")]
struct Space {
    /// The address space.
    asid: Asid,
}

/// An ASID as a structure: a bare number has no room for the name of the flush beside it.
fn asid<S: Serializer>(asid: &Asid, serializer: S) -> Result<S::Ok, S::Error> {
    let mut fields = serializer.serialize_struct("Asid", 1)?;
    fields.serialize_field("asid", asid)?;
    fields.end()
}

/// An edit's debt to the TLBs. It cannot be dropped unseen: it is delivered, or kept lazy for a stated reason.
#[must_use = "a page-table change must reach the TLBs: deliver it, or keep it lazy with a reason"]
#[derive(Debug)]
pub struct Flush {
    va: VirtAddr,
    order: PageOrder,
    owed: Owed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owed {
    Nothing,
    /// The page changed.
    Page,
    /// Tables that translate its aligned surroundings of the order lie elsewhere now.
    Tables,
}

impl Flush {
    /// A page whose translation changed.
    pub(crate) fn page(va: VirtAddr, order: PageOrder) -> Self {
        Self { va, order, owed: Owed::Page }
    }

    /// Nothing that a TLB could hold has changed.
    pub(crate) fn nothing() -> Self {
        Self { va: VirtAddr::default(), order: PageOrder::P4K, owed: Owed::Nothing }
    }

    /// The same, where tables below the entry that spans `order` around `va` were moved besides: walk caches hold
    /// pointers to where they were.
    pub(crate) fn tables(va: VirtAddr, order: PageOrder) -> Self {
        Self { va: va.align_down(order), order, owed: Owed::Tables }
    }

    /// Whether tables were moved, so that walk caches must forget more than the way to one page.
    #[inline(always)]
    pub fn moves_tables(&self) -> bool {
        self.owed == Owed::Tables
    }

    /// Adds what must be forgotten to `into`.
    pub fn deliver(self, asid: Asid, into: &mut Vec<Invalidate>) {
        let Self { va, order, owed } = self;
        match owed {
            Owed::Nothing => {}
            Owed::Page => into.push(Invalidate::Page { asid, va, order }),
            Owed::Tables if order > PageOrder::P1G => into.push(Invalidate::Asid(asid)),
            Owed::Tables => into.push(Invalidate::Range {
                asid,
                range: VirtRange::sized(va, order.bytes()),
                stride: PageOrder::P4K,
            }),
        }
    }

    /// Leaves stale translations in place, because of `why`: they can do no harm, or the caller sends one flush for
    /// several edits.
    pub fn lazy(self, why: &'static str) {
        debug_assert!(!why.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_invalidation_can_be_told() {
        let (asid, va) = (Asid(3), VirtAddr::new(0x1000));
        let told = |what: Invalidate| serde_json::to_string(&what).expect("plain data");
        assert_eq!(
            told(Invalidate::Page { asid, va, order: PageOrder::P4K }),
            r#"{"flush":"page","asid":3,"va":4096,"size":"4K"}"#
        );
        assert_eq!(
            told(Invalidate::Range { asid, range: VirtRange::sized(va, 4096), stride: PageOrder::P4K }),
            r#"{"flush":"range","asid":3,"range":{"start":4096,"end":8192}}"#
        );
        assert_eq!(told(Invalidate::Asid(asid)), r#"{"flush":"space","asid":3}"#);
        assert_eq!(told(Invalidate::All), r#"{"flush":"all"}"#);
    }
}
