//! The section `[freebsd.code]`: when code gets superpages, how it is padded, and which of its page tables are shared.
//! The source is paper 2, sections V and VI (Zhou, Dong, Cox and Dwarkadas, "On the Impact of Instruction Address
//! Translation Overhead").

use super::threshold::Threshold;
use crate::space::vma::{Back, Vma};
use mmulab_addr::{PageOrder, Prot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The size of code's larger pages.
pub(super) const SUPERPAGE: PageOrder = PageOrder::P2M;

/// Padding of code that is not a whole number of superpages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum Padding {
    /// Nothing: the rest stays on base pages, as in FreeBSD.
    #[default]
    #[serde(rename = "none")]
    None,
    /// The kernel extends the mapping to the next multiple of 2 MiB. It has the pages of the file that follow, and
    /// pages of zeros behind the file's end (paper 2, section VI-A).
    #[serde(rename = "kernel")]
    Kernel,
}

/// Which page tables of code processes share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum ShareTables {
    /// None, as in FreeBSD.
    #[default]
    #[serde(rename = "none")]
    None,
    /// The lowest ones, whose entries map base pages (paper 2, section VI-B).
    #[serde(rename = "lowest")]
    Lowest,
    /// Those of all levels below the root, which paper 2's design allows (section VI-B). Where the range of an upper
    /// table shows one mapping of code alone, it is shared with all tables below it; else the lowest ones are.
    #[serde(rename = "all")]
    All,
}

/// Code: private mappings of files that may be executed and not stored to; with `anonymous`, also private anonymous
/// memory that may be executed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodeDesc {
    /// Whether code is mapped by pages of 2 MiB at all. Default `true`.
    pub superpages: bool,
    /// How much of a reservation must be in memory, at a fault that reads, for the rest to be read and the whole to be
    /// promoted. It is a number of clusters, or of pages as in "448 pages". Default: all, for which nothing is read.
    pub threshold: Threshold,
    /// Whether more than `threshold` is asked for, which paper 2 says in one place and not in others. Default `false`.
    pub strict: bool,
    /// Padding of code that is not a whole number of superpages: `none` or `kernel`. Default `none`.
    pub padding: Padding,
    /// Whether private anonymous memory that may be executed is code as well: `superpages` and `threshold` then hold
    /// for what run-time compilers make (paper 2, section V). What its reservation lacks is zeroed. Memory counts if it
    /// is executable when it is touched. Default `false`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub anonymous: bool,
    /// Which page tables of code processes share: `none`; `lowest`, those of 2 MiB that show nothing else; or `all`,
    /// also those above, of ranges that show nothing else. Default `none`.
    pub share_tables: ShareTables,
    /// Where these values come from.
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    pub assumed: BTreeMap<String, String>,
}

impl Default for CodeDesc {
    fn default() -> Self {
        Self {
            superpages: true,
            threshold: Threshold::Clusters(32),
            strict: false,
            padding: Padding::None,
            anonymous: false,
            share_tables: ShareTables::None,
            source: "FreeBSD 14: sys/vm/vm_fault.c; paper 2, section II-A".into(),
            assumed: BTreeMap::new(),
        }
    }
}

impl CodeDesc {
    /// Whether it is FreeBSD as it is.
    pub(super) fn is_stock(&self) -> bool {
        *self == Self::default()
    }

    /// A contradiction to the other values of FreeBSD: the key, and the reason with the remedy.
    pub(super) fn wrong(&self, promotion: bool, cluster_pages: u64) -> Option<(&'static str, String)> {
        let most = SUPERPAGE.base_pages();
        let at_most = match self.threshold {
            Threshold::Clusters(_) => most / cluster_pages,
            Threshold::Pages(_) => most,
        };
        if !(1..=at_most).contains(&self.threshold.count()) {
            return Some((
                "code.threshold",
                format!("{} is not between 1 and {at_most}, which is all of 2M", self.threshold),
            ));
        }
        if !promotion && (self.threshold != Self::default().threshold || self.padding != Padding::None) {
            return Some((
                "code",
                "a threshold or padding is for pages of 2M, which promotion = false turns off: leave them out".into(),
            ));
        }
        if !self.superpages && self.padding != Padding::None {
            return Some(("code.padding", "code has no superpages to pad: leave it out, or superpages = true".into()));
        }
        None
    }
}

/// Whether a mapping is code of a file.
pub(super) fn is_code(vma: &Vma) -> bool {
    let shows_file = matches!(vma.back, Back::Object(..));
    shows_file && !vma.shared && vma.prot.has(Prot::X) && !vma.prot.has(Prot::W)
}
