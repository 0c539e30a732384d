use crate::Format;
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
}

/// Levels of an x86-64 table: 48-bit or 57-bit virtual addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u8", into = "u8")]
#[schemars(with = "u8")]
pub struct Levels(u8);

impl TryFrom<u8> for Levels {
    type Error = String;

    fn try_from(levels: u8) -> Result<Self, String> {
        if matches!(levels, 4 | 5) { Ok(Self(levels)) } else { Err(format!("levels is {levels}: give 4 or 5")) }
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
    /// Levels: 4 (48-bit addresses) or 5 (57-bit). Default 4.
    pub levels: Levels,
}

impl Default for TableDesc {
    fn default() -> Self {
        Self { kind: TableKind::X86Radix, levels: Levels(4) }
    }
}

impl TableDesc {
    /// A four- or five-level x86-64 table.
    ///
    /// # Errors
    /// Any other number of levels.
    pub fn x86(levels: u8) -> Result<Self, String> {
        Ok(Self { kind: TableKind::X86Radix, levels: levels.try_into()? })
    }

    /// How hardware reads it.
    pub fn format(&self) -> Format {
        match self.kind {
            TableKind::X86Radix => Format::X86 { levels: self.levels.0 },
        }
    }

    /// Whether one entry can map a page of `order`.
    pub fn has_leaf(&self, order: PageOrder) -> bool {
        let format = self.format();
        (1..=format.levels()).any(|level| format.has_leaf_at(level) && format.covers(level) == order)
    }
}
