//! x86-64, by iced-x86.

use crate::decoded::{Decoded, unknown};
use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind,
    Register,
};
use mmulab_dataflow::{Branch, Class, Inst, Reg, Regs};

pub struct X86 {
    factory: InstructionInfoFactory,
}

impl Default for X86 {
    fn default() -> Self {
        Self { factory: InstructionInfoFactory::new() }
    }
}

impl X86 {
    pub fn decode(&mut self, start: u64, bytes: &[u8], wanted: usize, out: &mut Decoded) {
        let mut decoder = iced_x86::Decoder::with_ip(64, bytes, start, iced_x86::DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while out.insts.len() < wanted && decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                // The length of an unknown instruction is not known either, so the rest is not decoded.
                out.insts.push(unknown());
                out.lengths.push(0);
                out.unknown += 1;
                return;
            }
            out.insts.push(self.inst(&instruction));
            out.prefetches += u32::from(is_prefetch(&instruction));
            out.lengths.push(instruction.len() as u8);
        }
    }

    fn inst(&mut self, i: &Instruction) -> Inst {
        let info = self.factory.info_options(i, InstructionInfoOptions::NONE);
        let (mut address, mut sources, mut results, mut bumped) = <(Regs, Regs, Regs, Regs)>::default();
        for memory in info.used_memory().iter().filter(|m| m.access() != OpAccess::NoMemAccess) {
            for part in [memory.base(), memory.index()] {
                address.push(reg(part));
            }
        }
        let named = |which: Reg, written: bool| {
            (0..i.op_count()).any(|op| {
                i.op_kind(op) == OpKind::Register
                    && reg(i.op_register(op)) == which
                    && if written { writes(info.op_access(op)) } else { reads(info.op_access(op)) }
            })
        };
        for used in info.used_registers() {
            let register = reg(used.register());
            let part = used.register().is_gpr8() || used.register().is_gpr16();
            // What is left of a register is merged with what is written to a part of it.
            let merged = writes(used.access()) && (part || used.access() == OpAccess::CondWrite);
            let read = reads(used.access()) && (!address.contains(register) || named(register, false));
            if read || merged {
                sources.push(register);
            }
            if writes(used.access()) {
                let by_the_way = address.contains(register) && !named(register, true);
                if by_the_way {
                    bumped.push(register)
                } else {
                    results.push(register)
                };
            }
        }
        if i.rflags_read() != 0 {
            sources.push(Reg::FLAGS);
        }
        if i.rflags_modified() != 0 {
            results.push(Reg::FLAGS);
        }
        let class = class(i, &sources, &results);
        Inst { class, branch: branch(i), address, sources, results, bumped }
    }
}

fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// The register whose part this is; none for segments, the program counter and the like.
fn reg(r: Register) -> Reg {
    if r.is_gpr() {
        Reg::int(r.full_register().number() as u8)
    } else if r.is_vector_register() {
        Reg::vector(r.number() as u8)
    } else if r.is_k() {
        Reg::mask(r.number() as u8)
    } else if r.is_st() || r.is_mm() {
        Reg::x87(r.number() as u8)
    } else {
        Reg::NONE
    }
}

fn branch(i: &Instruction) -> Branch {
    if matches!(i.mnemonic(), Mnemonic::Syscall | Mnemonic::Sysenter) {
        return Branch::None;
    }
    match i.flow_control() {
        FlowControl::ConditionalBranch => Branch::Conditional,
        FlowControl::UnconditionalBranch | FlowControl::Call => Branch::Direct,
        FlowControl::IndirectBranch | FlowControl::IndirectCall => Branch::Indirect,
        FlowControl::Return => Branch::Return,
        _ => Branch::None,
    }
}

/// Whether it asks for a line for later. Code prefetches, whose address is relative to the instruction, are left out.
fn is_prefetch(i: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        i.mnemonic(),
        M::Prefetch | M::Prefetcht0 | M::Prefetcht1 | M::Prefetcht2 | M::Prefetchnta | M::Prefetchw | M::Prefetchwt1
    )
}

fn class(i: &Instruction, sources: &Regs, results: &Regs) -> Class {
    use Mnemonic as M;
    if branch(i) != Branch::None {
        return Class::Branch;
    }
    let has_memory = (0..i.op_count()).any(|op| i.op_kind(op) == OpKind::Memory);
    if i.has_lock_prefix() || i.mnemonic() == M::Xchg && has_memory {
        return Class::Atomic;
    }
    if is_prefetch(i) {
        return Class::Move;
    }
    match i.mnemonic() {
        M::Syscall | M::Sysenter | M::Int | M::Int3 | M::Into | M::Cpuid | M::Mfence | M::Lfence | M::Serialize => {
            return Class::Serial;
        }
        M::Mov
        | M::Movaps
        | M::Movups
        | M::Movapd
        | M::Movupd
        | M::Movdqa
        | M::Movdqu
        | M::Vmovaps
        | M::Vmovups
        | M::Vmovapd
        | M::Vmovupd
        | M::Vmovdqa
        | M::Vmovdqu
        | M::Vmovdqu8
        | M::Vmovdqu16
        | M::Vmovdqu32
        | M::Vmovdqu64
        | M::Vmovdqa32
        | M::Vmovdqa64
        | M::Movntdq
        | M::Movnti
        | M::Lddqu
        | M::Push
        | M::Pop
        | M::Nop
        | M::Endbr64
        | M::Endbr32
        | M::Leave => {
            // Eight- and sixteen-bit moves merge, which takes an adder.
            let merges = results.as_slice().iter().any(|r| r.is_int() && sources.contains(*r)) && !has_memory;
            return if merges { Class::Int } else { Class::Move };
        }
        M::Mul | M::Imul | M::Mulx => return Class::Mul,
        M::Div | M::Idiv => return Class::Div,
        _ => {}
    }
    let vector = (0..i.op_count())
        .filter(|&op| i.op_kind(op) == OpKind::Register)
        .any(|op| !reg(i.op_register(op)).is_int() && reg(i.op_register(op)).is_some());
    let x87 = i.code().fpu_or(Code::Fnop);
    if !vector && !x87 {
        // Renaming makes a zero: `xor eax, eax`.
        let zeroes = matches!(i.mnemonic(), M::Xor | M::Sub) && sources.as_slice().is_empty() && !has_memory;
        return if zeroes { Class::Move } else { Class::Int };
    }
    // Registers of both files: the value crosses from one to the other.
    let crosses = sources.as_slice().iter().chain(results.as_slice()).any(|r| r.is_int())
        && sources.as_slice().iter().chain(results.as_slice()).any(|r| r.is_vector());
    by_name(&format!("{:?}", i.mnemonic()).to_ascii_lowercase(), sources.as_slice().is_empty(), crosses)
}

/// The class of a vector, floating-point or x87 instruction, by the parts of its name. Done once for each block.
fn by_name(name: &str, is_zeroing: bool, crosses: bool) -> Class {
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let is_float = ["ps", "pd", "ss", "sd"].iter().any(|end| name.ends_with(end)) || name.starts_with('f');
    if is_zeroing && (has(&["xor"]) || has(&["psub"])) {
        Class::Move
    } else if crosses || has(&["cvt"]) {
        Class::Convert
    } else if is_float && has(&["div", "sqrt"]) {
        Class::FpDiv
    } else if has(&["mul", "fmadd", "fnmadd", "fmsub", "fnmsub", "pmadd"]) {
        Class::FpMul
    } else if is_float && has(&["add", "sub", "min", "max", "cmp", "com", "round"]) {
        Class::FpAdd
    } else {
        Class::Vector
    }
}

/// Whether an instruction belongs to the x87.
trait Fpu {
    fn fpu_or(self, other: Code) -> bool;
}

impl Fpu for Code {
    fn fpu_or(self, other: Code) -> bool {
        self == other || self.cpuid_features().iter().any(|f| format!("{f:?}").starts_with("FPU"))
    }
}

#[cfg(test)]
mod tests {
    use crate::Decoder;
    use mmulab_dataflow::{Branch, Class, Inst, Reg, Regs};
    use mmulab_trace::Isa;

    fn one(bytes: &[u8]) -> Inst {
        let decoded = Decoder::new(Isa::X86_64).decode(0x40_1000, bytes, 1);
        assert_eq!((decoded.unknown, usize::from(decoded.lengths[0])), (0, bytes.len()), "{bytes:02x?}");
        decoded.insts[0]
    }

    fn regs<const N: usize>(regs: [Reg; N]) -> Regs {
        regs.into_iter().collect()
    }

    const RAX: Reg = Reg::int(0);
    const RCX: Reg = Reg::int(1);
    const RDX: Reg = Reg::int(2);
    const RBX: Reg = Reg::int(3);
    const RSP: Reg = Reg::int(4);
    const RSI: Reg = Reg::int(6);
    const RDI: Reg = Reg::int(7);

    #[test]
    fn a_load_through_its_own_result_depends_on_itself() {
        // mov rax, [rax]
        let chase = one(&[0x48, 0x8b, 0x00]);
        assert_eq!(chase.class, Class::Move);
        assert_eq!((chase.address, chase.results), (regs([RAX]), regs([RAX])));
        assert_eq!((chase.sources, chase.bumped), (Regs::default(), Regs::default()));
        // mov [rbx+rcx*8], rax
        let store = one(&[0x48, 0x89, 0x04, 0xcb]);
        assert_eq!((store.address, store.sources, store.results), (regs([RBX, RCX]), regs([RAX]), Regs::default()));
        // mov [rax], rax: the value stored is a source, though it is the address, too.
        assert!(one(&[0x48, 0x89, 0x00]).sources.contains(RAX));
        // lea rax, [rbx+rcx]: no memory is accessed, so base and index are sources.
        let lea = one(&[0x48, 0x8d, 0x04, 0x0b]);
        assert_eq!((lea.class, lea.address, lea.sources), (Class::Int, Regs::default(), regs([RBX, RCX])));
    }

    #[test]
    fn prefetches_are_counted_apart_from_loads() {
        // prefetcht0 [rax]; prefetchnta [rsp+8]; prefetchw [rbx]; nop [rax]; mov rax, [rax]
        let bytes =
            [0x0f, 0x18, 0x08, 0x0f, 0x18, 0x44, 0x24, 0x08, 0x0f, 0x0d, 0x0b, 0x0f, 0x1f, 0x00, 0x48, 0x8b, 0x00];
        let decoded = Decoder::new(Isa::X86_64).decode(0x40_1000, &bytes, 5);
        assert_eq!((decoded.prefetches, decoded.unknown), (3, 0));
        assert!(decoded.insts[..3].iter().all(|inst| inst.class == Class::Move && inst.results == Regs::default()));
    }

    #[test]
    fn the_stack_pointer_does_not_wait_for_what_is_popped() {
        // pop rax
        let pop = one(&[0x58]);
        assert_eq!((pop.address, pop.results, pop.bumped), (regs([RSP]), regs([RAX]), regs([RSP])));
        // push rdx
        let push = one(&[0x52]);
        assert_eq!((push.sources, push.bumped), (regs([RDX]), regs([RSP])));
        // movsq: both pointers are bumped.
        let movs = one(&[0x48, 0xa5]);
        assert_eq!(movs.bumped, regs([RSI, RDI]));
    }

    #[test]
    fn parts_of_registers_and_conditions_merge_and_idioms_do_not() {
        // mov al, bl keeps the rest of rax; mov eax, ebx clears it.
        assert!(one(&[0x88, 0xd8]).sources.contains(RAX));
        assert_eq!(one(&[0x89, 0xd8]).sources, regs([RBX]));
        // cmove rax, rbx
        let cmov = one(&[0x48, 0x0f, 0x44, 0xc3]);
        assert!(cmov.sources.contains(RAX) && cmov.sources.contains(RBX) && cmov.sources.contains(Reg::FLAGS));
        // xor eax, eax
        let xor = one(&[0x31, 0xc0]);
        assert_eq!((xor.class, xor.sources, xor.results), (Class::Move, Regs::default(), regs([RAX, Reg::FLAGS])));
        // xor eax, ebx
        assert_eq!(one(&[0x31, 0xd8]).class, Class::Int);
        // pxor xmm1, xmm1
        let pxor = one(&[0x66, 0x0f, 0xef, 0xc9]);
        assert_eq!((pxor.class, pxor.sources, pxor.results), (Class::Move, Regs::default(), regs([Reg::vector(1)])));
    }

    #[test]
    fn classes_are_those_that_execute_them() {
        let class = |bytes: &[u8]| one(bytes).class;
        assert_eq!(class(&[0x48, 0x01, 0xd8]), Class::Int); // add rax, rbx
        assert_eq!(class(&[0x48, 0x0f, 0xaf, 0xc3]), Class::Mul); // imul rax, rbx
        assert_eq!(class(&[0x48, 0xf7, 0xf3]), Class::Div); // div rbx
        assert_eq!(class(&[0xf2, 0x0f, 0x58, 0xc1]), Class::FpAdd); // addsd xmm0, xmm1
        assert_eq!(class(&[0xf2, 0x0f, 0x59, 0xc1]), Class::FpMul); // mulsd xmm0, xmm1
        assert_eq!(class(&[0xf2, 0x0f, 0x5e, 0xc1]), Class::FpDiv); // divsd xmm0, xmm1
        assert_eq!(class(&[0xf2, 0x48, 0x0f, 0x2a, 0xc0]), Class::Convert); // cvtsi2sd xmm0, rax
        assert_eq!(class(&[0x66, 0x48, 0x0f, 0x6e, 0xc0]), Class::Convert); // movq xmm0, rax
        assert_eq!(class(&[0x66, 0x0f, 0xfe, 0xc1]), Class::Vector); // paddd xmm0, xmm1
        assert_eq!(class(&[0xf0, 0x48, 0x0f, 0xc1, 0x03]), Class::Atomic); // lock xadd [rbx], rax
        assert_eq!(class(&[0x0f, 0x05]), Class::Serial); // syscall
        assert_eq!(class(&[0x0f, 0x28, 0xc1]), Class::Move); // movaps xmm0, xmm1
        assert_eq!(class(&[0xd8, 0xc1]), Class::FpAdd); // fadd st, st1
    }

    #[test]
    fn branches_are_of_their_kind() {
        let branch = |bytes: &[u8]| one(bytes).branch;
        assert_eq!(branch(&[0x74, 0x10]), Branch::Conditional); // je
        assert_eq!(branch(&[0xe8, 0, 0, 0, 0]), Branch::Direct); // call
        assert_eq!(branch(&[0xff, 0xe0]), Branch::Indirect); // jmp rax
        assert_eq!(branch(&[0xc3]), Branch::Return); // ret
        assert!(one(&[0x74, 0x10]).sources.contains(Reg::FLAGS));
    }

    #[test]
    fn bytes_that_are_no_code_count_as_unknown() {
        // An add, then an opcode that does not exist in 64-bit mode, then nothing.
        let decoded = Decoder::new(Isa::X86_64).decode(0x1000, &[0x48, 0x01, 0xd8, 0x06], 3);
        assert_eq!((decoded.insts.len(), decoded.unknown), (3, 2));
        let cut = Decoder::new(Isa::X86_64).decode(0x1000, &[0x48, 0x01], 1);
        assert_eq!((cut.insts.len(), cut.unknown), (1, 1));
    }
}
