//! The result of building a design from its description: the storage of the entries, and their properties that the
//! array reads.

use super::{Looks, bundles::Bundles};
use crate::pages::Pages;
use mmulab_addr::PageOrder;
use std::convert::Infallible;

/// How the entries of an array are kept.
///
/// The variant has a byte of its own. In a niche, as the compiler would have it, each lookup would compute the variant
/// from the storage within `Pages`: 24 instructions more a lookup of a first and a second level.
#[repr(u8)]
#[expect(clippy::large_enum_variant, reason = "the common kind is used at every lookup, without a detour")]
pub enum Kind<S> {
    /// By key, one page each.
    Pages(Pages),
    /// As bundles of pages of any size.
    Bundles(Box<Bundles>),
    /// In the storage of the design.
    Own(Box<S>),
}

/// An array as its design built it; `S` is the storage of its own, if it has one.
pub struct Built<S = Infallible> {
    pub kind: Kind<S>,
    /// The page sizes it takes.
    pub sizes: Vec<PageOrder>,
    /// Names of its counts by size: the sizes, or the classes that the design distinguishes.
    pub classes: Vec<String>,
    /// The page size that stands for a group, where entries are pages. It comes before all others: where both translate
    /// a page, the group does, so that the entries it was made of age out.
    pub group: Option<PageOrder>,
    pub looks: Looks,
}

impl<S> Built<S> {
    /// The same with a storage of its own made into another.
    pub fn with_own<T>(self, make: impl FnOnce(S) -> T) -> Built<T> {
        let Self { kind, sizes, classes, group, looks } = self;
        let kind = match kind {
            Kind::Pages(pages) => Kind::Pages(pages),
            Kind::Bundles(bundles) => Kind::Bundles(bundles),
            Kind::Own(own) => Kind::Own(Box::new(make(*own))),
        };
        Built { kind, sizes, classes, group, looks }
    }
}
