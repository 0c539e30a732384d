//! One step up a call stack: from the registers in a function to those of its caller. It follows the unwind tables of
//! the file that the function is in: `.eh_frame`, and `.debug_frame`, which is for debuggers. GCC writes the first for
//! C on x86-64 and aarch64, but not on riscv64. The recorder finds by it which function asked for a large block of
//! memory.
//!
//! ```text
//! address --binary search--> FDE --gimli runs its program--> rules: CFA = rsp + 16, caller's rbp at CFA - 16, ...
//!                                                              '--with the registers and the stack--> the caller's
//! ```

use crate::{
    ElfError,
    functions::{Places, eh_frame},
    section::section,
};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EndianSlice, Register, RegisterRule, RunTimeEndian,
    UnwindContext, UnwindSection,
};
use mmulab_trace::Isa;
use object::{
    Endianness, Object,
    read::{ReadCache, ReadRef, elf::ElfFile64},
};
use std::{fs::File, path::Path};

/// General registers, the stack pointer and, on x86-64, the return address, by DWARF's numbers.
const REGISTERS: usize = 33;

/// Registers of a thread in a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registers {
    isa: Isa,
    values: [Option<u64>; REGISTERS],
}

impl Registers {
    /// None is known yet.
    pub fn new(isa: Isa) -> Self {
        Self { isa, values: [None; REGISTERS] }
    }

    /// Sets the register of this DWARF number.
    pub fn set(&mut self, number: u16, value: u64) {
        if let Some(register) = self.values.get_mut(usize::from(number)) {
            *register = Some(value);
        }
    }

    /// The stack pointer.
    pub fn stack_pointer(&self) -> Option<u64> {
        self.get(stack_pointer(self.isa))
    }

    fn get(&self, number: u16) -> Option<u64> {
        self.values.get(usize::from(number)).copied().flatten()
    }
}

/// DWARF's number of the stack pointer (System V ABI for x86-64; DWARF for the Arm 64-bit Architecture; RISC-V ELF
/// psABI).
fn stack_pointer(isa: Isa) -> u16 {
    match isa {
        Isa::X86_64 => 7,
        Isa::Aarch64 => 31,
        Isa::Riscv64 => 2,
    }
}

/// The unwind tables of one file.
pub struct Unwinder {
    /// `.eh_frame` and `.debug_frame`, each empty if the file has none.
    eh_frame: Vec<u8>,
    debug_frame: Vec<u8>,
    bases: BaseAddresses,
    endian: RunTimeEndian,
    places: Places,
    /// By first address, each once.
    functions: Vec<Described>,
}

/// A function that a table describes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Described {
    start: u64,
    /// The address after the last.
    end: u64,
    table: Table,
    /// Where in the table.
    offset: usize,
}

/// In order of preference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Table {
    EhFrame,
    DebugFrame,
}

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

impl Unwinder {
    /// Those of the file at `path`; there may be none in it.
    ///
    /// # Errors
    /// The file cannot be read, or is no 64-bit ELF file whose headers make sense.
    pub fn new(path: &Path) -> Result<Self, ElfError> {
        let cache = ReadCache::new(File::open(path)?);
        if (&cache).read_bytes_at(0, 4) != Ok(b"\x7fELF") {
            return Err(ElfError::Foreign);
        }
        let file = ElfFile64::<Endianness, _>::parse(&cache)?;
        let places = Places::of(&file)?;
        let (bases, eh_frame) = match eh_frame(&file, &places)? {
            Some((bases, bytes)) => (bases, bytes.to_vec()),
            None => (BaseAddresses::default(), Vec::new()),
        };
        let debug_frame = section(&file, ".debug_frame").unwrap_or_default().into_owned();
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let mut made = Self { eh_frame, debug_frame, bases, endian, places, functions: Vec::new() };
        made.functions = all(&made.eh_frame(), &made.bases, Table::EhFrame);
        made.functions.extend(all(&made.debug_frame(), &made.bases, Table::DebugFrame));
        made.functions.sort_unstable();
        made.functions.dedup_by_key(|function| function.start);
        Ok(made)
    }

    /// The address, before the file is moved, of an offset in it.
    pub fn address(&self, offset: u64) -> Option<u64> {
        self.places.address(offset)
    }

    fn eh_frame(&self) -> EhFrame<Slice<'_>> {
        let mut table = EhFrame::new(&self.eh_frame, self.endian);
        table.set_address_size(8);
        table
    }

    fn debug_frame(&self) -> DebugFrame<Slice<'_>> {
        let mut table = DebugFrame::new(&self.debug_frame, self.endian);
        table.set_address_size(8);
        table
    }

    /// The registers of the caller, and the address that it goes on at. `address`: where the function is, before the
    /// file is moved: of a caller, an address within its call. `read` reads eight bytes of memory. None: the tables do
    /// not describe the function, the stack ends here, or memory cannot be read.
    pub fn caller(
        &self,
        registers: &Registers,
        address: u64,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Option<(Registers, u64)> {
        let before = self.functions.partition_point(|function| function.start <= address).checked_sub(1)?;
        let function = self.functions[before];
        if address >= function.end {
            return None;
        }
        match function.table {
            Table::EhFrame => step(&self.eh_frame(), &self.bases, function.offset, (registers, address), read),
            Table::DebugFrame => step(&self.debug_frame(), &self.bases, function.offset, (registers, address), read),
        }
    }
}

/// The functions that a table describes.
fn all<'a, S: UnwindSection<Slice<'a>>>(section: &S, bases: &BaseAddresses, table: Table) -> Vec<Described> {
    let mut entries = section.entries(bases);
    let mut found = Vec::new();
    // A table that is cut describes what comes before.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        if let Ok(fde) = partial.parse(S::cie_from_offset) {
            let start = fde.initial_address();
            found.push(Described { start, end: start.saturating_add(fde.len()), table, offset: fde.offset() });
        }
    }
    found
}

/// The registers of the caller of a function that `section` describes at `offset`: see [`Unwinder::caller`].
fn step<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    offset: usize,
    (registers, address): (&Registers, u64),
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> Option<(Registers, u64)> {
    let fde = section.fde_from_offset(bases, S::Offset::from(offset), S::cie_from_offset).ok()?;
    let mut context = UnwindContext::new();
    let row = fde.unwind_info_for_address(section, bases, &mut context, address).ok()?;
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
    let cfa = registers.get(register.0)?.wrapping_add_signed(*offset);
    let mut caller = registers.clone();
    for number in 0..REGISTERS as u16 {
        let value = match row.register(Register(number)) {
            // Functions keep what they do not mention.
            RegisterRule::Undefined | RegisterRule::SameValue => registers.get(number),
            RegisterRule::Offset(offset) => read(cfa.wrapping_add_signed(offset)),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(offset)),
            RegisterRule::Register(other) => registers.get(other.0),
            _ => None,
        };
        caller.values[usize::from(number)] = value;
    }
    caller.set(stack_pointer(registers.isa), cfa);
    let back = fde.cie().return_address_register();
    // A function that called another has saved where it returns to; the first one of a stack has not.
    let saved = !matches!(row.register(back), RegisterRule::Undefined | RegisterRule::SameValue);
    let goes_on = caller.get(back.0).filter(|&at| saved && at != 0)?;
    // Callers are further up: so every walk ends.
    (cfa > registers.stack_pointer()? || registers.isa != Isa::X86_64).then_some((caller, goes_on))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program_describes_its_functions() {
        let own = std::env::current_exe().unwrap();
        let unwinder = Unwinder::new(&own).unwrap();
        assert!(unwinder.functions.len() > 100);
        let Described { start, end, .. } = unwinder.functions[unwinder.functions.len() / 2];
        assert!(start < end);
        // At its first instruction, a function of x86-64 has its return address on top of the stack.
        if cfg!(target_arch = "x86_64") {
            let mut registers = Registers::new(Isa::X86_64);
            registers.set(7, 0x1000);
            registers.set(6, 77);
            let mut read = |at: u64| (at == 0x1000).then_some(0x4242);
            let (caller, goes_on) = unwinder.caller(&registers, start, &mut read).unwrap();
            assert_eq!((caller.stack_pointer(), goes_on), (Some(0x1008), 0x4242));
            assert_eq!(caller.get(6), Some(77), "it is kept");
            assert_eq!(unwinder.caller(&registers, start, &mut |_| None), None, "no memory");
        }
        assert_eq!(unwinder.caller(&Registers::new(Isa::X86_64), 0, &mut |_| Some(1)), None, "nothing is there");
    }

    #[test]
    fn other_files_are_refused() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(matches!(Unwinder::new(&manifest), Err(ElfError::Foreign)));
    }
}
