//! What recording needs to know of programs' files.

use mmulab_trace::Isa;
use object::{
    elf,
    read::{
        ReadCache, ReadRef,
        elf::{FileHeader as _, ProgramHeader as _},
    },
};
use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// A loadable segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where it belongs in memory, before the program is moved.
    pub address: u64,
    /// Bytes in memory.
    pub bytes: u64,
    /// Where it is in the file.
    pub offset: u64,
    /// Bytes in the file; the rest is zero.
    pub file_bytes: u64,
    /// PF_R (4), PF_W (2), PF_X (1).
    pub flags: u32,
}

/// What a program's file is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Program {
    /// A 64-bit little-endian ELF file of an instruction set that can be recorded.
    Elf {
        /// Its instruction set.
        isa: Isa,
        /// Its loadable segments, lowest address first.
        segments: Vec<Segment>,
        /// The program that loads it: PT_INTERP.
        interpreter: Option<PathBuf>,
    },
    /// A script, run by an interpreter with at most one argument of its own.
    Script {
        /// The interpreter.
        interpreter: String,
        /// Its argument.
        argument: Option<String>,
    },
    /// Anything else, named.
    Other(String),
}

/// Bytes a `#!` line may take (Linux's BINPRM_BUF_SIZE).
const SCRIPT_LINE: u64 = 256;
/// How many scripts may be interpreted by scripts (Linux's limit in `search_binary_handler`).
const SCRIPTS_DEEP: usize = 4;

/// Looks at a program's file.
///
/// # Errors
/// It cannot be read.
pub fn examine(path: &Path) -> io::Result<Program> {
    let file = File::open(path)?;
    let mut head = Vec::new();
    Read::by_ref(&mut &file).take(SCRIPT_LINE).read_to_end(&mut head)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = String::from_utf8_lossy(line.split(|&b| b == b'\n').next().unwrap_or_default()).into_owned();
        let (interpreter, argument) = line.trim().split_once([' ', '\t']).unwrap_or((line.trim(), ""));
        let argument = Some(argument.trim().to_owned()).filter(|a| !a.is_empty());
        return Ok(Program::Script { interpreter: interpreter.to_owned(), argument });
    }
    if !head.starts_with(b"\x7fELF") {
        return Ok(Program::Other("neither an ELF file nor a script".into()));
    }
    let cache = ReadCache::new(file);
    Ok(parse(&cache).unwrap_or_else(|error| Program::Other(format!("not an ELF file that can be recorded: {error}"))))
}

fn parse<'a>(data: impl ReadRef<'a>) -> object::Result<Program> {
    let header = elf::FileHeader64::<object::Endianness>::parse(data)?;
    let endian = header.endian()?;
    let isa = match header.e_machine(endian) {
        elf::EM_X86_64 => Isa::X86_64,
        elf::EM_AARCH64 => Isa::Aarch64,
        elf::EM_RISCV => Isa::Riscv64,
        other => return Ok(Program::Other(format!("an ELF file for machine {other}, which mmulab does not record"))),
    };
    let (mut segments, mut interpreter) = (Vec::new(), None);
    for header in header.program_headers(endian, data)? {
        if header.p_type(endian) == elf::PT_LOAD {
            segments.push(Segment {
                address: header.p_vaddr(endian),
                bytes: header.p_memsz(endian),
                offset: header.p_offset(endian),
                file_bytes: header.p_filesz(endian),
                flags: header.p_flags(endian),
            });
        } else if let Some(path) = header.interpreter(endian, data)? {
            interpreter = Some(PathBuf::from(String::from_utf8_lossy(path).into_owned()));
        }
    }
    segments.sort_by_key(|s| s.address);
    Ok(Program::Elf { isa, segments, interpreter })
}

/// The file that `name` runs: as it is with a slash in it, otherwise from PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let runs = |path: &Path| path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        let path = PathBuf::from(name);
        return runs(&path).then_some(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| runs(path))
}

/// What to run for a program, scripts being followed to their interpreters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// An ELF file.
    pub program: PathBuf,
    /// Its arguments, the first being its name for itself.
    pub args: Vec<String>,
    /// Its instruction set.
    pub isa: Isa,
}

/// Finds what to run for the file `program` with `args`, the first of which is its name for itself.
///
/// # Errors
/// Why it cannot be recorded.
pub fn resolve(program: &Path, mut args: Vec<String>) -> Result<Resolved, String> {
    let mut program = program.to_path_buf();
    for _ in 0..SCRIPTS_DEEP {
        match examine(&program).map_err(|e| e.to_string())? {
            Program::Elf { isa, .. } => return Ok(Resolved { program, args, isa }),
            Program::Script { interpreter, argument } => {
                let script = program.display().to_string();
                let rest = args.drain(..).skip(1);
                args = [interpreter.clone()].into_iter().chain(argument).chain([script]).chain(rest).collect();
                program = interpreter.into();
            }
            Program::Other(what) => return Err(what),
        }
    }
    Err("its interpreters are scripts, too many deep".into())
}

/// Whether programs of this instruction set run here without emulation.
pub fn is_native(isa: Isa) -> bool {
    match isa {
        Isa::X86_64 => cfg!(target_arch = "x86_64"),
        Isa::Aarch64 => cfg!(target_arch = "aarch64"),
        Isa::Riscv64 => cfg!(target_arch = "riscv64"),
    }
}

/// The name of the qemu-user binary for an instruction set.
pub fn qemu_name(isa: Isa) -> &'static str {
    match isa {
        Isa::X86_64 => "qemu-x86_64",
        Isa::Aarch64 => "qemu-aarch64",
        Isa::Riscv64 => "qemu-riscv64",
    }
}

/// The GNU triplet whose libraries a program of an instruction set is linked with, as Debian names it.
pub fn triplet(isa: Isa) -> &'static str {
    match isa {
        Isa::X86_64 => "x86_64-linux-gnu",
        Isa::Aarch64 => "aarch64-linux-gnu",
        Isa::Riscv64 => "riscv64-linux-gnu",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program_is_an_elf_file_with_code() {
        let own = std::env::current_exe().unwrap();
        let Program::Elf { segments, .. } = examine(&own).unwrap() else { panic!("not ELF") };
        assert!(segments.iter().any(|s| s.flags & 1 == 1 && s.bytes > 0));
        assert!(segments.windows(2).all(|w| w[0].address <= w[1].address));
    }

    #[test]
    fn scripts_are_followed_to_what_runs_them() {
        let script = std::env::temp_dir().join(format!("mmulab-script-{}", std::process::id()));
        std::fs::write(&script, "#!/bin/sh -e\nexit 0\n").unwrap();
        let found = resolve(&script, vec!["name".into(), "argument".into()]).unwrap();
        std::fs::write(&script, "nothing of the kind").unwrap();
        let other = resolve(&script, vec![]);
        std::fs::remove_file(&script).unwrap();
        assert_eq!(found.program, Path::new("/bin/sh"));
        let script = script.display().to_string();
        assert_eq!(found.args, ["/bin/sh", "-e", &script, "argument"]);
        assert!(other.unwrap_err().contains("neither"));
    }
}
