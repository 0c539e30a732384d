//! The words every room shares: addresses, page numbers, page orders, kinds of access, who acts.
//!
//! A page order is a run-time value, never a type per size. This field has 16 KiB, 64 KiB, 32 MiB and any power of two
//! between. All page numbers count 4 KiB base pages; larger pages are aligned runs of them.

mod access;
mod address;
mod bytes;
mod ids;
mod mix;
mod order;

pub use access::{Access, Prot, Side};
pub use address::{Pfn, PhysAddr, VirtAddr, VirtRange, Vpn};
pub use bytes::Bytes;
pub use ids::{Asid, Pid, Tid};
pub use mix::{GOLDEN, mix};
pub use order::{OrderError, PageOrder, parse_bytes, show_bytes};

/// log2 of the base page: 4 KiB, the granule of x86-64, of RISC-V, and of the AArch64 systems modelled here.
pub const BASE_SHIFT: u32 = 12;
/// Bytes in a base page.
pub const BASE_BYTES: u64 = 1 << BASE_SHIFT;
/// Bytes in the line that hardware reads page-table entries by.
pub const LINE_BYTES: u64 = 64;
