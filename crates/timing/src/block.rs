//! A block of code, ready to be run: what the core asks of each instruction, in few bytes. A program runs more
//! instructions than the nearest caches of the computer that simulates hold.
//!
//! ```text
//! steps   | load: 1 source, 1 address, .. | compare: .. | branch |     16 bytes each
//! regs    | sources | address | results | bumped | sources | ..        a byte each, one instruction after the other
//! ops     | load of 8 bytes | ..                                       the accesses, likewise
//! ```

use crate::desc::{Fusion, Renaming};
use mmulab_dataflow::{Branch, Class, Inst, Reg};

/// One access of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Op {
    pub store: bool,
    pub bytes: u16,
}

/// An instruction of a block. Its registers and accesses follow those of the instruction before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub class: Class,
    pub branch: Branch,
    /// How many registers it has in each role, in the order in which they lie.
    pub sources: u8,
    pub address: u8,
    pub results: u8,
    pub bumped: u8,
    /// All of them.
    pub registers: u8,
    /// Registers of each file that it takes for what it writes.
    pub ints: u8,
    pub vectors: u8,
    /// How many accesses it makes; `loads` of them are loads.
    pub ops: u16,
    pub loads: u16,
    /// Whether it is a branch that is one operation with the instruction before it. It has no registers then.
    pub is_fused: bool,
}

impl Step {
    /// `inst`, without accesses.
    fn new(inst: &Inst) -> Self {
        let written = || inst.results.as_slice().iter().chain(inst.bumped.as_slice());
        let [sources, address, results, bumped] = roles(inst).map(|regs| regs.len() as u8);
        Self {
            class: inst.class,
            branch: inst.branch,
            sources,
            address,
            results,
            bumped,
            registers: sources + address + results + bumped,
            ints: written().filter(|reg| reg.is_int()).count() as u8,
            vectors: written().filter(|reg| reg.is_vector()).count() as u8,
            ops: 0,
            loads: 0,
            is_fused: false,
        }
    }

    /// How many stores it makes.
    #[inline(always)]
    pub fn stores(&self) -> u16 {
        self.ops - self.loads
    }

    /// Whether it has an address: for accesses, or for a register that is changed by it.
    #[inline(always)]
    pub fn has_address(&self) -> bool {
        self.ops > 0 || self.bumped > 0
    }

    /// Whether it only moves registers to others.
    fn moves(&self) -> bool {
        self.class == Class::Move && self.ops == 0 && self.sources > 0
    }

    /// Whether this is a compare by this rule, and `next`, right behind it, a branch that does nothing but look at
    /// flags. Both with their instructions.
    fn fuses(&self, inst: &Inst, (next, next_inst): (&Self, &Inst), rule: Fusion) -> bool {
        let sets_flags =
            self.class == Class::Int && inst.results.contains(Reg::FLAGS) && !inst.sources.contains(Reg::FLAGS);
        let is_branch = next.branch == Branch::Conditional && next_inst.sources.contains(Reg::FLAGS);
        let does_more = next.ops > 0 || next.ints > 0 || next.vectors > 0;
        let allowed = (rule.arithmetic || self.ints == 0) && (rule.memory || self.loads == 0) && self.stores() == 0;
        sets_flags && is_branch && !does_more && allowed
    }
}

/// The registers of an instruction by role, in the order in which a block has them.
fn roles(inst: &Inst) -> [&[Reg]; 4] {
    [inst.sources.as_slice(), inst.address.as_slice(), inst.results.as_slice(), inst.bumped.as_slice()]
}

/// A block of code, ready to be run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Block {
    pub(crate) steps: Box<[Step]>,
    pub(crate) ops: Box<[Op]>,
    pub(crate) regs: Box<[Reg]>,
    /// From its first byte to the instruction behind it.
    pub(crate) bytes: u64,
}

impl Block {
    /// A block of `insts`, `bytes` long, that makes `accesses` in order: each by instruction, whether it stores, and
    /// its bytes. An access of an instruction before that of the access before it counts as the latter's. `renaming`:
    /// of the core that runs it.
    pub fn new(
        renaming: Renaming,
        insts: &[Inst],
        bytes: u64,
        accesses: impl Iterator<Item = (u16, bool, u16)>,
    ) -> Self {
        let mut steps: Vec<_> = insts.iter().map(Step::new).collect();
        let mut ops = Vec::new();
        let mut at = 0;
        for (instruction, store, bytes) in accesses {
            at = at.max(usize::from(instruction)).min(steps.len().saturating_sub(1));
            let Some(step) = steps.get_mut(at) else { break };
            step.ops += 1;
            step.loads += u16::from(!store);
            ops.push(Op { store, bytes });
        }
        if let Some(rule) = renaming.fusion {
            for at in 1..steps.len() {
                if steps[at - 1].fuses(&insts[at - 1], (&steps[at], &insts[at]), rule) {
                    let Step { class, branch, .. } = steps[at];
                    steps[at] = Step { is_fused: true, ..Step::new(&Inst { class, branch, ..Inst::default() }) };
                }
            }
        }
        if renaming.moves_share_registers {
            for step in steps.iter_mut().filter(|step| step.moves()) {
                (step.ints, step.vectors) = (0, 0);
            }
        }
        let runs = insts.iter().zip(&steps).filter(|(_, step)| !step.is_fused);
        let regs = runs.flat_map(|(inst, _)| roles(inst)).flatten().copied().collect();
        Self { steps: steps.into(), ops: ops.into(), regs, bytes }
    }

    /// How many instructions it has.
    pub fn instructions(&self) -> usize {
        self.steps.len()
    }

    /// How many accesses it makes.
    pub fn accesses(&self) -> usize {
        self.ops.len()
    }

    /// Where its parts lie in the memory of the computer that simulates, which can bring them near before it runs.
    pub fn lies_at(&self) -> [*const (); 3] {
        [self.steps.as_ptr().cast(), self.regs.as_ptr().cast(), self.ops.as_ptr().cast()]
    }
}
