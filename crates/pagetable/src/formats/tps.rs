//! Tailored page sizes: x86-64's tree with pages of any power of two from 4 KiB to 1 GiB. Source: Guvenilir and Patt,
//! *Tailored Page Sizes*, ISCA 2020. A page between two leaf sizes takes neighbouring entries of one table. The first
//! is the *true PTE*. The others are *alias PTEs*, which contain the page's size and lead to the true PTE.
//!
//! ```text
//! bit      63   52   51..12                     10      9   8   7    6   5   2    1    0
//! true     XD        frame number, then 10..0   0       T   G   PS   D   A   US   RW   P     a page of several entries
//! alias              zeros, then 10..0          Alias   T       PS                    P
//!
//! size in the low bits of the frame number, for 2, 4, 8, 16, ... entries:  1   10   100   1000   ...
//!
//! level 1 table    [16] true 64K   [17] alias   [18] alias ... [31] alias     walk for page 18: reads [18], then [16]
//! ```
//!
//! The paper marks a tailored page in a bit of its own (T). It keeps the size in frame bits that alignment leaves free,
//! as RISC-V's Svnapot does. T and Alias are here bits that x86-64 ignores: an assumption. A walk that reads an alias
//! knows the size, and so where the true PTE is: one more read. With `aliases = "copy"` aliases are full copies of the
//! true PTE. Then no walk reads twice, and the kernel writes all copies when rights change.
//!
//! Accessed and dirty bits are those of the true PTE. Copies have bits of their own; the kernel takes a page for
//! accessed or dirty if one of its entries is.

use crate::{
    Leaf, Next, Step,
    entry::{Entries, Entry},
    geometry::{self, ENTRY_BYTES, Granule},
    radix::Radix,
    table_format::{Group, TableFormat},
    x86::{A, FIELDS, P, PS, X86Entries},
};
use mmulab_addr::{PageOrder, Pfn, PhysAddr, VirtAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Tailored: a page that takes several entries.
const T: u64 = 1 << 9;
/// With T: an alias PTE, which has no fields but the size.
const ALIAS: u64 = 1 << 10;
/// The largest group of entries that a page can take, as a power of two: half a table.
const LARGEST_GROUP: u8 = 8;

/// Contents of alias PTEs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Aliases {
    /// The size of the page alone: a walk that reads an alias reads the true PTE next.
    #[default]
    Pointer,
    /// All that the true PTE contains: every walk ends at the entry it reads, and the kernel writes every entry.
    Copy,
}

/// A table of tailored page sizes (Guvenilir and Patt, ISCA 2020).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TpsDesc {
    /// Contents of alias PTEs. Default `pointer`.
    pub aliases: Aliases,
}

/// x86-64's tree with tailored page sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tps {
    levels: u8,
    aliases: Aliases,
}

/// Entries of x86-64, and those of tailored pages.
pub struct TpsEntries;

/// The groups of a level.
const fn groups() -> [Group; 2 * LARGEST_GROUP as usize] {
    let mut groups = [Group { level: 1, log: 1 }; 2 * LARGEST_GROUP as usize];
    let mut at = 0;
    while at < groups.len() {
        groups[at] = Group { level: 1 + at as u8 / LARGEST_GROUP, log: 1 + at as u8 % LARGEST_GROUP };
        at += 1;
    }
    groups
}

/// How many entries of `level` a tailored page takes, as a power of two; `None` if the bits are reserved.
#[inline(always)]
fn group_of(bits: u64, level: u8) -> Option<u8> {
    let code = FIELDS.frame_of(bits).0 >> geometry::covers(level).get();
    let log = code.trailing_zeros() as u8 + 1;
    (level <= 2 && log <= LARGEST_GROUP).then_some(log)
}

/// The size in the low bits of the frame number, of a page of `order`; nothing if it takes one entry.
fn size_of(order: PageOrder) -> u64 {
    match groups().iter().any(|group| geometry::covers(group.level).get() + group.log == order.get()) {
        true => FIELDS.naming(Pfn(order.base_pages() / 2)) | T,
        false => 0,
    }
}

/// Whether an entry is an alias.
#[inline(always)]
const fn is_alias(bits: u64) -> bool {
    bits & (P | T | ALIAS) == P | T | ALIAS
}

impl TableFormat for Tps {
    const NAME: &'static str = "tps";
    const DOC: &'static str = "The tree of x86-64 with pages of every power of two from 4 KiB to 1 GiB, whose further \
                               entries are alias PTEs (tailored page sizes: Guvenilir and Patt, ISCA 2020); 4 or 5 \
                               levels.";
    const LEVELS: RangeInclusive<u8> = 4..=5;
    const GROUPS: &'static [Group] = &groups();
    const MAPS_BLOCKS: bool = true;

    type Params = TpsDesc;
    type Entries = TpsEntries;
    type Tables = Radix<Self>;

    fn new(levels: u8, params: Option<&TpsDesc>) -> Self {
        Self { levels, aliases: params.map_or(Aliases::default(), |params| params.aliases) }
    }

    #[inline(always)]
    fn depth(self) -> u8 {
        self.levels
    }

    #[inline(always)]
    fn next(self, bits: u64, step: Step, va: VirtAddr) -> Next {
        if !is_alias(bits) {
            return Granule::K4.next::<TpsEntries>(bits, step, va);
        }
        let Some(log) = group_of(bits, step.level) else { return Next::NotPresent };
        let first = PhysAddr(step.entry.0 & !((ENTRY_BYTES << log) - 1));
        // The first entry is the true PTE: there is no alias in its place.
        if first == step.entry { Next::NotPresent } else { Next::Table(Step { entry: first, ..step }) }
    }

    /// An alias leads to an entry of its own table, which walk caches do not hold.
    #[inline(always)]
    fn kept(self, bits: u64, level: u8) -> Option<(u64, u8)> {
        (!is_alias(bits)).then_some((bits, level))
    }

    fn part(self, leaf: &Leaf, part: u64) -> u64 {
        let bits = TpsEntries::leaf(leaf);
        match self.aliases {
            Aliases::Pointer if part > 0 => P | ALIAS | (bits & PS) | size_of(leaf.order),
            Aliases::Pointer | Aliases::Copy => bits,
        }
    }
}

impl Entries for TpsEntries {
    #[inline(always)]
    fn decode(bits: u64, level: u8) -> Entry {
        if bits & T == 0 || bits & P == 0 {
            return X86Entries::decode(bits, level);
        }
        // T is of leaves alone: of level 2 those with PS.
        match group_of(bits, level) {
            Some(log) if !is_alias(bits) && (level == 1 || bits & PS != 0) => {
                Entry::Leaf(FIELDS.leaf(bits, PageOrder::new(geometry::covers(level).get() + log)))
            }
            Some(_) | None => Entry::Nothing,
        }
    }

    /// The true PTE. PS is of level 2 and above: pages of up to 1 MiB have theirs at level 1.
    fn leaf(leaf: &Leaf) -> u64 {
        let page_size = if leaf.order < PageOrder::P2M { 0 } else { PS };
        FIELDS.bits(leaf) | page_size | size_of(leaf.order)
    }

    fn table(table: Pfn) -> u64 {
        X86Entries::table(table)
    }

    /// An alias has no accessed bit.
    #[inline(always)]
    fn accessed(bits: u64, _leaf: bool) -> u64 {
        if is_alias(bits) { bits } else { bits | A }
    }

    #[inline(always)]
    fn dirtied(bits: u64) -> u64 {
        X86Entries::dirtied(bits)
    }

    /// The frame numbers of tailored pages contain their sizes.
    #[inline(always)]
    fn frame_of_alike(bits: u64, leaf: u64, order: PageOrder) -> Option<Pfn> {
        if leaf & T == 0 { X86Entries::frame_of_alike(bits, leaf, order) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rights;
    use mmulab_addr::Prot;

    const POINTERS: Tps = Tps { levels: 4, aliases: Aliases::Pointer };
    const COPIES: Tps = Tps { levels: 4, aliases: Aliases::Copy };

    fn leaf(order: u8) -> Leaf {
        let order = PageOrder::new(order);
        Leaf { pfn: Pfn(3 << 18), order, prot: Prot::RW, user: true, accessed: true, dirty: true, global: false }
    }

    fn at(level: u8, index: u64) -> Step {
        Step { level, covers: geometry::covers(level), entry: PhysAddr(0x7000 + 8 * index), rights: Rights::ALL }
    }

    #[test]
    fn sizes_are_in_the_low_bits_of_the_frame_number() {
        // P, RW, US, A, D and XD, as of a page of 4 KiB; then T, and the size. 2, 4, 8 and 16 entries are 1, 10, 100
        // and 1000.
        let page = 0x8000_0000_c000_0067;
        assert_eq!(TpsEntries::leaf(&leaf(0)), page);
        for (order, size) in [(1, 0x1000), (2, 0x2000), (3, 0x4000), (4, 0x8000), (8, 0x8_0000)] {
            assert_eq!(TpsEntries::leaf(&leaf(order)), page | T | size, "order {order}");
        }
        assert_eq!(TpsEntries::leaf(&leaf(9)), page | PS, "2 MiB has a level of its own");
        assert_eq!(TpsEntries::leaf(&leaf(10)), page | PS | T | 0x20_0000, "4 MiB: two entries of level 2");
        assert_eq!(TpsEntries::leaf(&leaf(18)), page | PS);
    }

    #[test]
    fn every_size_is_read_as_it_was_written() {
        for order in 0..=18 {
            let (level, entries) = POINTERS.leaf_at(PageOrder::new(order)).unwrap();
            assert_eq!((level, entries), (1 + order / 9, 1 << (order % 9)), "order {order}");
            for part in 0..u64::from(entries) {
                let bits = COPIES.part(&leaf(order), part);
                assert_eq!(COPIES.next(bits, at(level, part), VirtAddr::new(0)), Next::Leaf(leaf(order)));
            }
        }
        assert_eq!(POINTERS.leaf_at(PageOrder::new(19)), None);
    }

    #[test]
    fn an_alias_leads_to_the_true_pte() {
        for (order, level) in [(1, 1), (4, 1), (8, 1), (10, 2), (17, 2)] {
            let entries = 1 << (order % 9);
            let first = 2 * entries;
            for part in 1..entries {
                let alias = POINTERS.part(&leaf(order), part);
                let step = at(level, first + part);
                assert_eq!(POINTERS.next(alias, step, VirtAddr::new(0)), Next::Table(at(level, first)), "part {part}");
                assert_eq!(POINTERS.decode_leaf(alias, level), None, "an alias alone maps nothing");
                assert_eq!(POINTERS.kept(alias, level), None);
                assert_eq!(TpsEntries::accessed(alias, false), alias, "it has no accessed bit");
            }
            let truth = POINTERS.part(&leaf(order), 0);
            assert_eq!(POINTERS.next(truth, at(level, first), VirtAddr::new(0)), Next::Leaf(leaf(order)));
        }
    }

    #[test]
    fn what_is_reserved_faults() {
        let next = |bits, level, index| POINTERS.next(bits, at(level, index), VirtAddr::new(0));
        assert_eq!(next(P | T | ALIAS | 0x1000, 1, 0), Next::NotPresent, "an alias in the place of the true PTE");
        assert_eq!(next(P | T | 0x20_0000_0000, 1, 0), Next::NotPresent, "no size in the frame number");
        assert_eq!(next(P | T | 0x20_0000, 2, 0), Next::NotPresent, "a table has no size");
        assert_eq!(next(P | T | PS | 0x4000_0000, 3, 0), Next::NotPresent, "pages of more than 1 GiB");
    }

    #[test]
    fn neighbours_are_alike_at_a_glance_only_without_a_size() {
        let base = TpsEntries::leaf(&leaf(0));
        assert_eq!(POINTERS.frame_of_alike(base + 0x1000, base, PageOrder::P4K), Some(Pfn((3 << 18) + 1)));
        let (two, four) = (TpsEntries::leaf(&leaf(1)), TpsEntries::leaf(&leaf(2)));
        assert_eq!(POINTERS.frame_of_alike(four, two, PageOrder::new(1)), None);
    }
}
