//! Classes of instructions: which unit executes one decides how long it takes.

/// How an instruction is executed, as far as its time depends on that. Accesses to memory come on top.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Class {
    /// Nothing is computed: a plain load or store, a no-operation, a register move that renaming resolves.
    #[default]
    Move,
    /// Integer addition, logic, shift, compare.
    Int,
    /// Integer multiplication.
    Mul,
    /// Integer division.
    Div,
    /// A branch, direct or not.
    Branch,
    /// Vector integer and logic, shuffles.
    Vector,
    /// Floating-point addition and comparison.
    FpAdd,
    /// Floating-point multiplication, fused or not.
    FpMul,
    /// Floating-point division and square root.
    FpDiv,
    /// Conversions, and moves between register files.
    Convert,
    /// A read-modify-write that is atomic: earlier stores must have left the store queue.
    Atomic,
    /// Waits until everything before it has retired: system calls, barriers, CPUID.
    Serial,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 12;

    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Move,
        Self::Int,
        Self::Mul,
        Self::Div,
        Self::Branch,
        Self::Vector,
        Self::FpAdd,
        Self::FpMul,
        Self::FpDiv,
        Self::Convert,
        Self::Atomic,
        Self::Serial,
    ];
}
