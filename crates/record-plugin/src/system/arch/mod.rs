//! The differences between instruction sets. They are the instructions by which the kernel is followed, the places
//! where it saves a program's registers, and the numbers of calls. The numbers of x86-64 are used for both.

mod arm64;
mod found;
mod kind;
mod x86;

pub use found::{Found, Load};
pub use kind::Arch;

use super::ram::Ram;

impl Arch {
    /// Looks at a block's instructions.
    pub fn look(self, instructions: &[&[u8]]) -> Found {
        match self {
            Self::X86 => x86::look(instructions),
            Self::Arm64 => arm64::look(instructions),
        }
    }

    /// Where the next task's stack pointer lies, from the access that [`Found::switches`] names.
    pub fn pointer(self, access: u64) -> u64 {
        match self {
            Self::X86 => access,
            Self::Arm64 => access - arm64::POINTER_BEFORE,
        }
    }

    /// Where registers were saved for a system call, from the access that [`Found::entered`] names; none if it is no
    /// call.
    pub fn entered(self, ram: &Ram, root: u64, access: u64) -> Option<u64> {
        match self {
            Self::X86 => Some(access),
            Self::Arm64 => {
                let place = self.registers(access)?;
                let after = ram.u64(root, place + arm64::at::PC).filter(|pc| pc >> 63 == 0)?;
                let mut bits = [0; 4];
                let got = ram.read(root, after.wrapping_sub(4), &mut bits);
                (got == 4 && u32::from_le_bytes(bits) == arm64::SVC).then_some(place)
            }
        }
    }

    /// Where registers lie that are restored, from the access that [`Found::leaves`] names; none if they are not a
    /// program's.
    pub fn leaves(self, ram: &Ram, root: u64, access: u64) -> Option<u64> {
        let place = self.registers(access)?;
        let is_programs = match self {
            Self::X86 => ram.u64(root, place + x86::at::CS)? & x86::PROGRAMS == x86::PROGRAMS,
            Self::Arm64 => ram.u64(root, place + arm64::at::PC)? >> 63 == 0,
        };
        is_programs.then_some(place)
    }

    /// Where registers lie, from an access to one; of a pair of accesses, the first tells.
    fn registers(self, access: u64) -> Option<u64> {
        match self {
            Self::X86 => Some(access),
            Self::Arm64 => Some(access - arm64::at::PC).filter(|place| place.is_multiple_of(arm64::ALIGNED)),
        }
    }

    /// The number and arguments of the call whose registers lie at `place`; none if it is not one that is followed.
    pub fn call(self, ram: &Ram, root: u64, place: u64) -> Option<(u64, [u64; 6])> {
        let register = |offset| ram.u64(root, place + offset).unwrap_or_default();
        match self {
            Self::X86 => {
                use x86::at;
                let number = register(at::ORIG_RAX);
                Some((number, [at::RDI, at::RSI, at::RDX, at::R10, at::R8, at::R9].map(register)))
            }
            Self::Arm64 => {
                let number = arm64::call(register(arm64::at::X8))?;
                Some((number, [0, 8, 16, 24, 32, 40].map(register)))
            }
        }
    }

    /// What a call returns, from its registers at `place`.
    pub fn result(self, ram: &Ram, root: u64, place: u64) -> u64 {
        let offset = match self {
            Self::X86 => x86::at::RAX,
            Self::Arm64 => 0,
        };
        ram.u64(root, place + offset).unwrap_or_default()
    }
}
