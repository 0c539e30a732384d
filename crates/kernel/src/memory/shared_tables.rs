//! Page tables that several address spaces point to, by the part of a file that they map. FreeBSD with shared page
//! tables would hang this list off a file's `vm_object` (paper 2, section VI-B).

use super::cache::ObjectId;
use mmulab_addr::{PageOrder, Pfn, Prot};
use rustc_hash::FxHashMap;

/// The mapping of a shared table. Tables are the same if all of these are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mapping {
    /// The memory that the table maps, with all tables below it.
    pub covers: PageOrder,
    /// The file.
    pub object: ObjectId,
    /// The page of the file that the first base page of this memory would show, below 0 where the mapping begins later.
    pub first: i64,
    /// The first base page of this memory that the mapping covers.
    pub from: u64,
    /// The base page after the last.
    pub to: u64,
    /// The mapping's rights.
    pub prot: Prot,
}

struct Shared {
    table: Pfn,
    users: u32,
}

/// All shared tables.
#[derive(Default)]
pub struct SharedTables {
    by_mapping: FxHashMap<Mapping, Shared>,
}

impl SharedTables {
    /// The table of a mapping, if there is one.
    pub fn get(&self, mapping: &Mapping) -> Option<Pfn> {
        self.by_mapping.get(mapping).map(|shared| shared.table)
    }

    /// An address space shares its table, the first for the mapping.
    pub fn add(&mut self, mapping: Mapping, table: Pfn) {
        self.by_mapping.insert(mapping, Shared { table, users: 1 });
    }

    /// One address space more points to the table.
    pub fn join(&mut self, mapping: &Mapping) {
        if let Some(shared) = self.by_mapping.get_mut(mapping) {
            shared.users += 1;
        }
    }

    /// Whether an address space is the only one that points to the table.
    pub fn is_only(&self, mapping: &Mapping) -> bool {
        self.by_mapping.get(mapping).is_none_or(|shared| shared.users == 1)
    }

    /// One address space less points to it; the list forgets it with the last.
    pub fn leave(&mut self, mapping: &Mapping) {
        if let Some(shared) = self.by_mapping.get_mut(mapping) {
            shared.users -= 1;
            if shared.users == 0 {
                self.by_mapping.remove(mapping);
            }
        }
    }
}
