use crate::{CompendiaDesc, Format};
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
    /// The same tree, whose dense parts are merged into nodes of 2 MiB that translate two levels in one access (paper 5).
    #[serde(rename = "compendia")]
    Compendia,
    /// RISC-V's radix tree: Sv39, Sv48 or Sv57 by its levels; leaves at every level, and of 64 KiB (Svnapot).
    #[serde(rename = "riscv-sv")]
    Riscv,
    /// Armv8's radix tree with 4 KiB granule: leaves of 4 KiB, 2 MiB and 1 GiB, and of 64 KiB and 32 MiB (Contiguous bit).
    #[serde(rename = "armv8-4k")]
    Arm,
}

impl TableKind {
    /// Its name in descriptions, and the levels it may have.
    fn levels(self) -> (&'static str, std::ops::RangeInclusive<u8>) {
        match self {
            Self::X86Radix => ("x86-64-radix", 4..=5),
            Self::Compendia => ("compendia", 4..=5),
            Self::Riscv => ("riscv-sv", 3..=5),
            Self::Arm => ("armv8-4k", 3..=4),
        }
    }
}

/// Levels of a table: 39-bit, 48-bit or 57-bit virtual addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u8", into = "u8")]
#[schemars(with = "u8")]
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
    /// Levels: 4 (48-bit addresses) or 5 (57-bit, not `armv8-4k`); 3 (39-bit) with `riscv-sv` and `armv8-4k`. Default 4.
    pub levels: Levels,
    /// When a `compendia` table merges its levels. Only with that kind; absent, it goes by the paper's values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compendia: Option<CompendiaDesc>,
}

impl Default for TableDesc {
    fn default() -> Self {
        Self { kind: TableKind::X86Radix, levels: Levels(4), compendia: None }
    }
}

impl TableDesc {
    /// A table of a kind that has so many levels.
    ///
    /// # Errors
    /// Any other number of levels.
    pub fn new(kind: TableKind, levels: u8) -> Result<Self, String> {
        Self { kind, levels: levels.try_into()?, compendia: None }.complete()
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
        Self { kind: TableKind::Compendia, levels: levels.try_into()?, compendia: Some(desc) }.complete()
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
        match (self.kind, &self.compendia) {
            (TableKind::Compendia, desc) => {
                let desc = desc.clone().unwrap_or_default();
                desc.check()?;
                Ok(Self { compendia: Some(desc), ..self })
            }
            (_, Some(_)) => Err("compendia is for kind = \"compendia\" only: set the kind, or leave it out".into()),
            (_, None) => Ok(self),
        }
    }

    /// How hardware reads it.
    pub fn format(&self) -> Format {
        match self.kind {
            TableKind::X86Radix => Format::X86 { levels: self.levels.0 },
            TableKind::Compendia => Format::Compendia { levels: self.levels.0 },
            TableKind::Riscv => Format::Riscv { levels: self.levels.0 },
            TableKind::Arm => Format::Arm { levels: self.levels.0 },
        }
    }

    /// Whether it has pages of `order`.
    pub fn has_leaf(&self, order: PageOrder) -> bool {
        self.format().leaf_at(order).is_some()
    }
}
