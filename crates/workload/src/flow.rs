//! Which loads of a generator wait for which. Each access of a block of code names the values that its address is made
//! of, and the value that it loads.
//!
//! ```text
//! block 3 of a B+ tree:   pointers = load [node]        to(POINTERS, from(NODE))
//!                         node     = load [pointers]    to(NODE, from(POINTERS))
//! ```

use crate::layout::{CODE, SITE_BYTES};
use mmulab_addr::VirtAddr;
use mmulab_trace::{AccessFlow, BlockFlow, Loads};

/// An access whose address is known without a load.
pub const FREE: AccessFlow = AccessFlow { address: [0, 0], result: 0 };

/// An access whose address is made of `value`.
pub const fn from(value: u8) -> AccessFlow {
    AccessFlow { address: [value, 0], result: 0 }
}

/// An access whose address is made of two values.
pub const fn from_both(one: u8, other: u8) -> AccessFlow {
    AccessFlow { address: [one, other], result: 0 }
}

/// The access loads `value`.
pub const fn to(value: u8, access: AccessFlow) -> AccessFlow {
    AccessFlow { result: value, ..access }
}

/// The accesses of blocks of code, by their sites, in order; if a block makes more, these are like the last one. Blocks
/// that are left out have accesses that wait for nothing.
pub fn flow(sites: &[(u64, &[AccessFlow])]) -> Option<Loads> {
    let block = |&(site, accesses): &(u64, &[AccessFlow])| BlockFlow {
        at: VirtAddr::new(CODE + site * SITE_BYTES),
        accesses: accesses.to_vec(),
    };
    Some(Loads::Flow(sites.iter().map(block).collect()))
}
