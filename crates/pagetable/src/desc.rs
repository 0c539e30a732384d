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
    /// A four- or five-level x86-64 table.
    ///
    /// # Errors
    /// Any other number of levels.
    pub fn x86(levels: u8) -> Result<Self, String> {
        Ok(Self { kind: TableKind::X86Radix, levels: levels.try_into()?, compendia: None })
    }

    /// A four- or five-level Compendia table.
    ///
    /// # Errors
    /// Any other number of levels.
    pub fn of_compendia(levels: u8, desc: CompendiaDesc) -> Result<Self, String> {
        Ok(Self { kind: TableKind::Compendia, levels: levels.try_into()?, compendia: Some(desc) })
    }

    /// The same with everything it leaves open filled in.
    ///
    /// # Errors
    /// Parameters of another kind of table, or that cannot be followed.
    pub fn complete(self) -> Result<Self, String> {
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
        }
    }

    /// Whether one entry can map a page of `order`.
    pub fn has_leaf(&self, order: PageOrder) -> bool {
        let format = self.format();
        (1..=format.levels()).any(|level| format.has_leaf_at(level) && format.covers(level) == order)
    }
}
