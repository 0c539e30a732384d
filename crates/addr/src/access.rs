//! Access kinds and access rights: fetch, load or store; instruction or data side; read, write and execute
//! permission. TLBs, page tables, walkers and kernels check permissions with the same `Prot::allows`.
//!
//! ```text
//! bit      2: execute     1: write     0: read
//! grants   fetch          store        load
//! any bit set grants loads, as on x86-64
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Effect of a reference on the byte that it names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Access {
    /// An instruction fetch.
    Fetch = 0,
    /// A load.
    Read = 1,
    /// A store.
    Write = 2,
}

/// Which first-level TLB a reference goes to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Side {
    /// Fetches.
    Instruction = 0,
    /// Loads and stores.
    Data = 1,
}

impl Access {
    /// The side it is looked up on.
    #[inline(always)]
    pub const fn side(self) -> Side {
        match self {
            Self::Fetch => Side::Instruction,
            Self::Read | Self::Write => Side::Data,
        }
    }
}

/// Rights to memory: any of read, write, execute.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[repr(transparent)]
pub struct Prot(u8);

impl Prot {
    /// No rights.
    pub const NONE: Self = Self(0);
    /// Loads.
    pub const R: Self = Self(1);
    /// Stores.
    pub const W: Self = Self(2);
    /// Fetches.
    pub const X: Self = Self(4);
    /// Loads and stores.
    pub const RW: Self = Self(3);
    /// Loads and fetches.
    pub const RX: Self = Self(5);

    /// The rights of the low three bits (1 read, 2 write, 4 execute: the numbers of mmap(2)).
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    /// The three bits.
    #[inline(always)]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Both together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This without `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` is granted.
    #[inline(always)]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether `access` is granted. On x86-64 whatever may be written or fetched may be read.
    #[inline(always)]
    pub const fn allows(self, access: Access) -> bool {
        match access {
            Access::Fetch => self.has(Self::X),
            Access::Read => self.0 != 0,
            Access::Write => self.has(Self::W),
        }
    }
}
