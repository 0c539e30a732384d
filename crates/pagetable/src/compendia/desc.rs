//! Parameters of Compendia page tables (paper 5). They set at which occupancies levels merge into a node of 2 MiB or 1
//! GiB, and when a node is unmerged. They also set which bits of an entry mark a pointer to a node. Occupancy is a
//! fraction of the 512 entries of a table; all comparisons are exact.

use mmulab_addr::{Bytes, VirtRange};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entries of a table.
const ENTRIES: u32 = 512;

/// A part of a table's 512 entries, written as a fraction such as `"1/8"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Share {
    part: u16,
    whole: u16,
}

impl Share {
    /// `part / whole`; none where that is no part of a table.
    pub const fn new(part: u16, whole: u16) -> Option<Self> {
        if whole == 0 || part > whole { None } else { Some(Self { part, whole }) }
    }

    /// How `entries` compare to it.
    pub(super) fn compared_to(self, entries: u16) -> std::cmp::Ordering {
        (u32::from(entries) * u32::from(self.whole)).cmp(&(u32::from(self.part) * ENTRIES))
    }

    fn is_above(self, other: Self) -> bool {
        u32::from(self.part) * u32::from(other.whole) > u32::from(other.part) * u32::from(self.whole)
    }
}

impl TryFrom<String> for Share {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.split_once('/').map(|(part, whole)| (part.trim().parse(), whole.trim().parse()));
        match parts {
            Some((Ok(part), Ok(whole))) => Self::new(part, whole),
            _ => None,
        }
        .ok_or_else(|| format!("'{text}' is not a part of a table: write a fraction of at most one, such as 1/8"))
    }
}

impl From<Share> for String {
    fn from(share: Share) -> String {
        format!("{}/{}", share.part, share.whole)
    }
}

/// Where the entries of a Compendia table mark that they point to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Marks {
    /// In bits that x86-64 ignores: H, O and T are bits 52, 53 and 54 (paper 5, section 4.2, figure 7).
    #[default]
    IgnoredBits,
    /// Bit 7, which marks large pages elsewhere, is set. The low bits of the frame index, zero in a target aligned to 2
    /// MiB, have H, O and T as bits 13, 14 and 15. Bit 16 marks copies of leaves (the alternative of section 4.2).
    FrameIndex,
}

/// When a Compendia table merges two of its levels into nodes of 2 MiB (paper 5, section 4.1).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CompendiaDesc {
    /// A table is merged with its children once so much of its 512 entries point to tables that gain by it. Default
    /// `"1/8"`: 64 entries (paper 5, section 4.1). `"1/512"` merges always.
    pub merge: Share,
    /// It is unmerged once fewer than this share do. Default `"1/16"`: below 32 entries. `"0/1"` never unmerges.
    pub unmerge: Share,
    /// Whether `merge` must be exceeded, not only reached: the paper says "when an eighth are non-zero" in section 4.1
    /// and "over 12.5%" in section 6.3. Default false.
    pub strict: bool,
    /// The levels whose tables may be merged with their children. 2 merges PMD and PTE, 3 PUD and PMD, 4 PGD and PUD
    /// (P4D and PUD with five levels), 5 PGD and P4D. Default all.
    #[schemars(inner(range(min = 2, max = 5)))]
    pub merge_levels: Vec<u8>,
    /// Whether a node points directly to the node after the next, where that is one (paper 5, figure 11b). Default
    /// true; false walks through three nodes there (figure 11a).
    pub direct: bool,
    /// The level whose tables may be merged with their children and grandchildren, into nodes of 1 GiB. 3 merges PUD,
    /// PMD and PTE, 4 PGD, PUD and PMD (P4D, PUD and PMD with five levels), 5 PGD, P4D and PUD. It happens once as many
    /// of a table's children as `merge` says are merged with theirs, and is undone when as few as `unmerge` says would
    /// be. Default none (paper 5, section 4.1, leaves it to the future).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 3, max = 5))]
    pub merge_three: Option<u8>,
    /// A mapping that is asked for at once and has at least this size counts as if it were in use. If it covers as much
    /// of a table as `merge` says, the table is merged with its first child that gains by it. (Paper 5, section 4.1:
    /// "when a large contiguous block is requested all at once".) Default none: what is in use decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-least" = "0", "x-most" = "64T"))]
    pub request: Option<Bytes>,
    /// Where entries have their marks. No count depends on it; `explain --tables` shows it. Default `ignored-bits`.
    pub marks: Marks,
}

impl Default for CompendiaDesc {
    fn default() -> Self {
        let share = |whole| Share { part: 1, whole };
        Self {
            merge: share(8),
            unmerge: share(16),
            strict: false,
            merge_levels: vec![2, 3, 4, 5],
            direct: true,
            merge_three: None,
            request: None,
            marks: Marks::default(),
        }
    }
}

impl CompendiaDesc {
    /// Whether a table of `levels` can follow it.
    ///
    /// # Errors
    /// Thresholds that contradict each other, or a level that cannot be merged.
    pub fn check(&self, levels: u8) -> Result<(), String> {
        if self.merge.part == 0 {
            return Err("compendia.merge is 0: give at least 1/512, which merges always".into());
        }
        if self.unmerge.is_above(self.merge) {
            let (unmerge, merge) = (String::from(self.unmerge), String::from(self.merge));
            return Err(format!("compendia.unmerge is {unmerge}: give at most compendia.merge, which is {merge}"));
        }
        if let Some(level) = self.merge_levels.iter().find(|level| !(2..=5).contains(*level)) {
            return Err(format!("compendia.merge_levels names {level}: levels 2 to 5 have tables below them"));
        }
        match self.merge_three {
            Some(level) if !(3..=levels).contains(&level) => Err(format!(
                "compendia.merge_three is {level}: levels 3 to {levels} have two levels of tables below them"
            )),
            Some(level) if !self.merge_levels.contains(&(level - 1)) => Err(format!(
                "compendia.merge_three is {level}, which merges what is merged from level {} on: name that in \
                 compendia.merge_levels",
                level - 1
            )),
            _ => Ok(()),
        }
    }

    /// Whether tables of `level` of which `entries` gain by it are to be merged.
    pub(super) fn merges(&self, level: u8, entries: u16) -> bool {
        self.merge_levels.contains(&level) && self.is_dense(entries)
    }

    /// Whether this number of entries is enough to merge.
    pub(super) fn is_dense(&self, entries: u16) -> bool {
        let compared = self.merge.compared_to(entries);
        if self.strict { compared.is_gt() } else { compared.is_ge() }
    }

    /// Whether a mapping of `range` counts as in use from when it is asked for.
    pub(super) fn is_request(&self, range: VirtRange) -> bool {
        self.request.is_some_and(|least| range.bytes() >= least.0)
    }

    /// Whether merged ones are to be unmerged.
    pub(super) fn unmerges(&self, entries: u16) -> bool {
        self.unmerge.compared_to(entries).is_lt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_exact() {
        let desc = CompendiaDesc::default();
        assert!(!desc.merges(2, 63) && desc.merges(2, 64) && !desc.unmerges(32) && desc.unmerges(31));
        let strict = CompendiaDesc { strict: true, ..desc.clone() };
        assert!(!strict.merges(2, 64) && strict.merges(2, 65));
        let upper = CompendiaDesc { merge_levels: vec![3], ..desc };
        assert!(!upper.merges(2, 512) && upper.merges(3, 64));
    }

    #[test]
    fn impossible_thresholds_are_refused_with_a_remedy() {
        let share = |text: &str| Share::try_from(text.to_owned());
        for odd in ["9/8", "1/0", "eighth", "1", "-1/8", ""] {
            assert!(share(odd).unwrap_err().contains("such as 1/8"), "{odd}");
        }
        let desc = CompendiaDesc { unmerge: share("1/4").unwrap(), ..CompendiaDesc::default() };
        assert!(desc.check(4).unwrap_err().contains("at most compendia.merge"));
        let desc = CompendiaDesc { merge: share("0/1").unwrap(), ..CompendiaDesc::default() };
        assert!(desc.check(4).unwrap_err().contains("1/512"));
        let desc = CompendiaDesc { merge_levels: vec![1], ..CompendiaDesc::default() };
        assert!(desc.check(4).unwrap_err().contains("names 1"));
        let three = |level| CompendiaDesc { merge_three: Some(level), ..CompendiaDesc::default() };
        assert!(three(3).check(4).is_ok() && three(5).check(5).is_ok());
        assert!(three(5).check(4).unwrap_err().contains("levels 3 to 4"));
        let desc = CompendiaDesc { merge_levels: vec![3, 4], ..three(3) };
        assert!(desc.check(4).unwrap_err().contains("name that in"));
    }
}
