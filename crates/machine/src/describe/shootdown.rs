//! The `[shootdown]` table of a machine file: how an invalidation that one CPU asks for reaches the TLBs of all others,
//! and what that costs.
//!
//! ```text
//! by                the CPU that asks                           the others
//! interrupts        flushes its own TLB, sends interrupts       stop, flush, acknowledge (x86, RISC-V)
//! broadcast         an instruction for each page, then waits    hardware drops the entries (Arm TLBI ...IS)
//! broadcast-range   an instruction for many pages, then waits   the same (Arm FEAT_TLBIRANGE)
//! ```
//!
//! Which translations are dropped does not depend on it. The CPU's own flush is priced by `[costs]` in every case.

use mmulab_pagetable::Invalidate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How an invalidation reaches the TLBs of other CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// The kernel interrupts each CPU on which the address space is loaded, and waits until all have flushed.
    Interrupts,
    /// Hardware broadcasts instructions that invalidate one page, or a whole address space.
    Broadcast,
    /// Hardware broadcasts instructions that invalidate ranges of pages, too.
    BroadcastRange,
}

/// How flushes reach the TLBs of other CPUs, and what that costs. Without this table they reach them at no price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShootdownDesc {
    /// `interrupts`, `broadcast` or `broadcast-range`.
    pub by: Reach,
    /// Pages that a flush of Linux may name on this architecture before it flushes the whole address space, in place of
    /// the policy's `linux.flush_ceiling`. An assignment of that key by the user goes first. Default: the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub flush_ceiling: Option<u64>,
    /// With `interrupts`: cycles of the CPU that asks, for each flush that interrupts any. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0.0, max = 1e7))]
    pub send_cycles: f64,
    /// With `interrupts`: further cycles of the CPU that asks, for each CPU that it interrupts and waits for.
    /// Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0.0, max = 1e7))]
    pub wait_cycles: f64,
    /// With `interrupts`: cycles of each CPU that is interrupted, besides the flush itself. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0.0, max = 1e7))]
    pub receive_cycles: f64,
    /// With broadcasts: cycles of each instruction that invalidates. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0.0, max = 1e7))]
    pub instruction_cycles: f64,
    /// With broadcasts: cycles that the CPU that asks waits, once for each flush, until all have dropped the entries.
    /// Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0.0, max = 1e7))]
    pub sync_cycles: f64,
    /// Where the numbers come from.
    #[serde(default)]
    pub source: String,
    /// Keys of this table that no source states, each with the reason for the value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
}

// The rule of serde's `skip_serializing_if` takes a reference.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(price: &f64) -> bool {
    *price == 0.0
}

/// Base pages that one range instruction names at most: NUM = 31, SCALE = 3 (Arm ARM, TLBI RVAE1IS).
const RANGE_MOST: u64 = 32 << 16;

impl ShootdownDesc {
    /// Refuses prices of the other way.
    pub(super) fn check(&self) -> Result<(), String> {
        let of_interrupts = [
            ("send_cycles", self.send_cycles),
            ("wait_cycles", self.wait_cycles),
            ("receive_cycles", self.receive_cycles),
        ];
        let of_broadcasts = [("instruction_cycles", self.instruction_cycles), ("sync_cycles", self.sync_cycles)];
        let (unused, needed) = match self.by {
            Reach::Interrupts => (&of_broadcasts[..], "\"broadcast\""),
            Reach::Broadcast | Reach::BroadcastRange => (&of_interrupts[..], "\"interrupts\""),
        };
        match unused.iter().find(|(_, price)| *price != 0.0) {
            None => Ok(()),
            Some((key, _)) => {
                Err(format!("shootdown.{key} has no use here: leave it out, or set shootdown.by to {needed}"))
            }
        }
    }

    /// Instructions that one invalidation takes on a machine that broadcasts; 0 on one that interrupts.
    pub(crate) fn instructions(&self, what: &Invalidate) -> u64 {
        match (self.by, what) {
            (Reach::Interrupts, _) => 0,
            (_, Invalidate::Page { .. } | Invalidate::Asid(_) | Invalidate::All) => 1,
            (Reach::Broadcast, Invalidate::Range { range, stride, .. }) => range.bytes().div_ceil(stride.bytes()),
            (Reach::BroadcastRange, Invalidate::Range { range, stride, .. }) => {
                // As `__flush_tlb_range_op` in Linux's arch/arm64/include/asm/tlbflush.h: one instruction names up to
                // 32 units of 2^(5 * scale + 1) base pages. A last odd page takes one of its own.
                let pages = range.bytes().div_ceil(mmulab_addr::BASE_BYTES);
                if range.bytes() <= stride.bytes() {
                    return 1;
                }
                let (mut found, mut left) = (pages / RANGE_MOST, pages % RANGE_MOST);
                for scale in (0..4).rev() {
                    let unit = 1 << (5 * scale + 1);
                    found += u64::from(left >= unit);
                    left %= unit;
                }
                found + left
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::{Asid, PageOrder, VirtAddr, VirtRange};

    fn desc(by: Reach) -> ShootdownDesc {
        ShootdownDesc {
            by,
            flush_ceiling: None,
            send_cycles: 0.0,
            wait_cycles: 0.0,
            receive_cycles: 0.0,
            instruction_cycles: 0.0,
            sync_cycles: 0.0,
            source: String::new(),
            assumed: BTreeMap::new(),
        }
    }

    fn range(pages: u64, stride: PageOrder) -> Invalidate {
        Invalidate::Range { asid: Asid(1), range: VirtRange::sized(VirtAddr::new(0), pages << 12), stride }
    }

    #[test]
    fn a_range_takes_as_many_instructions_as_its_encoding_needs() {
        let (page, huge) = (PageOrder::P4K, PageOrder::P2M);
        let single = desc(Reach::Broadcast);
        assert_eq!([1, 16, 511].map(|n| single.instructions(&range(n, page))), [1, 16, 511]);
        assert_eq!(single.instructions(&range(16 * 512, huge)), 16);
        let ranged = desc(Reach::BroadcastRange);
        // 2 = one unit of 2; 3 = a unit and a page; 64 = one of 64 (scale 1); 127 = 64 + 31 units of 2 + a page.
        assert_eq!([1, 2, 3, 16, 64, 127].map(|n| ranged.instructions(&range(n, page))), [1, 1, 2, 1, 1, 3]);
        assert_eq!(ranged.instructions(&range(16 * 512, huge)), 1);
        assert_eq!(ranged.instructions(&range(RANGE_MOST, page)), 1);
        assert_eq!(ranged.instructions(&range(RANGE_MOST + 1, page)), 2);
        assert_eq!(desc(Reach::Interrupts).instructions(&range(16, page)), 0);
        assert_eq!(single.instructions(&Invalidate::Asid(Asid(1))), 1);
    }

    #[test]
    fn prices_of_the_other_way_are_refused_by_name() {
        let wrong = ShootdownDesc { receive_cycles: 5.0, ..desc(Reach::Broadcast) };
        let refused = wrong.check().expect_err("refused");
        assert!(refused.contains("shootdown.receive_cycles") && refused.contains("interrupts"), "{refused}");
        assert!(ShootdownDesc { sync_cycles: 5.0, ..desc(Reach::Interrupts) }.check().is_err());
        assert!(ShootdownDesc { sync_cycles: 5.0, ..desc(Reach::BroadcastRange) }.check().is_ok());
    }
}
