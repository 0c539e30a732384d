//! Parameters of hashed page tables: elastic cuckoo tables and tables with open addressing. Each description has the
//! initial size, and the load factors at which a table grows or shrinks. A check has a remedy for every wrong value.
//! The key `walk_tables` names the page sizes that have a cuckoo walk table (CWT).

use super::registers::MAX_PIECES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A share of a table's slots, from 0 to 1, kept in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "f64", into = "f64")]
#[schemars(with = "f64", extend("minimum" = 0.0, "maximum" = 1.0))]
pub struct Part(u16);

impl Part {
    /// So many thousandths.
    pub const fn thousandths(part: u16) -> Self {
        Self(part)
    }

    /// Whether `lines` are more than this part of `slots`.
    pub(super) fn is_below(self, lines: u64, slots: u64) -> bool {
        u128::from(lines) * 1000 > u128::from(slots) * u128::from(self.0)
    }

    /// Whether `lines` are less.
    pub(super) fn is_above(self, lines: u64, slots: u64) -> bool {
        u128::from(lines) * 1000 < u128::from(slots) * u128::from(self.0)
    }
}

impl TryFrom<f64> for Part {
    type Error = String;

    fn try_from(part: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&part) {
            Ok(Self((part * 1000.0).round() as u16))
        } else {
            Err(format!("{part} is not a part of a table: give a number from 0 to 1"))
        }
    }
}

impl From<Part> for f64 {
    fn from(part: Part) -> f64 {
        f64::from(part.0) / 1000.0
    }
}

/// An elastic cuckoo page table (Skarlatos, Kokolis, Xu and Torrellas, *Elastic Cuckoo Page Tables*, ASPLOS 2020).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CuckooDesc {
    /// Ways of a table, which are read at once. Default 3.
    #[schemars(range(min = 2, max = 4))]
    pub ways: u8,
    /// Lines of a way at first. Default 16384, which is 1 MiB. Tables of large
    /// sizes are made when there is such a page.
    #[schemars(range(min = 64, max = 16777216), extend("x-power-of-two" = true))]
    pub lines: u32,
    /// A table is doubled once more than so much of it is used. Default 0.6.
    pub grow: Part,
    /// It is halved, down to `lines`, once less than so much of it is used; 0 never. At most half of `grow`. Default
    /// 0.2.
    pub shrink: Part,
    /// Lines that each new one moves while a table is resized. Default 2: with 1, a table is not yet doubled when it is
    /// time to double it again, and the rest is moved in one go.
    #[schemars(range(min = 1, max = 64))]
    pub moves: u8,
    /// Lines that one more can push aside before it is tried anew, and then the table resized. Default 32.
    #[schemars(range(min = 1, max = 512))]
    pub kicks: u16,
    /// The sizes whose pages have a cuckoo walk table. It states for each group of pages whether any exist, and in
    /// which way. Default `["2M", "1G"]`. Formerly `guides`, which is still read.
    #[schemars(extend("x-formerly" = "guides"))]
    pub walk_tables: Vec<mmulab_addr::PageOrder>,
    /// Lines of each of the two ways of a cuckoo walk table at first. Default 4096. Formerly `guide_lines`, which is
    /// still read.
    #[schemars(
        range(min = 64, max = 16777216),
        extend("x-power-of-two" = true, "x-formerly" = "guide_lines")
    )]
    pub walk_table_lines: u32,
    /// Pieces of memory that a way may consist of where no block holds it whole: a power of two up to 512. 1 insists on
    /// one block, as published. Default 512.
    #[schemars(range(min = 1, max = 512), extend("x-power-of-two" = true))]
    pub pieces: u16,
}

impl Default for CuckooDesc {
    fn default() -> Self {
        Self {
            ways: 3,
            lines: 16384,
            grow: Part(600),
            shrink: Part(200),
            moves: 2,
            kicks: 32,
            walk_tables: vec![super::layout::order_of(1), super::layout::order_of(2)],
            walk_table_lines: 4096,
            pieces: 512,
        }
    }
}

/// Which sizes a hashed table is searched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Probing {
    /// All at once.
    #[default]
    Parallel,
    /// One after another, smallest first.
    Sequential,
}

/// A hashed page table with open addressing and linear probing (Yaniv and Tsafrir, *Hash, Don't Cache (the Page
/// Table)*, SIGMETRICS 2016).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OpenDesc {
    /// Lines of a table at first. Default 16384, which is 1 MiB.
    #[schemars(range(min = 64, max = 16777216), extend("x-power-of-two" = true))]
    pub lines: u32,
    /// A table is doubled, and all its lines moved, once more than so much of it is used. Below 1. Default 0.5.
    pub grow: Part,
    /// It is halved, down to `lines`, once less than so much of it is used; 0 never. At most half of `grow`. Default
    /// 0.125.
    pub shrink: Part,
    /// Whether tables of several page sizes are read at once: `parallel` or `sequential`. Default `parallel`.
    pub sizes: Probing,
    /// Pieces of memory that a table may consist of where no block holds it whole: a power of two up to 512. Default
    /// 512.
    #[schemars(range(min = 1, max = 512), extend("x-power-of-two" = true))]
    pub pieces: u16,
}

impl Default for OpenDesc {
    fn default() -> Self {
        Self { lines: 16384, grow: Part(500), shrink: Part(125), sizes: Probing::Parallel, pieces: 512 }
    }
}

/// Description of either kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HashedDesc {
    /// Elastic cuckoo.
    Cuckoo(CuckooDesc),
    /// Open addressing.
    Open(OpenDesc),
}

fn lines(key: &str, lines: u32) -> Result<(), String> {
    if lines.is_power_of_two() && (64..=1 << 24).contains(&lines) {
        Ok(())
    } else {
        Err(format!("{key} is {lines}: give a power of two from 64 to 16777216"))
    }
}

fn shared(kind: &str, grow: Part, shrink: Part, pieces: u16) -> Result<(), String> {
    if !(Part(1)..Part(1000)).contains(&grow) {
        return Err(format!("{kind}.grow is {}: give more than 0 and less than 1", f64::from(grow)));
    }
    if u32::from(shrink.0) * 2 > u32::from(grow.0) {
        let (s, g) = (f64::from(shrink), f64::from(grow));
        return Err(format!(
            "{kind}.shrink is {s}: give at most half of grow, which is {g}, or the table is doubled again"
        ));
    }
    if !pieces.is_power_of_two() || u64::from(pieces) > MAX_PIECES {
        return Err(format!("{kind}.pieces is {pieces}: give a power of two up to 512"));
    }
    Ok(())
}

impl CuckooDesc {
    /// Whether it can be followed.
    ///
    /// # Errors
    /// The description is impossible; the error states the remedy.
    pub fn check(&self) -> Result<(), String> {
        if !(2..=4).contains(&self.ways) {
            return Err(format!("cuckoo.ways is {}: give 2 to 4", self.ways));
        }
        lines("cuckoo.lines", self.lines)?;
        lines("cuckoo.walk_table_lines", self.walk_table_lines)?;
        if !(1..=64).contains(&self.moves) {
            return Err(format!("cuckoo.moves is {}: give 1 to 64", self.moves));
        }
        if !(1..=512).contains(&self.kicks) {
            return Err(format!("cuckoo.kicks is {}: give 1 to 512", self.kicks));
        }
        if let Some(size) = self
            .walk_tables
            .iter()
            .find(|&&size| !(0..super::layout::SIZES).any(|s| super::layout::order_of(s) == size))
        {
            return Err(format!("cuckoo.walk_tables names {size}: give some of 4K, 2M and 1G"));
        }
        shared("cuckoo", self.grow, self.shrink, self.pieces)
    }
}

impl OpenDesc {
    /// Whether it can be followed.
    ///
    /// # Errors
    /// The description is impossible; the error states the remedy.
    pub fn check(&self) -> Result<(), String> {
        lines("hashed.lines", self.lines)?;
        shared("hashed", self.grow, self.shrink, self.pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_tables_are_refused_with_a_remedy() {
        let cuckoo = CuckooDesc::default();
        assert_eq!(cuckoo.check(), Ok(()));
        assert_eq!(OpenDesc::default().check(), Ok(()));
        let bad = [
            (CuckooDesc { ways: 1, ..cuckoo.clone() }, "give 2 to 4"),
            (CuckooDesc { lines: 100, ..cuckoo.clone() }, "a power of two"),
            (CuckooDesc { kicks: 0, ..cuckoo.clone() }, "give 1 to 512"),
            (CuckooDesc { moves: 0, ..cuckoo.clone() }, "give 1 to 64"),
            (CuckooDesc { grow: Part(1000), ..cuckoo.clone() }, "less than 1"),
            (CuckooDesc { shrink: Part(301), ..cuckoo.clone() }, "half of grow"),
            (CuckooDesc { pieces: 3, ..cuckoo.clone() }, "a power of two up to 512"),
            (CuckooDesc { walk_tables: vec![mmulab_addr::PageOrder::P64K], ..cuckoo }, "some of 4K, 2M and 1G"),
        ];
        for (desc, expected) in bad {
            assert!(desc.check().unwrap_err().contains(expected), "{desc:?}");
        }
        assert!(Part::try_from(1.5).unwrap_err().contains("from 0 to 1"));
        assert!(Part(600).is_below(601, 1000) && !Part(600).is_below(600, 1000) && Part(200).is_above(199, 1000));
    }
}
