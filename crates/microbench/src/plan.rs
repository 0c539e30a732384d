//! Parameters of a microbenchmark run: region, group size, write protection and four repeat counts. The checks reject
//! impossible plans, and runs of more than 2^36 operations.

use crate::{Kind, Operation, Program};
use mmulab_addr::{BASE_BYTES, PageOrder};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The region and what is repeated (paper 1, section 3.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// Bytes of the region, which is 2 MB aligned. Range: 2 MB to 1 TB, a multiple of 2 MB. Default 8 MB.
    pub region: u64,
    /// Pages of a group: 1 to 512, a power of two. 0 takes the machine's own.
    pub group: u16,
    /// Whether the pages are write-protected before their bits are cleared.
    pub write_protect: bool,
    /// Times each operation is done at once.
    pub operation_repeats: u32,
    /// Times a word is done to a group before the next group.
    pub local_repeats: u32,
    /// Times a word is done to all groups before the next word.
    pub global_repeats: u32,
    /// Times the whole program is done.
    pub trace_repeats: u32,
}

/// The region's size by default: 8 MB (section 3.1).
const REGION: u64 = 8 << 20;
/// Largest region: more than any machine has.
const MAX_REGION: u64 = 1 << 40;
/// Most operations of a run: hours of a simulated machine.
const MAX_OPERATIONS: u128 = 1 << 36;

/// A plan that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct PlanError(pub String);

impl Default for Plan {
    fn default() -> Self {
        Self {
            region: REGION,
            group: 0,
            write_protect: false,
            operation_repeats: 1,
            local_repeats: 1,
            global_repeats: 1,
            trace_repeats: 1,
        }
    }
}

impl Plan {
    /// Bytes of a group.
    pub fn group_bytes(&self) -> u64 {
        u64::from(self.group) * BASE_BYTES
    }

    /// Groups of the region.
    pub fn groups(&self) -> u64 {
        self.region / self.group_bytes()
    }

    /// Base pages of the region.
    pub fn pages(&self) -> u64 {
        self.region / BASE_BYTES
    }

    /// Operations of one execution of `program`, repeats and all.
    pub fn operations(&self, program: &Program) -> u128 {
        let each: u128 = program.words.iter().map(|w| w.operations.len() as u128).sum();
        [self.operation_repeats, self.local_repeats, self.global_repeats, self.trace_repeats]
            .iter()
            .fold(each * u128::from(self.groups()), |product, &n| product * u128::from(n))
    }

    /// Checks the plan, before a program is read by its group.
    ///
    /// # Errors
    /// What cannot be, and what to do.
    pub fn check(&self) -> Result<(), PlanError> {
        let large = PageOrder::P2M.bytes();
        let bad = |what: String| Err(PlanError(what));
        if self.region == 0 || !self.region.is_multiple_of(large) || self.region > MAX_REGION {
            return bad(format!("a region of {} bytes: give a multiple of 2 MB, at most 1 TB", self.region));
        }
        if !self.group.is_power_of_two() || self.group > 512 {
            return bad(format!("a group of {} pages: give a power of two from 1 to 512", self.group));
        }
        let repeats = [
            ("operation", self.operation_repeats),
            ("local", self.local_repeats),
            ("global", self.global_repeats),
            ("trace", self.trace_repeats),
        ];
        match repeats.iter().find(|(_, n)| *n == 0) {
            Some((name, _)) => bad(format!("0 {name} repeats: give 1 or more")),
            None => Ok(()),
        }
    }

    /// Checks the program against the plan.
    ///
    /// # Errors
    /// What cannot be, and what to do.
    pub fn check_program(&self, program: &Program) -> Result<(), PlanError> {
        let operations = self.operations(program);
        if operations > MAX_OPERATIONS {
            return Err(PlanError(format!("{operations} operations are more than {MAX_OPERATIONS}: repeat less")));
        }
        let stores = |o: &&Operation| o.kind == Kind::Write;
        match program.words.iter().flat_map(|w| &w.operations).find(stores) {
            Some(o) if self.write_protect => Err(PlanError(format!(
                "column {}: a store to a write-protected region would end the program: leave it out",
                o.column
            ))),
            _ => Ok(()),
        }
    }
}
