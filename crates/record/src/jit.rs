//! Names of code that a recorded program makes while it runs, kept beside the trace. If asked, run-time compilers write
//! them to perf maps (`/tmp/perf-PID.map`) and jitdump files (`jit-PID.dump`).
//!
//! ```text
//! /tmp/perf-HOST.map                       --.
//! jit-HOST.dump, which the program maps    --+--> TRACE.jit/perf-PID.map, TRACE.jit/jit-PID.dump
//! ```
//!
//! HOST is the system's number of the process, by which the program knows itself; PID is the trace's.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Where programs write perf maps: no variable changes it (tools/perf/Documentation/jit-interface.txt).
const MAPS: &str = "/tmp";
/// A larger file is left where it is.
const MOST_BYTES: u64 = 1 << 30;

/// Messages of a recording's processes about their code.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Said {
    /// The system's number of each process, by the trace's. A number may be used again.
    pub hosts: BTreeMap<u32, u32>,
    /// The jitdump files that were mapped, each with the trace's number of the process.
    pub dumps: BTreeSet<(u32, PathBuf)>,
}

impl Said {
    /// A process mapped a file: a jitdump file, by its name, is noted. Programs map theirs so that perf finds it.
    pub fn mapped(&mut self, pid: u32, path: &str) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let number = name.strip_prefix("jit-").and_then(|rest| rest.strip_suffix(".dump"));
        if number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())) {
            self.dumps.insert((pid, path.into()));
        }
    }
}

/// The directory beside a trace.
pub(crate) fn beside(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".jit");
    PathBuf::from(name)
}

/// Copies what processes said of their code since `began` beside the trace: the files written, and what could not be.
pub(crate) fn keep(output: &Path, said: &Said, began: SystemTime) -> (Vec<PathBuf>, Vec<String>) {
    keep_from(Path::new(MAPS), output, said, began)
}

fn keep_from(maps: &Path, output: &Path, said: &Said, began: SystemTime) -> (Vec<PathBuf>, Vec<String>) {
    let (mut kept, mut warnings) = (Vec::new(), Vec::new());
    let directory = beside(output);
    if !output.is_file() {
        return (kept, warnings);
    }
    forget(&directory);
    let of_maps =
        said.hosts.iter().map(|(pid, host)| (maps.join(format!("perf-{host}.map")), format!("perf-{pid}.map")));
    let of_dumps = said.dumps.iter().map(|(pid, path)| (path.clone(), format!("jit-{pid}.dump")));
    for (from, name) in of_maps.chain(of_dumps) {
        match copy(&from, &directory.join(&name), began) {
            Ok(true) => kept.push(directory.join(name)),
            Ok(false) => {}
            Err(error) => warnings.push(format!("{} is not kept beside the trace: {error}", from.display())),
        }
    }
    (kept, warnings)
}

/// Removes what an earlier recording of this name left, and nothing else.
fn forget(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_ours = (name.starts_with("perf-") && name.ends_with(".map"))
            || (name.starts_with("jit-") && name.ends_with(".dump"));
        if is_ours {
            let _ = fs::remove_file(entry.path());
        }
    }
    let _ = fs::remove_dir(directory);
}

/// Copies a file that this user's program wrote during the recording; `false` if there is none.
fn copy(from: &Path, to: &Path, began: SystemTime) -> io::Result<bool> {
    // A directory that all may write to can hold anything under this name.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(from) {
        Ok(file) => file,
        Err(_) => return Ok(false),
    };
    let found = file.metadata()?;
    // SAFETY: it has no conditions.
    let user = unsafe { libc::geteuid() };
    // The time of files is that of the last tick of the kernel's clock.
    let is_new = found.modified()?.checked_add(std::time::Duration::from_millis(20)).is_some_and(|at| at >= began);
    if !found.is_file() || found.uid() != user || !is_new || found.len() == 0 {
        return Ok(false);
    }
    if found.len() > MOST_BYTES {
        return Err(io::Error::other(format!("it has more than {MOST_BYTES} bytes")));
    }
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    io::copy(&mut io::Read::take(file, MOST_BYTES), &mut File::create(to)?)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_programs_say_of_their_code_is_kept_by_the_trace_s_numbers() {
        let room = std::env::temp_dir().join(format!("mmulab-jit-{}", std::process::id()));
        fs::create_dir_all(&room).unwrap();
        let output = room.join("x.mmt");
        fs::write(&output, "trace").unwrap();
        let began = SystemTime::now();
        fs::write(room.join("perf-4711.map"), "1000 10 f\n").unwrap();
        fs::write(room.join("perf-4713.map"), "").unwrap();
        std::os::unix::fs::symlink(room.join("perf-4711.map"), room.join("perf-4712.map")).unwrap();
        let dump = room.join("jit-4711.dump");
        fs::write(&dump, "DTiJ").unwrap();
        let mut said = Said { hosts: [(1, 4711), (2, 4712), (3, 4713), (4, 4714)].into(), ..Said::default() };
        said.mapped(1, &dump.display().to_string());
        said.mapped(1, "/usr/lib/libjit-4711.dump.so");
        said.mapped(1, "/tmp/jit-.dump");
        assert_eq!(said.dumps.len(), 1);
        let (kept, warnings) = keep_from(&room, &output, &said, began);
        let directory = beside(&output);
        assert_eq!((kept, warnings), (vec![directory.join("perf-1.map"), directory.join("jit-1.dump")], vec![]));
        assert_eq!(fs::read_to_string(directory.join("perf-1.map")).unwrap(), "1000 10 f\n");
        // An older file is of a process that had this number before; what an earlier recording kept goes.
        fs::write(directory.join("notes"), "mine").unwrap();
        let later = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(keep_from(&room, &output, &said, later), (vec![], vec![]));
        assert!(!directory.join("perf-1.map").exists() && directory.join("notes").exists());
        // A trace that is no file has nothing beside it.
        assert_eq!(keep_from(&room, Path::new("/dev/null"), &said, began), (vec![], vec![]));
        fs::remove_dir_all(&room).unwrap();
    }
}
