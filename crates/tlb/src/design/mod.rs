//! TLB designs, a file each: what one entry of an array may translate.
//!
//! A design's file has one constant, `ABOUT` ([`About`]), with all that the rest asks for: name, documentation, keys
//! and costs; and one function, `build`, which checks a description and makes the entries. To add a design, write its
//! file, and add its row and its `mod` below (`docs/contributing/tlb-design.md`). Three storages can hold entries:
//!
//! - [`Pages`](crate::pages::Pages): an entry is a page, of the table or (`zen`) a group that is held as one;
//! - [`Bundles`](bundles::Bundles): an entry is a bundle of pages of any size (`mix`, `colt++`);
//! - a storage of the design's own ([`OwnStorage`]), mostly a [`GroupStore`](group_store::GroupStore).
//!
//! All of them learn from one thing only: the line of entries that a walk read ([`Line`]).

/// The designs. Hands the rows to the macro `$then`. A row is `Variant = file;`, or `Variant = file::Type;` where
/// `Type` is the design's own storage. The first is the default.
macro_rules! designs {
    ($then:ident) => {
        $then! {
            Plain = plain;
            Zen = zen;
            ColtSa = colt_sa::Entries;
            ColtFa = colt_fa::Entries;
            Clustered = clustered::Entries;
            Tps = tps::Entries;
            Mix = mix;
            ColtPlus = colt_plus;
            Skew = skew::Entries;
            CompleteSubblock = complete_subblock::Entries;
            PartialSubblock = partial_subblock::Entries;
            GapTolerant = gap_tolerant::Entries;
            Anchor = anchor::Entries;
        }
    };
}

mod about;
mod aligned;
mod anchor;
mod built;
mod bundles;
mod clustered;
mod colt_fa;
mod colt_plus;
mod colt_sa;
mod complete_subblock;
mod dispatch;
mod gap_tolerant;
mod group;
mod group_store;
mod line;
mod list;
mod mix;
mod partial_subblock;
mod plain;
mod schema;
mod skew;
mod storage;
mod tps;
pub mod zen;

pub use about::{About, Cost, Guesses, Keys, Plan, Reads, Widths};
pub use built::{Built, Kind};
pub use dispatch::{OwnStorage, names};
pub use line::Line;
pub use list::Design;
pub use storage::{Change, FillInput, Looks, Storage};
