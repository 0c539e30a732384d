//! Predictions of native traces: the variant that follows each variant, and the next address of each access. Encoder
//! and decoder update them alike. A prediction that holds takes one byte of a stream. Otherwise a variant number or an
//! address difference usually follows.

/// Threads of a process share predictions when their numbers agree in the low five bits: that bounds memory, and costs
/// only compression.
pub(super) const SLOTS: usize = 32;

/// Codes of executions and events in the codes stream.
pub(super) mod code {
    /// The variant that last followed the one before.
    pub const LAST: u8 = 0;
    /// The variant that followed it before that.
    pub const EARLIER: u8 = 1;
    /// The next variant of the dictionary that was never executed.
    pub const NEW: u8 = 2;
    /// The variant that the ids stream names.
    pub const NAMED: u8 = 3;
    /// The next item of the events stream.
    pub const EVENT: u8 = 4;
}

/// Forms of addresses in the forms stream.
///
/// *Own* is the address this access of this variant had before, *step* its difference from own.
pub(super) mod form {
    /// Step 0.
    pub const SAME: u8 = 0;
    /// The step of the access before.
    pub const LIKE_LAST: u8 = 1;
    /// The step of the access before that.
    pub const LIKE_EARLIER: u8 = 2;
    /// The step this access made before.
    pub const STRIDE: u8 = 3;
    /// A step of `form - OWN` bytes (1..=8), zigzag, in the deltas stream.
    pub const OWN: u8 = 3;
    /// A difference of `form - NEAR` bytes (1..=8), zigzag, from the address of the access before.
    pub const NEAR: u8 = 11;
    /// One more than the largest.
    pub const COUNT: u8 = 20;
}

/// State of one access of one variant.
#[derive(Clone, Copy, Default)]
pub(super) struct OpState {
    pub own: u64,
    pub step: u64,
}

/// State of one thread.
#[derive(Clone, Default)]
pub(super) struct Thread {
    /// The variant executed last; 0 before the first. Variants count from 1.
    pub last: u32,
    /// Address, step and earlier step of the accesses before.
    pub near: u64,
    pub step: u64,
    pub earlier: u64,
    /// The two variants that followed each one, the most recent first.
    pub next: Vec<[u32; 2]>,
    /// By position in the dictionary's list of all accesses.
    pub ops: Vec<OpState>,
}

impl Thread {
    /// Makes room for a dictionary of `variants` and `ops`.
    #[inline]
    pub fn grow(&mut self, variants: usize, ops: usize) {
        self.next.resize(variants + 1, [0; 2]);
        self.ops.resize(ops, OpState::default());
    }

    /// Forgets all.
    pub fn reset(&mut self) {
        (self.last, self.near, self.step, self.earlier) = (0, 0, 0, 0);
        self.next.fill([0; 2]);
        self.ops.fill(OpState::default());
    }

    /// Remembers that `variant` was executed.
    #[inline(always)]
    pub fn follow(&mut self, variant: u32) {
        let next = &mut self.next[self.last as usize];
        // Moves, not branches: whether a block is followed as before is what cannot be foreseen.
        let [last, earlier] = *next;
        *next = [variant, if last == variant { earlier } else { last }];
        self.last = variant;
    }
}

/// The slot of a thread.
pub(super) const fn slot(tid: u32) -> usize {
    tid as usize % SLOTS
}
