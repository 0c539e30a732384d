//! What is looked for in a block of the kernel's code, whichever instruction set it is of.

/// What of a block is to be heard of. Numbers are indices of instructions.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Found {
    /// It loads a root of page tables.
    pub loads: Option<Load>,
    /// It drops translations.
    pub drops: bool,
    /// The access that tells where another task's stack is.
    pub switches: Option<usize>,
    /// The last store of registers as the kernel is entered.
    pub entered: Option<usize>,
    /// The first load of registers on the way out of the kernel.
    pub leaves: Option<usize>,
    /// The store of the guest agent's by which it hands a message over.
    pub rings: Option<usize>,
}

/// Which root is loaded, and from which register; none where QEMU's monitor tells it by itself, or where it is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// That of user addresses, or of all.
    Root(Option<u8>),
    /// That of the kernel's, where there are two.
    KernelRoot(Option<u8>),
}
