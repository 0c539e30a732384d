//! The instruction sets whose systems can be followed. What reads the guest's memory needs no more of them.

use mmulab_trace::Isa;

/// An instruction set whose systems can be followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arch {
    X86,
    Arm64,
}

impl Arch {
    /// That of an instruction set; none if its systems cannot be followed.
    pub fn of(isa: Isa) -> Option<Self> {
        match isa {
            Isa::X86_64 => Some(Self::X86),
            Isa::Aarch64 => Some(Self::Arm64),
            _ => None,
        }
    }

    /// The first address of the kernel's half.
    pub fn kernel_start(self) -> u64 {
        match self {
            Self::X86 => 0xffff_8000_0000_0000,
            Self::Arm64 => 0xffff_0000_0000_0000,
        }
    }
}
