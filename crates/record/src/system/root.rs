//! The guest's file system. It has its first program, the plan for it, the programs to run, their libraries, and the
//! files that were asked for.

use super::{SystemOptions, Thp, cpio::Archive};
use crate::{RecordError, RecordOptions, elf};
use mmulab_trace::Isa;
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// Where the guest has programs that were found in PATH.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// End of a field and of a record of the plan.
const FIELD: char = '\x1f';
const RECORD: char = '\x1e';

/// The programs that the guest runs, and their files.
pub(super) struct Commands<'a> {
    pub options: &'a RecordOptions,
    pub system: &'a SystemOptions,
    pub isa: Isa,
}

impl Commands<'_> {
    fn all(&self) -> impl Iterator<Item = &Vec<String>> {
        let ready = (!self.system.ready.is_empty()).then_some(&self.system.ready);
        std::iter::once(&self.options.command).chain(ready).chain(&self.system.clients)
    }

    /// Writes the archive; the libraries that were not found.
    pub fn write(&self, path: &Path) -> Result<Vec<String>, RecordError> {
        let failed = |e| RecordError::io("cannot make the guest's file system", e);
        let file = File::create(path).map_err(failed)?;
        let mut archive = Archive::new(BufWriter::new(file)).map_err(failed)?;
        let mut missing = Vec::new();
        archive.add(&self.system.agent, Path::new("/init")).map_err(failed)?;
        archive.text(Path::new("/mmulab.plan"), self.plan()?.as_bytes()).map_err(failed)?;
        // Files first: who names one where a program would be wants that one.
        for (host, guest) in &self.system.files {
            archive.add(host, guest).map_err(failed)?;
            if guest.extension().is_none_or(|e| e != "so") || host.is_file() {
                linked(&mut archive, host, &mut missing).map_err(failed)?;
            }
        }
        for command in self.all() {
            if let Some(name) = command.first().filter(|name| self.is_not_given(name)) {
                let program = elf::find(name).ok_or_else(|| RecordError::NotFound(name.clone()))?;
                self.program(&mut archive, &program, &mut missing)?;
            }
        }
        archive.finish().and_then(|mut to| to.flush()).map_err(failed)?;
        missing.sort();
        missing.dedup();
        Ok(missing)
    }

    /// Whether none of the files named is the program itself, where it is called.
    fn is_not_given(&self, name: &str) -> bool {
        !self.system.files.iter().any(|(_, guest)| Path::new(name).starts_with(guest))
    }

    fn program(
        &self,
        archive: &mut Archive<impl Write>,
        program: &Path,
        missing: &mut Vec<String>,
    ) -> Result<(), RecordError> {
        let failed = |e| RecordError::io("cannot make the guest's file system", e);
        let absolute = std::path::absolute(program).map_err(failed)?;
        archive.add(&absolute, &absolute).map_err(failed)?;
        match elf::examine(&absolute).map_err(failed)? {
            elf::Program::Elf(file) if file.isa == self.isa => linked(archive, &absolute, missing).map_err(failed),
            elf::Program::Script { interpreter, .. } if Path::new(&interpreter) != absolute => {
                self.program(archive, Path::new(&interpreter), missing)
            }
            elf::Program::Elf(file) => Err(RecordError::NotEmulated {
                program: absolute,
                why: format!("it is for {}, and the system for {}: say --isa", file.isa, self.isa),
            }),
            elf::Program::Script { .. } => Ok(()),
            elf::Program::Other(why) => Err(RecordError::NotEmulated { program: absolute, why }),
        }
    }

    /// The plan, as the agent reads it.
    fn plan(&self) -> Result<String, RecordError> {
        let mut out = String::new();
        let mut tell = |name: &str, fields: &[&str]| {
            for field in std::iter::once(&name).chain(fields) {
                out.push_str(field);
                out.push(FIELD);
            }
            out.push(RECORD);
        };
        let system = self.system;
        if let Some(thp) = system.thp {
            tell(
                "thp",
                &[match thp {
                    Thp::Always => "always",
                    Thp::Madvise => "madvise",
                    Thp::Never => "never",
                }],
            );
        }
        for (path, value) in &system.tune {
            tell("tune", &[path, value]);
        }
        if let Some(held) = system.memhog {
            tell("memhog", &[&held.percent.to_string(), &held.chunk_kb.to_string()]);
        }
        let directory = system.directory.as_deref().unwrap_or(Path::new("/")).display().to_string();
        tell("directory", &[&directory]);
        if let Some(seconds) = system.ready_seconds {
            tell("ready_seconds", &[&seconds.to_string()]);
        }
        tell("env", &["PATH", PATH]);
        tell("env", &["HOME", "/"]);
        for (name, value) in &self.options.env {
            tell("env", &[name, value]);
        }
        let fields = |command: &[String]| -> Vec<String> {
            let mut fields = command.to_vec();
            if let Some(first) = fields.first_mut()
                && self.is_not_given(first)
            {
                // Where it was found here it is in the guest.
                let found = elf::find(first).and_then(|path| std::path::absolute(path).ok());
                *first = found.unwrap_or_else(|| PathBuf::from(&*first)).display().to_string();
            }
            fields
        };
        let commands = std::iter::once(("program", &self.options.command))
            .chain((!system.ready.is_empty()).then_some(("ready", &system.ready)))
            .chain(system.clients.iter().map(|client| ("client", client)));
        for (name, command) in commands {
            let command = fields(command);
            tell(name, &command.iter().map(String::as_str).collect::<Vec<_>>());
        }
        let pairs = self.options.env.iter().chain(&system.tune);
        let words = self.all().flatten().chain(pairs.flat_map(|(k, v)| [k, v]));
        match words.into_iter().find(|word| word.contains([FIELD, RECORD, '\0'])) {
            Some(word) => Err(RecordError::OddWord(word.clone())),
            None => Ok(out),
        }
    }
}

/// Adds what an ELF file needs to run; nothing if it is something else.
fn linked(archive: &mut Archive<impl Write>, program: &Path, missing: &mut Vec<String>) -> io::Result<()> {
    if !program.is_file() {
        return Ok(());
    }
    let Ok(file) = mmulab_elf::read(program) else { return Ok(()) };
    if let Some(interpreter) = &file.interpreter {
        archive.add(interpreter, interpreter)?;
    }
    let (libraries, lacking) = mmulab_elf::libraries(program, &file);
    missing.extend(lacking);
    for library in libraries {
        archive.add(&library, &library)?;
    }
    Ok(())
}
