//! The shadow tables that a host keeps: one for each address space of its guests.

use mmulab_addr::Asid;
use mmulab_pagetable::{Table, TableDesc};
use std::collections::BTreeMap;

/// Shadow tables, by the tag of their address spaces.
pub(super) struct Shadows {
    pub desc: TableDesc,
    pub tables: BTreeMap<Asid, Table>,
}

impl Shadows {
    pub fn new(desc: TableDesc) -> Self {
        Self { desc, tables: BTreeMap::new() }
    }
}
