//! Description of a page table in a machine file: the kind of table, the number of levels, and the parameters of that
//! kind. `TableDesc::complete` fills in defaults and rejects combinations that no table can have.

use crate::hashed::{FIRST_GUIDE, TABLES};
use crate::{CompendiaDesc, CuckooDesc, Format, Marks, OpenDesc, Probing};
use mmulab_addr::PageOrder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum TableKind {
    /// The radix tree of x86-64: 512 entries of 8 bytes a table, leaves of 4 KiB, 2 MiB and 1 GiB.
    #[default]
    #[serde(rename = "x86-64-radix")]
    X86Radix,
    /// The same tree, whose dense parts are merged into nodes of 2 MiB that translate two levels in one access (paper
    /// 5).
    #[serde(rename = "compendia")]
    Compendia,
    /// RISC-V's radix tree: Sv39, Sv48 or Sv57 by its levels; leaves at every level, and of 64 KiB (Svnapot).
    #[serde(rename = "riscv-sv")]
    Riscv,
    /// Armv8's radix tree with 4 KiB granule: leaves of 4 KiB, 2 MiB and 1 GiB, and of 64 KiB and 32 MiB (Contiguous
    /// bit).
    #[serde(rename = "armv8-4k")]
    Arm,
    /// Elastic cuckoo page tables: a hashed table for each page size, whose ways are read at once, with guides that
    /// tell which to read (Skarlatos and others, ASPLOS 2020). Leaves of 4 KiB, 2 MiB and 1 GiB.
    #[serde(rename = "elastic-cuckoo")]
    Cuckoo,
    /// A hashed table for each page size, with open addressing and lines of eight entries (Yaniv and Tsafrir,
    /// SIGMETRICS 2016). Leaves of 4 KiB, 2 MiB and 1 GiB.
    #[serde(rename = "hashed")]
    Hashed,
}

impl TableKind {
    /// The levels whose lines walk caches can hold, of tables found by hashing; others have a tree's.
    pub const fn guide_levels(self) -> Option<std::ops::Range<u8>> {
        match self {
            Self::X86Radix | Self::Compendia | Self::Riscv | Self::Arm => None,
            Self::Cuckoo => Some(FIRST_GUIDE..TABLES as u8 + 1),
            Self::Hashed => Some(0..0),
        }
    }

    /// Its name in descriptions, and the levels it may have.
    fn levels(self) -> (&'static str, std::ops::RangeInclusive<u8>) {
        match self {
            Self::X86Radix => ("x86-64-radix", 4..=5),
            Self::Compendia => ("compendia", 4..=5),
            Self::Riscv => ("riscv-sv", 3..=5),
            Self::Arm => ("armv8-4k", 3..=4),
            Self::Cuckoo => ("elastic-cuckoo", 4..=5),
            Self::Hashed => ("hashed", 4..=5),
        }
    }
}

/// Levels of a table: 39-bit, 48-bit or 57-bit virtual addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u8", into = "u8")]
#[schemars(with = "u8", extend("minimum" = 3, "maximum" = 5))]
pub struct Levels(u8);

impl TryFrom<u8> for Levels {
    type Error = String;

    fn try_from(levels: u8) -> Result<Self, String> {
        if matches!(levels, 3..=5) { Ok(Self(levels)) } else { Err(format!("levels is {levels}: give 4 or 5 (or 3)")) }
    }
}

impl From<Levels> for u8 {
    fn from(levels: Levels) -> u8 {
        levels.0
    }
}

/// The page-table format of a machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TableDesc {
    /// The kind of table. Default `x86-64-radix`.
    pub kind: TableKind,
    /// Levels: 4 (48-bit addresses) or 5 (57-bit, not `armv8-4k`); 3 (39-bit) with `riscv-sv` and `armv8-4k`. Hashed
    /// tables have none, and it only tells the bits of an address. Default 4.
    pub levels: Levels,
    /// When a `compendia` table merges its levels. Only with that kind; absent, it goes by the paper's values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compendia: Option<CompendiaDesc>,
    /// The ways of an `elastic-cuckoo` table, and when they are resized. Only with that kind; absent, it goes by the
    /// paper's values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuckoo: Option<CuckooDesc>,
    /// The size of a `hashed` table, and when it is resized. Only with that kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hashed: Option<OpenDesc>,
}

impl Default for TableDesc {
    fn default() -> Self {
        Self { kind: TableKind::X86Radix, levels: Levels(4), compendia: None, cuckoo: None, hashed: None }
    }
}

impl TableDesc {
    /// A table of a kind that has so many levels.
    ///
    /// # Errors
    /// Any other number of levels.
    pub fn new(kind: TableKind, levels: u8) -> Result<Self, String> {
        Self { kind, levels: levels.try_into()?, ..Self::default() }.complete()
    }

    /// A four- or five-level x86-64 table.
    ///
    /// # Errors
    /// Any other number of levels.
    pub fn x86(levels: u8) -> Result<Self, String> {
        Self::new(TableKind::X86Radix, levels)
    }

    /// A four- or five-level Compendia table.
    ///
    /// # Errors
    /// Any other number of levels, or parameters that cannot be followed.
    pub fn of_compendia(levels: u8, desc: CompendiaDesc) -> Result<Self, String> {
        Self { kind: TableKind::Compendia, levels: levels.try_into()?, compendia: Some(desc), ..Self::default() }
            .complete()
    }

    /// The same with everything it leaves open filled in.
    ///
    /// # Errors
    /// Levels the kind has not, parameters of another kind of table, or that cannot be followed.
    pub fn complete(self) -> Result<Self, String> {
        let ((name, levels), given) = (self.kind.levels(), self.levels.0);
        if !levels.contains(&given) {
            let (from, to) = (levels.start(), levels.end());
            return Err(format!("levels is {given}: a table of kind {name} has {from} to {to}"));
        }
        let strange =
            |key: &str, kind: &str| Err(format!("{key} is for kind = \"{kind}\" only: set the kind, or leave it out"));
        if self.compendia.is_some() && self.kind != TableKind::Compendia {
            return strange("compendia", "compendia");
        }
        if self.cuckoo.is_some() && self.kind != TableKind::Cuckoo {
            return strange("cuckoo", "elastic-cuckoo");
        }
        if self.hashed.is_some() && self.kind != TableKind::Hashed {
            return strange("hashed", "hashed");
        }
        match self.kind {
            TableKind::X86Radix | TableKind::Riscv | TableKind::Arm => Ok(self),
            TableKind::Compendia => {
                let desc = self.compendia.clone().unwrap_or_default();
                desc.check(self.levels.0)?;
                Ok(Self { compendia: Some(desc), ..self })
            }
            TableKind::Cuckoo => {
                let desc = self.cuckoo.clone().unwrap_or_default();
                desc.check()?;
                Ok(Self { cuckoo: Some(desc), ..self })
            }
            TableKind::Hashed => {
                let desc = self.hashed.clone().unwrap_or_default();
                desc.check()?;
                Ok(Self { hashed: Some(desc), ..self })
            }
        }
    }

    /// An elastic cuckoo table for 48-bit addresses.
    ///
    /// # Errors
    /// Parameters that cannot be followed.
    pub fn of_cuckoo(desc: CuckooDesc) -> Result<Self, String> {
        Self { kind: TableKind::Cuckoo, cuckoo: Some(desc), ..Self::default() }.complete()
    }

    /// A hashed table for 48-bit addresses.
    ///
    /// # Errors
    /// Parameters that cannot be followed.
    pub fn of_hashed(desc: OpenDesc) -> Result<Self, String> {
        Self { kind: TableKind::Hashed, hashed: Some(desc), ..Self::default() }.complete()
    }

    /// How hardware reads it.
    pub fn format(&self) -> Format {
        match self.kind {
            TableKind::X86Radix => Format::X86 { levels: self.levels.0 },
            TableKind::Compendia => {
                let marks = self.compendia.as_ref().map_or(Marks::default(), |desc| desc.marks);
                Format::Compendia { levels: self.levels.0, marks }
            }
            TableKind::Riscv => Format::Riscv { levels: self.levels.0 },
            TableKind::Arm => Format::Arm { levels: self.levels.0 },
            TableKind::Cuckoo => Format::Cuckoo { levels: self.levels.0 },
            TableKind::Hashed => {
                let sizes = self.hashed.as_ref().map_or(Probing::default(), |desc| desc.sizes);
                Format::Open { levels: self.levels.0, together: sizes == Probing::Parallel }
            }
        }
    }

    /// Whether it has pages of `order`.
    pub fn has_leaf(&self, order: PageOrder) -> bool {
        self.format().leaf_at(order).is_some()
    }
}
