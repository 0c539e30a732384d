//! One instruction of one warp: `[line_num] PC mask dest_num [dests] opcode src_num [srcs] width [mode addresses]
//! [immediate]`.

use mmulab_addr::VirtAddr;

/// Lanes of a warp: WARP_SIZE of trace_parser.h.
const LANES: u32 = 32;

/// Which of the words before an instruction a file has, and where generic addresses lead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    /// Numbers before the program counter: block and warp in versions before 3, a line of source text.
    pub before: usize,
    /// First addresses of the windows to shared and to local memory, in generic addresses; 0 if not in the file.
    pub shared: u64,
    pub local: u64,
}

/// Bytes of each window, aligned to as much: nvbit.h on nvbit_get_shmem_base_addr() and
/// nvbit_get_local_mem_base_addr().
const WINDOW: u64 = 16 << 20;

/// Which memory an instruction refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Space {
    Global,
    Generic,
    Local,
    /// Shared, constant or none: nothing is translated.
    None,
}

/// Where a load or store leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    /// To memory that is translated: a store or not, and the lanes' addresses are where they were asked to be put.
    Memory { write: bool },
    /// To memory whose addresses the line does not contain.
    Untold,
    /// Nowhere.
    Nowhere,
}

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Instruction {
    pub pc: u32,
    pub reach: Reach,
}

/// The words of a line, with what is wrong if one is not there.
struct Words<'a>(std::str::SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| format!("{what} is missing"))
    }

    fn hex(&mut self, what: &str) -> Result<u64, String> {
        let word = self.next(what)?;
        let digits = word.strip_prefix("0x").unwrap_or(word);
        u64::from_str_radix(digits, 16).map_err(|_| format!("'{word}' is not a valid {what}"))
    }

    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.next(what)?;
        word.parse().map_err(|_| format!("'{word}' is not a valid {what}"))
    }

    fn registers(&mut self, what: &str) -> Result<(), String> {
        for _ in 0..self.number::<u8>(what)? {
            let word = self.next("a register")?;
            if !word.starts_with('R') {
                return Err(format!(
                    "'{word}' is not a register: is the file of a newer version, or with TOOL_TRACE_CORE=1?"
                ));
            }
        }
        Ok(())
    }

    fn address(&mut self) -> Result<u64, String> {
        self.hex("address")
    }
}

/// Reads a line. The addresses of the active lanes are appended to `lanes` if they are translated.
pub(super) fn parse(line: &str, shape: &Shape, lanes: &mut Vec<VirtAddr>) -> Result<Instruction, String> {
    let mut words = Words(line.split_ascii_whitespace());
    for _ in 0..shape.before {
        words.number::<u32>("number before the program counter")?;
    }
    let pc = u32::try_from(words.hex("program counter")?).map_err(|_| "the program counter has more than 32 bits")?;
    let mask = u32::try_from(words.hex("mask of lanes")?).map_err(|_| "the mask has more than 32 lanes")?;
    words.registers("number of destinations")?;
    let (space, write) = space_of(words.next("the opcode")?);
    words.registers("number of sources")?;
    let width: u32 = words.number("width of memory")?;
    let from = lanes.len();
    if width != 0 {
        addresses(&mut words, mask, lanes)?;
    }
    // The immediate, since version 5.
    if let Some(word) = words.0.next()
        && word.parse::<i64>().is_err()
    {
        return Err(format!("'{word}' is not an immediate"));
    }
    if let Some(word) = words.0.next() {
        return Err(format!("'{word}' is one word too many"));
    }
    let reach = match space {
        Space::Global => Reach::Memory { write },
        Space::Generic => generic(shape, lanes.get(from).copied(), write),
        Space::Local => Reach::Untold,
        Space::None => Reach::Nowhere,
    };
    let reach = if lanes.len() == from { Reach::Nowhere } else { reach };
    if !matches!(reach, Reach::Memory { .. }) {
        lanes.truncate(from);
    }
    Ok(Instruction { pc, reach })
}

/// As trace_driven.cc has it: by the part of the opcode before the first point. Atomics store.
fn space_of(opcode: &str) -> (Space, bool) {
    match opcode.split('.').next().unwrap_or_default() {
        "LDG" | "LDGSTS" => (Space::Global, false),
        "STG" | "ATOM" | "ATOMG" | "RED" => (Space::Global, true),
        "LD" => (Space::Generic, false),
        "ST" => (Space::Generic, true),
        "LDL" => (Space::Local, false),
        "STL" => (Space::Local, true),
        _ => (Space::None, false),
    }
}

/// Where a generic address leads: the first lane's decides, as in trace_driven.cc.
fn generic(shape: &Shape, first: Option<VirtAddr>, write: bool) -> Reach {
    let Some(at) = first.map(VirtAddr::raw) else { return Reach::Nowhere };
    let Shape { shared, local, .. } = *shape;
    let is_in = |window: u64| at >= window && at - window < WINDOW;
    if shared == 0 || local == 0 || is_in(local) {
        Reach::Untold
    } else if is_in(shared) {
        Reach::Nowhere
    } else {
        Reach::Memory { write }
    }
}

/// The three forms of addresses: listed, from the first by a stride, each by its distance from the one before.
fn addresses(words: &mut Words<'_>, mask: u32, lanes: &mut Vec<VirtAddr>) -> Result<(), String> {
    let on = mask.count_ones();
    let mut push = |raw: u64| {
        let va = VirtAddr::new(raw);
        if va.raw() != raw {
            return Err(format!("{raw:#x} is not a canonical address of 57 bits"));
        }
        lanes.push(va);
        Ok(())
    };
    match words.next("how addresses are told")? {
        "0" => (0..on).try_for_each(|_| push(words.address()?)),
        "1" => {
            let (base, stride) = (words.address()?, words.number::<i64>("stride")?);
            // Only lanes side by side are told so; no lane at all is, too.
            if on != 0 && mask >> mask.trailing_zeros() != u32::MAX >> (LANES - on) {
                return Err(format!("a stride is told for lanes with gaps, {mask:08x}"));
            }
            (0..i64::from(on)).try_for_each(|lane| push(base.wrapping_add_signed(stride.wrapping_mul(lane))))
        }
        "2" => {
            let mut at = words.address()?;
            for lane in 0..on {
                if lane != 0 {
                    at = at.wrapping_add_signed(words.number("distance")?);
                }
                push(at)?;
            }
            Ok(())
        }
        other => Err(format!("'{other}' is not a form of addresses: the forms are 0, 1 and 2")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<(Reach, Vec<u64>), String> {
        let mut lanes = Vec::new();
        let shape = Shape { before: 0, shared: 0x7f00_0000_0000, local: 0x7f00_0100_0000 };
        let found = parse(line, &shape, &mut lanes)?;
        Ok((found.reach, lanes.iter().map(|va| va.raw()).collect()))
    }

    #[test]
    fn addresses_are_told_in_three_ways() {
        let load = Reach::Memory { write: false };
        assert_eq!(
            of("0010 0000000f 1 R2 LDG.E.SYS 1 R4 4 1 0x1000 8"),
            Ok((load, vec![0x1000, 0x1008, 0x1010, 0x1018]))
        );
        assert_eq!(
            of("0010 0000000b 1 R2 LDG.E.SYS 1 R4 4 2 0x1000 64 -32 0"),
            Ok((load, vec![0x1000, 0x1040, 0x1020]))
        );
        assert_eq!(
            of("0010 80000001 0 STG.E.64 2 R4 R6 8 0 0x0000000000001000 0x0000000000009000 -3"),
            Ok((Reach::Memory { write: true }, vec![0x1000, 0x9000]))
        );
        assert_eq!(of("0010 00000000 1 R2 LDG.E 1 R4 4 1 0x0 0 0"), Ok((Reach::Nowhere, vec![])));
    }

    #[test]
    fn only_global_memory_is_translated() {
        assert_eq!(of("0 1 1 R2 LDS.U 1 R4 4 1 0x20 0"), Ok((Reach::Nowhere, vec![])));
        assert_eq!(of("0 1 1 R2 LDL 1 R4 4 1 0xfffca0 0"), Ok((Reach::Untold, vec![])));
        assert_eq!(of("0 1 1 R2 LD.E 1 R4 4 2 0x7f0000000010"), Ok((Reach::Nowhere, vec![])));
        assert_eq!(of("0 1 1 R2 LD.E 1 R4 4 2 0x7f0001000010"), Ok((Reach::Untold, vec![])));
        assert_eq!(of("0 1 0 ST.E 2 R4 R5 4 2 0x10"), Ok((Reach::Memory { write: true }, vec![0x10])));
        assert_eq!(of("0 ffffffff 1 R1 IMAD.MOV.U32 2 R255 R255 0 0"), Ok((Reach::Nowhere, vec![])));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, says) in [
            ("zz", "program counter"),
            ("0 1ffffffff", "mask has more"),
            ("0 1 1 4 LDG", "'4' is not a register: is the file of a newer version"),
            ("0 1 0 LDG 0 4 3 0x0", "'3' is not a form"),
            ("0 1 0 LDG 0 4 1 0x100000000000000 4", "canonical"),
            ("0 5 0 LDG 0 4 1 0x1000 4", "with gaps, 00000005"),
            ("0 3 0 LDG 0 4 0 0x1000", "address is missing"),
            ("0 1 0 LDG 0 4 0 0x1000 0 7", "'7' is one word too many"),
        ] {
            let error = of(line).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
