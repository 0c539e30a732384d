//! A whole system to be recorded: what is in its file system, and how QEMU is started with it.

mod cpio;
mod options;
mod root;

pub use options::{Memhog, SystemOptions, Thp};

use crate::{
    RecordError, RecordOptions, elf,
    message::{Settings, SystemSettings},
};
use mmulab_addr::PageOrder;
use mmulab_trace::{Description, Isa};
use root::Commands;
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Parts of a machine of an instruction set.
struct Board {
    qemu: &'static str,
    machine: &'static str,
    cpu: &'static str,
    /// The kernel's console, and what else its command line says.
    kernel_args: &'static str,
    /// The serial line that programs write to, where it is not the board's second.
    line: Option<&'static str>,
}

/// Five levels are turned off: the plugin reads tables of four. All other features that QEMU can emulate are on. The
/// kernel keeps its half of memory mapped for programs, as on processors without Meltdown. It prints nothing on its
/// console unless it fails, and does not wait then.
const PC: Board = Board {
    qemu: "qemu-system-x86_64",
    machine: "pc,memory-backend=ram",
    cpu: "max,la57=off",
    kernel_args: "console=ttyS0 nopti quiet panic=-1 random.trust_cpu=on",
    line: None,
};
/// The board has one serial line, the kernel's. The processor has addresses of 48 bits and four levels.
const ARM: Board = Board {
    qemu: "qemu-system-aarch64",
    machine: "virt,memory-backend=ram",
    cpu: "neoverse-n1",
    kernel_args: "console=ttyAMA0 kpti=off quiet panic=-1 random.trust_cpu=on",
    line: Some("pci-serial,chardev=line"),
};

fn board(isa: Isa) -> Option<&'static Board> {
    match isa {
        Isa::X86_64 => Some(&PC),
        Isa::Aarch64 => Some(&ARM),
        _ => None,
    }
}

/// The size of the base pages of the Linux in a file. A kernel for Arm says so in its header
/// (Documentation/arch/arm64/booting.rst: `magic` at byte 56, bits 1 and 2 of `flags` at byte 24). Others have 4 KiB.
fn base_page(kernel: &Path, isa: Isa) -> std::io::Result<PageOrder> {
    const MAGIC: &[u8] = b"ARM\x64";
    let mut head = [0; 64];
    let read = File::open(kernel)?.read(&mut head)?;
    if isa != Isa::Aarch64 || read < head.len() || &head[56..60] != MAGIC {
        return Ok(PageOrder::P4K);
    }
    Ok(match head[24] >> 1 & 3 {
        2 => PageOrder::P16K,
        3 => PageOrder::P64K,
        _ => PageOrder::P4K,
    })
}

/// For recordings that are alike: nothing is moved about at random, and time is counted in instructions.
const FIXED_ARGS: &str = "nokaslr norandmaps";
const FIXED_SEED: &str = "1";
const FIXED_CLOCK: &str = "shift=0,sleep=off";
const MEMORY_MB: u64 = 1024;
/// Lines of the console that an error shows.
const TAIL_LINES: usize = 12;
const TAIL_BYTES: u64 = 8 * 1024;

/// A guest about to be started: its files, in a directory that is gone with it.
pub(crate) struct Guest {
    directory: PathBuf,
    qemu: PathBuf,
    args: Vec<String>,
    pub settings: Settings,
    pub program: PathBuf,
    /// Libraries that were not found.
    pub missing: Vec<String>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        // What cannot be removed is in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Guest {
    /// Makes the guest's file system, and says how it is started.
    pub fn prepare(options: &RecordOptions, system: &SystemOptions) -> Result<Self, RecordError> {
        let name = options.command.first().ok_or(RecordError::NoCommand)?;
        let isa = options.isa.unwrap_or(Isa::X86_64);
        let board = board(isa).ok_or(RecordError::NoSystem(isa))?;
        for (file, what) in [(&options.plugin, "the recorder's plugin"), (&system.agent, "the guest's agent")] {
            if !file.is_file() {
                return Err(RecordError::NoPart { file: file.clone(), what });
            }
        }
        if !system.kernel.is_file() {
            return Err(RecordError::NoKernel(system.kernel.clone()));
        }
        let qemu = match &options.qemu {
            Some(qemu) => qemu.clone(),
            None => elf::find(board.qemu).ok_or(RecordError::NoSystemQemu(board.qemu))?,
        };
        let directory = std::env::temp_dir().join(format!("mmulab-system-{}", std::process::id()));
        let failed = |e| RecordError::io(format!("cannot make the guest's files in {}", directory.display()), e);
        std::fs::create_dir_all(&directory).map_err(failed)?;
        let mut guest = Self {
            directory: directory.clone(),
            qemu,
            args: Vec::new(),
            settings: Settings::default(),
            program: elf::find(name).unwrap_or_else(|| name.into()),
            missing: Vec::new(),
        };
        let commands = Commands { options, system, isa };
        guest.missing = commands.write(&guest.initrd())?;
        let memory = system.memory_mb.unwrap_or(MEMORY_MB);
        let fixed = if options.fixed_layout { FIXED_ARGS } else { "" };
        let kernel_args = [board.kernel_args, fixed, &system.kernel_args].join(" ").trim().to_owned();
        let monitor = directory.join("monitor");
        // In QEMU's option lists a comma within a value is written twice.
        let list = |path: &Path| path.display().to_string().replace(',', ",,");
        let mut args: Vec<String> = ["-accel", "tcg", "-display", "none", "-vga", "none", "-net", "none", "-no-reboot"]
            .map(str::to_owned)
            .into();
        let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
        option("-cpu", options.cpu.clone().unwrap_or_else(|| board.cpu.into()));
        option("-m", format!("{memory}M"));
        option("-object", format!("memory-backend-memfd,id=ram,size={memory}M,share=on"));
        option("-machine", board.machine.into());
        option("-monitor", format!("unix:{},server=on,wait=off", list(&monitor)));
        option("-serial", format!("file:{}", guest.console().display()));
        match board.line {
            Some(line) => {
                option("-chardev", "stdio,id=line".into());
                option("-device", line.into());
            }
            None => option("-serial", "stdio".into()),
        }
        option("-kernel", system.kernel.display().to_string());
        option("-initrd", guest.initrd().display().to_string());
        option("-append", kernel_args.clone());
        if options.fixed_layout {
            option("-icount", FIXED_CLOCK.into());
            option("-seed", FIXED_SEED.into());
            option("-rtc", "base=2024-01-01,clock=vm".into());
        }
        guest.args = args;
        let description = Description {
            program: guest.program.display().to_string(),
            args: options.command[1..].to_vec(),
            isa,
            cpu: options.cpu.clone(),
            has_address_space: true,
            has_heap: false,
            misses_of: None,
            warps: None,
            skipped: (options.skip > 0).then_some(options.skip),
            writer: format!("mmulab {}", env!("CARGO_PKG_VERSION")),
            source: format!("{} -m {memory}M, {}: {kernel_args}", board.qemu, system.kernel.display()),
        };
        let base_page = base_page(&system.kernel, isa).map_err(failed)?;
        let system = SystemSettings { monitor, with_kernel: !system.user_only, base_page };
        let plugin = std::fs::canonicalize(&options.plugin).unwrap_or_else(|_| options.plugin.clone());
        guest.settings = Settings { description, plugin, system: Some(system), ..Settings::default() };
        Ok(guest)
    }

    fn initrd(&self) -> PathBuf {
        self.directory.join("initrd")
    }

    fn console(&self) -> PathBuf {
        self.directory.join("console")
    }

    /// QEMU.
    pub fn qemu(&self) -> &Path {
        &self.qemu
    }

    /// Runs QEMU, which hands over what happens through the memory at `arena`.
    pub fn command(&self, arena: &str) -> Command {
        let plugin = self.settings.plugin.display().to_string().replace(',', ",,");
        let mut command = Command::new(&self.qemu);
        command.args(&self.args).args(["-plugin", &format!("{plugin},arena={arena},image=0,pid=1,tid=1")]);
        command.stdin(Stdio::null());
        command
    }

    /// The last the guest's kernel said.
    pub fn tail(&self) -> String {
        let mut text = Vec::new();
        if let Ok(mut file) = std::fs::File::open(self.console()) {
            let length = file.metadata().map_or(0, |m| m.len());
            // What cannot be read is not shown.
            let _ = file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)));
            let _ = file.read_to_end(&mut text);
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(|line| format!("\n  | {line}")).collect()
    }
}
