//! AArch64 and RISC-V, by capstone.

use crate::decoded::{Decoded, unknown};
use capstone::arch::{arm64::Arm64Reg, riscv::RiscVReg};
use capstone::{
    Capstone, Insn, RegId,
    arch::{
        ArchOperand, BuildsCapstone, BuildsCapstoneExtraMode, DetailsArchInsn, arm64, arm64::Arm64OperandType, riscv,
        riscv::RiscVOperand,
    },
};
use mmulab_dataflow::{Branch, Class, Inst, Reg, Regs};
use mmulab_trace::Isa;

/// Which of the two. The library's handle is made for each block: it may not move between threads.
pub struct Capstones(Isa);

impl Capstones {
    pub fn new(isa: Isa) -> Self {
        Self(isa)
    }

    pub fn decode(&mut self, start: u64, bytes: &[u8], wanted: usize, out: &mut Decoded) {
        let is_arm = self.0 == Isa::Aarch64;
        let made = if is_arm {
            Capstone::new().arm64().mode(arm64::ArchMode::Arm).detail(true).build()
        } else {
            let compressed = [riscv::ArchExtraMode::RiscVC].into_iter();
            Capstone::new().riscv().mode(riscv::ArchMode::RiscV64).extra_mode(compressed).detail(true).build()
        };
        let Ok(capstone) = made else { return };
        let mut at = 0;
        while out.insts.len() < wanted && at < bytes.len() {
            let read = capstone.disasm_count(&bytes[at..], start.wrapping_add(at as u64), 1);
            let decoded = read.ok().and_then(|insns| {
                let insn = insns.iter().next()?;
                let inst = if is_arm { arm(&capstone, insn) } else { risc_v(&capstone, insn) };
                Some((inst?, insn.len(), is_arm && insn.mnemonic().is_some_and(is_prefetch)))
            });
            // Lengths are known without the instruction: 4 bytes, or on RISC-V 2 where the lowest bits are not both
            // set.
            let length = if is_arm || bytes[at] & 3 == 3 { 4 } else { 2 };
            match decoded {
                Some((inst, length, prefetches)) => {
                    out.insts.push(inst);
                    out.prefetches += u32::from(prefetches);
                    out.lengths.push(length as u8);
                    at += length;
                }
                None => {
                    out.insts.push(unknown());
                    out.lengths.push(length);
                    out.unknown += 1;
                    at += usize::from(length);
                }
            }
        }
    }
}

/// Whether an instruction of Arm asks for a line for later. RISC-V's prefetches (Zicbop) are encoded as `ori` with the
/// destination `x0`; the library reads them as that.
fn is_prefetch(name: &str) -> bool {
    matches!(name, "prfm" | "prfum")
}

fn arm(capstone: &Capstone, insn: &Insn) -> Option<Inst> {
    let detail = capstone.insn_detail(insn).ok()?;
    let arch = detail.arch_detail();
    let more = arch.arm64()?;
    let name = insn.mnemonic()?;
    let mut inst = Inst { class: arm_class(name), branch: arm_branch(name), ..Inst::default() };
    let mut named_reads = Regs::default();
    let mut has_memory = false;
    for operand in more.operands() {
        match operand.op_type {
            Arm64OperandType::Mem(memory) => {
                has_memory = true;
                inst.address.push(arm_reg(memory.base()));
                inst.address.push(arm_reg(memory.index()));
            }
            Arm64OperandType::Reg(reg) if operand.access.is_none_or(|access| access.is_readable()) => {
                named_reads.push(arm_reg(reg));
            }
            _ => {}
        }
    }
    for &read in detail.regs_read() {
        let reg = arm_reg(read);
        if !inst.address.contains(reg) || named_reads.contains(reg) {
            inst.sources.push(reg);
        }
    }
    for &write in detail.regs_write() {
        let reg = arm_reg(write);
        if has_memory && more.writeback() && inst.address.contains(reg) {
            inst.bumped.push(reg);
        } else {
            inst.results.push(reg);
        }
    }
    if more.update_flags() {
        inst.results.push(Reg::FLAGS);
    }
    // A conditional branch or select reads the flags, which the library does not say of all.
    if name.starts_with("b.") || ["csel", "csinc", "csinv", "csneg", "ccmp", "ccmn", "fcsel"].contains(&name) {
        inst.sources.push(Reg::FLAGS);
    }
    if inst.class == Class::Int && inst.branch == Branch::None {
        let is_vector = |regs: &Regs| regs.as_slice().iter().any(|r| r.is_vector());
        let is_int = |regs: &Regs| regs.as_slice().iter().any(|r| r.is_int());
        let vector = is_vector(&inst.sources) || is_vector(&inst.results);
        if vector {
            inst.class = if is_int(&inst.sources) || is_int(&inst.results) { Class::Convert } else { Class::Vector };
        }
    }
    Some(inst)
}

fn arm_reg(id: RegId) -> Reg {
    let id = u32::from(id.0);
    let within = |first: u32, count: u32| id.checked_sub(first).filter(|&n| n < count).map(|n| n as u8);
    let int = within(Arm64Reg::ARM64_REG_X0, 29).or_else(|| within(Arm64Reg::ARM64_REG_W0, 31));
    if let Some(n) = int {
        return Reg::int(n);
    }
    match id {
        Arm64Reg::ARM64_REG_FP => return Reg::int(29),
        Arm64Reg::ARM64_REG_LR => return Reg::int(30),
        Arm64Reg::ARM64_REG_SP | Arm64Reg::ARM64_REG_WSP => return Reg::int(31),
        Arm64Reg::ARM64_REG_NZCV => return Reg::FLAGS,
        _ => {}
    }
    let banks = [
        Arm64Reg::ARM64_REG_B0,
        Arm64Reg::ARM64_REG_H0,
        Arm64Reg::ARM64_REG_S0,
        Arm64Reg::ARM64_REG_D0,
        Arm64Reg::ARM64_REG_Q0,
        Arm64Reg::ARM64_REG_V0,
        Arm64Reg::ARM64_REG_Z0,
    ];
    banks.into_iter().find_map(|first| within(first, 32)).map_or(Reg::NONE, Reg::vector)
}

fn arm_branch(name: &str) -> Branch {
    match name {
        "ret" | "retaa" | "retab" => Branch::Return,
        "br" | "blr" | "braa" | "brab" | "blraa" | "blrab" => Branch::Indirect,
        "b" | "bl" => Branch::Direct,
        "cbz" | "cbnz" | "tbz" | "tbnz" => Branch::Conditional,
        _ if name.starts_with("b.") => Branch::Conditional,
        _ => Branch::None,
    }
}

fn arm_class(name: &str) -> Class {
    let starts = |parts: &[&str]| parts.iter().any(|part| name.starts_with(part));
    if arm_branch(name) != Branch::None {
        Class::Branch
    } else if starts(&["svc", "isb", "dsb", "dmb", "mrs", "msr"]) {
        Class::Serial
    } else if starts(&["ldax", "ldx", "stlx", "stx", "ldadd", "swp", "cas", "ldset", "ldclr", "ldeor"]) {
        Class::Atomic
    } else if starts(&["ld", "st", "nop", "prfm", "hint", "bti", "paci", "auti"]) || name == "mov" || name == "fmov" {
        Class::Move
    } else if starts(&["fdiv", "fsqrt"]) {
        Class::FpDiv
    } else if starts(&["fmul", "fmadd", "fmsub", "fnm", "fmla", "fmls"]) {
        Class::FpMul
    } else if starts(&["fadd", "fsub", "fcmp", "fccmp", "fmin", "fmax", "fabs", "fneg", "frint"]) {
        Class::FpAdd
    } else if starts(&["fcvt", "scvtf", "ucvtf", "umov", "smov"]) {
        Class::Convert
    } else if starts(&["sdiv", "udiv"]) {
        Class::Div
    } else if starts(&["mul", "madd", "msub", "mneg", "smul", "umul", "smadd", "umadd", "smsub", "umsub"]) {
        Class::Mul
    } else {
        Class::Int
    }
}

fn risc_v(capstone: &Capstone, insn: &Insn) -> Option<Inst> {
    let detail = capstone.insn_detail(insn).ok()?;
    let arch = detail.arch_detail();
    let operands: Vec<_> = arch
        .operands()
        .into_iter()
        .filter_map(|operand| match operand {
            ArchOperand::RiscVOperand(operand) => Some(operand),
            _ => None,
        })
        .collect();
    let mnemonic = insn.mnemonic()?;
    let name = mnemonic.strip_prefix("c.").unwrap_or(mnemonic);
    let class = risc_v_class(name);
    let mut inst = Inst { class, branch: risc_v_branch(name), ..Inst::default() };
    // The library does not say which operands are written: the first register is, but of stores and branches.
    let is_store = ["sb", "sh", "sw", "sd", "swsp", "sdsp", "fsw", "fsd", "fswsp", "fsdsp"].contains(&name);
    let writes_first = !is_store && !matches!(inst.branch, Branch::Conditional | Branch::Return) && name != "jr";
    let is_atomic = class == Class::Atomic;
    let mut registers = 0;
    for operand in &operands {
        match operand {
            RiscVOperand::Mem(memory) => {
                inst.address.push(risc_v_reg(memory.base()));
            }
            RiscVOperand::Reg(id) => {
                let reg = risc_v_reg(*id);
                match registers {
                    0 if writes_first => inst.results.push(reg),
                    // Of an atomic operation the last register is where it happens.
                    2 if is_atomic => inst.address.push(reg),
                    _ => inst.sources.push(reg),
                };
                registers += 1;
            }
            _ => {}
        }
    }
    // Compressed instructions of two operands read the first, too.
    let two_of_three =
        ["add", "addw", "sub", "subw", "and", "or", "xor", "addi", "addiw", "slli", "srli", "srai", "andi"];
    if mnemonic.starts_with("c.") && operands.len() == 2 && two_of_three.contains(&name) {
        inst.results.as_slice().to_vec().into_iter().for_each(|reg| {
            inst.sources.push(reg);
        });
    }
    // Loads and stores by the stack pointer do not name it.
    if name.ends_with("sp") && class == Class::Move {
        inst.address.push(Reg::int(2));
    }
    let crosses =
        |regs: &Regs| (regs.as_slice().iter().any(|r| r.is_int()), regs.as_slice().iter().any(|r| r.is_vector()));
    if class == Class::Int && (crosses(&inst.sources).1 || crosses(&inst.results).1) {
        inst.class = Class::Convert;
    }
    Some(inst)
}

fn risc_v_reg(id: RegId) -> Reg {
    let id = u32::from(id.0);
    if let Some(n) = id.checked_sub(RiscVReg::RISCV_REG_X0).filter(|&n| n < 32) {
        return if n == 0 { Reg::NONE } else { Reg::int(n as u8) };
    }
    match id.checked_sub(RiscVReg::RISCV_REG_F0_32) {
        // Each register has two numbers: of 32 and of 64 bits.
        Some(n) if n < 64 => Reg::vector((n / 2) as u8),
        _ => Reg::NONE,
    }
}

fn risc_v_branch(name: &str) -> Branch {
    match name {
        "ret" => Branch::Return,
        "jr" | "jalr" => Branch::Indirect,
        "j" | "jal" => Branch::Direct,
        _ if name.starts_with('b') && !name.starts_with("bset") && !name.starts_with("bclr") => Branch::Conditional,
        _ => Branch::None,
    }
}

fn risc_v_class(name: &str) -> Class {
    let starts = |parts: &[&str]| parts.iter().any(|part| name.starts_with(part));
    if risc_v_branch(name) != Branch::None {
        Class::Branch
    } else if starts(&["ecall", "ebreak", "fence", "csr"]) {
        Class::Serial
    } else if starts(&["amo", "lr.", "sc."]) {
        Class::Atomic
    } else if starts(&["fdiv", "fsqrt"]) {
        Class::FpDiv
    } else if starts(&["fmul", "fmadd", "fmsub", "fnm"]) {
        Class::FpMul
    } else if starts(&["fadd", "fsub", "fmin", "fmax", "feq", "flt", "fle"]) {
        Class::FpAdd
    } else if starts(&["fcvt", "fmv", "fclass"]) {
        Class::Convert
    } else if starts(&["fsgnj"]) {
        Class::Vector
    } else if starts(&["div", "rem"]) {
        Class::Div
    } else if starts(&["mul"]) {
        Class::Mul
    } else if ["lb", "lh", "lw", "ld", "lbu", "lhu", "lwu", "flw", "fld", "lwsp", "ldsp", "flwsp", "fldsp"]
        .contains(&name)
        || ["sb", "sh", "sw", "sd", "swsp", "sdsp", "fsw", "fsd", "fswsp", "fsdsp", "nop", "mv"].contains(&name)
    {
        Class::Move
    } else {
        Class::Int
    }
}

#[cfg(test)]
mod tests {
    use crate::Decoder;
    use mmulab_dataflow::{Branch, Class, Inst, Reg, Regs};
    use mmulab_trace::Isa;

    fn one(isa: Isa, bytes: &[u8]) -> Inst {
        let decoded = Decoder::new(isa).decode(0x1_0000, bytes, 1);
        assert_eq!((decoded.unknown, usize::from(decoded.lengths[0])), (0, bytes.len()), "{bytes:02x?}");
        decoded.insts[0]
    }

    fn arm(word: u32) -> Inst {
        one(Isa::Aarch64, &word.to_le_bytes())
    }

    fn risc_v(word: u32) -> Inst {
        one(Isa::Riscv64, &word.to_le_bytes())
    }

    fn ints<const N: usize>(numbers: [u8; N]) -> Regs {
        numbers.into_iter().map(Reg::int).collect()
    }

    #[test]
    fn armv8_loads_stores_and_arithmetic() {
        // ldr x0, [x1, x2, lsl #3]
        let load = arm(0xf862_7820);
        assert_eq!((load.class, load.address, load.results), (Class::Move, ints([1, 2]), ints([0])));
        assert_eq!(load.sources, Regs::default());
        // ldr x0, [x1], #8: the base does not wait for what is loaded.
        let post = arm(0xf840_8420);
        assert_eq!((post.results, post.bumped), (ints([0]), ints([1])));
        // stp x29, x30, [sp, #-16]!
        let push = arm(0xa9bf_7bfd);
        assert_eq!((push.address, push.sources, push.bumped), (ints([31]), ints([29, 30]), ints([31])));
        // madd x0, x1, x2, x3; add x0, x1, x2; fmul d0, d1, d2; scvtf d0, x1
        assert_eq!((arm(0x9b02_0c20).class, arm(0x9b02_0c20).sources), (Class::Mul, ints([1, 2, 3])));
        assert_eq!(arm(0x8b02_0020).class, Class::Int);
        assert_eq!(arm(0x1e62_0820).class, Class::FpMul);
        assert_eq!(arm(0x9e62_0020).class, Class::Convert);
        // subs xzr (cmp x0, x1) writes flags; b.eq reads them.
        assert!(arm(0xeb01_001f).results.contains(Reg::FLAGS));
        let branch = arm(0x5400_0040);
        assert_eq!((branch.branch, branch.sources.contains(Reg::FLAGS)), (Branch::Conditional, true));
        assert_eq!(arm(0xd65f_03c0).branch, Branch::Return);
    }

    #[test]
    fn risc_v_loads_stores_and_arithmetic() {
        // ld a0, 8(a1); sd a0, 8(a1)
        let load = risc_v(0x0085_b503);
        assert_eq!((load.class, load.address, load.results), (Class::Move, ints([11]), ints([10])));
        let store = risc_v(0x00a5_b423);
        assert_eq!((store.address, store.sources, store.results), (ints([11]), ints([10]), Regs::default()));
        // add a0, a1, a2; mul a0, a1, a2; divu a0, a1, a2
        assert_eq!((risc_v(0x00c5_8533).sources, risc_v(0x00c5_8533).results), (ints([11, 12]), ints([10])));
        assert_eq!((risc_v(0x02c5_8533).class, risc_v(0x02c5_d533).class), (Class::Mul, Class::Div));
        // beq a0, a1: both are read.
        let branch = risc_v(0x00b5_0463);
        assert_eq!(
            (branch.branch, branch.sources, branch.results),
            (Branch::Conditional, ints([10, 11]), Regs::default())
        );
        // c.add a0, a1 reads a0, too; c.ldsp a0, 0(sp) is by the stack pointer.
        let add = one(Isa::Riscv64, &0x952e_u16.to_le_bytes());
        assert_eq!((add.sources, add.results), (ints([11, 10]), ints([10])));
        let pop = one(Isa::Riscv64, &0x6502_u16.to_le_bytes());
        assert_eq!((pop.address, pop.results), (ints([2]), ints([10])));
        // fmul.d fa0, fa1, fa2
        let product = risc_v(0x12c5_f553);
        assert_eq!((product.class, product.results.as_slice()), (Class::FpMul, &[Reg::vector(10)][..]));
    }

    #[test]
    fn words_that_are_no_code_are_stepped_over() {
        let mut bytes = 0xffff_ffff_u32.to_le_bytes().to_vec();
        bytes.extend(0x8b02_0020_u32.to_le_bytes());
        let decoded = Decoder::new(Isa::Aarch64).decode(0, &bytes, 2);
        assert_eq!((decoded.unknown, decoded.insts[1].results), (1, ints([0])));
    }
}
