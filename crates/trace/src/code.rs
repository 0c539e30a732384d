//! Code that a trace executes: its bytes or its data flow, and where its accesses come from.

use mmulab_dataflow::Inst;
use std::sync::atomic::{AtomicU64, Ordering};

/// One load or store of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Op {
    /// Index in the block of the instruction that makes it.
    pub instruction: u16,
    /// Whether it stores.
    pub store: bool,
    /// Log2 of its bytes (0..=7).
    pub size_shift: u8,
}

/// Information about the instructions of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// Nothing but how many there are.
    Unknown,
    /// Their bytes.
    Bytes(Box<[u8]>),
    /// Data flow of the instructions, as a generator or a person declares it.
    Flow(Box<[Inst]>),
}

/// A block of code together with the accesses that an execution of it makes.
#[derive(Debug)]
pub struct Code {
    id: u64,
    /// Its instructions.
    pub body: Body,
    /// Bytes from its beginning to the instruction behind it; 0 when unknown.
    pub bytes: u32,
    /// How many instructions it has.
    pub instructions: u32,
    /// Its accesses, in order.
    pub ops: Box<[Op]>,
}

impl Code {
    /// Code with an identity of its own.
    pub fn new(body: Body, bytes: u32, instructions: u32, ops: impl Into<Box<[Op]>>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), body, bytes, instructions, ops: ops.into() }
    }

    /// Number that distinguishes it from all other code in this process, so that it is decoded once. It differs in
    /// another run: no result may depend on it.
    pub fn id(&self) -> u64 {
        self.id
    }
}

/// Equal if it does the same; the identity does not count.
impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        (&self.body, self.bytes, self.instructions, &self.ops)
            == (&other.body, other.bytes, other.instructions, &other.ops)
    }
}
