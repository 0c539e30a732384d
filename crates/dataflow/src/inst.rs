//! An instruction: its class, and the registers it reads and writes, by role.

use crate::{Class, Reg};

/// A small set of registers.
#[derive(Clone, Copy, Default)]
pub struct Regs {
    regs: [Reg; Regs::CAPACITY],
    len: u8,
}

impl Regs {
    /// Most registers kept.
    pub const CAPACITY: usize = 6;

    /// Adds a register, once. [`Reg::NONE`] is not added. False if there was no room. In the three instruction sets,
    /// only instructions that save or restore whole register files read or write more registers in one role.
    pub fn push(&mut self, reg: Reg) -> bool {
        if !reg.is_some() || self.as_slice().contains(&reg) {
            return true;
        }
        let Some(place) = self.regs.get_mut(usize::from(self.len)) else { return false };
        *place = reg;
        self.len += 1;
        true
    }

    /// The registers.
    #[inline(always)]
    pub fn as_slice(&self) -> &[Reg] {
        &self.regs[..usize::from(self.len)]
    }

    /// Whether it has `reg`.
    pub fn contains(&self, reg: Reg) -> bool {
        self.as_slice().contains(&reg)
    }
}

impl PartialEq for Regs {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.as_slice().iter().all(|&reg| other.contains(reg))
    }
}

impl Eq for Regs {}

impl FromIterator<Reg> for Regs {
    fn from_iter<T: IntoIterator<Item = Reg>>(regs: T) -> Self {
        let mut all = Self::default();
        for reg in regs {
            all.push(reg);
        }
        all
    }
}

impl std::fmt::Debug for Regs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.as_slice()).finish()
    }
}

/// Whether and how an instruction changes the program counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Branch {
    /// It does not.
    #[default]
    None,
    /// Always, to a place the code names: a jump or a call.
    Direct,
    /// Perhaps, to a place the code names.
    Conditional,
    /// To a place that a register or memory names.
    Indirect,
    /// To the instruction after the call.
    Return,
}

/// One instruction.
///
/// Data flow in it:
///
/// ```text
/// address --> loads --+--> execute (class) --> results
/// sources ------------+
/// address --------------------------------> bumped
/// sources ------------+--> stores
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inst {
    /// How it is executed.
    pub class: Class,
    /// Whether it is a branch.
    pub branch: Branch,
    /// Registers that addresses are made of.
    pub address: Regs,
    /// Registers read otherwise.
    pub sources: Regs,
    /// Registers written with what it computes or loads.
    pub results: Regs,
    /// Registers written with the address, or a number from it: the stack pointer of a push, a base register that is
    /// written back. They do not wait for what is loaded.
    pub bumped: Regs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_kept_once_and_within_capacity() {
        let mut regs: Regs = [Reg::int(3), Reg::NONE, Reg::int(3), Reg::FLAGS].into_iter().collect();
        assert_eq!(regs.as_slice(), [Reg::int(3), Reg::FLAGS]);
        for n in 4..8 {
            assert!(regs.push(Reg::int(n)));
        }
        assert!(!regs.push(Reg::vector(0)) && regs.push(Reg::FLAGS));
        assert!(regs.contains(Reg::int(7)) && !regs.contains(Reg::vector(0)));
    }

    #[test]
    fn register_numbers_do_not_overlap() {
        let int = (0..32).map(Reg::int);
        let vector = (0..32).map(Reg::vector);
        let rest = (0..8).flat_map(|n| [Reg::mask(n), Reg::x87(n)]);
        let mut all: Vec<_> = int.chain(vector).chain(rest).chain([Reg::NONE, Reg::FLAGS]).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), Reg::COUNT);
        assert!(all.iter().all(|r| r.index() < Reg::COUNT));
        assert!(Reg::int(31).is_int() && !Reg::FLAGS.is_int() && !Reg::FLAGS.is_vector() && Reg::vector(0).is_vector());
    }
}
