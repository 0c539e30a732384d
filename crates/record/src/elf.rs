//! Properties of programs' files that recording needs.

use mmulab_elf::{ElfError, ElfFile};
use mmulab_trace::Isa;
use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Kind of a program's file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Program {
    /// An ELF file of an instruction set that can be recorded.
    Elf(ElfFile),
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
    let mut head = Vec::new();
    File::open(path)?.take(SCRIPT_LINE).read_to_end(&mut head)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = String::from_utf8_lossy(line.split(|&b| b == b'\n').next().unwrap_or_default()).into_owned();
        let (interpreter, argument) = line.trim().split_once([' ', '\t']).unwrap_or((line.trim(), ""));
        let argument = Some(argument.trim().to_owned()).filter(|a| !a.is_empty());
        return Ok(Program::Script { interpreter: interpreter.to_owned(), argument });
    }
    match mmulab_elf::read(path) {
        Ok(file) => Ok(Program::Elf(file)),
        Err(ElfError::Io(error)) => Err(error),
        Err(ElfError::Foreign) => Ok(Program::Other("neither an ELF file nor a script".into())),
        Err(other) => Ok(Program::Other(other.to_string())),
    }
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

/// The file to run for a program; scripts are followed to their interpreters.
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
            Program::Elf(file) => return Ok(Resolved { program, args, isa: file.isa }),
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
