//! Launcher of recordings: starts QEMU with the plugin, passes on progress, stops the program on request, and returns
//! the report. The plugin uses `command_line` too, when a recorded program executes another one.
//!
//! ```text
//! launcher --starts--> watcher --starts--> QEMU with the plugin
//!    |                                              | writes
//!    '--starts--> consumer thread <--reads-- shared memory
//!                        '--writes--> trace file (the launcher adds the index)
//! ```

use crate::{
    Ended, Progress, RecordError, RecordOptions, RecordReport,
    arena::Arena,
    consumer::{Consumer, Found, Shared, Why},
    door::Door,
    elf,
    image::Limits,
    jit,
    message::Settings,
    options::Intervals,
    output::Output,
    system::Guest,
    watch::Watched,
};
use mmulab_trace::{Description, EndInfo, Isa};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::{
        fd::{AsFd, RawFd},
        unix::{ffi::OsStringExt, fs::MetadataExt, process::CommandExt, process::ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

/// Interval at which the launcher checks its program and reports progress.
const TURN: Duration = Duration::from_millis(2);
const TELL: Duration = Duration::from_millis(100);
/// How long a program that was asked to end may take.
const GRACE: Duration = Duration::from_secs(2);
/// QEMU's seed for what it takes from the system at random, with `fixed_layout`.
const SEED: &str = "1";

/// The variable that names libraries to load before all others (ld.so(8)).
const PRELOAD: &str = "LD_PRELOAD";

/// Runs a program under QEMU and records it in a trace. `tell` gets the progress a few times a second, and returns
/// `false` to stop it.
///
/// # Errors
/// Nothing could be recorded. Faults after the program began to run are in the report, and the trace holds the part
/// before.
pub fn record(
    options: &RecordOptions,
    mut on_progress: impl FnMut(&Progress) -> bool,
) -> Result<RecordReport, RecordError> {
    let how = match &options.system {
        Some(system) => How::Guest(Guest::prepare(options, system)?),
        None => How::Program(plan(options)?),
    };
    let output = Output::open(&options.output)
        .map_err(|e| RecordError::io(format!("cannot write {}", options.output.display()), e))?;
    let settings =
        serde_json::to_vec(how.settings()).map_err(|e| RecordError::io("cannot describe the recording", e.into()))?;
    let arena = Arena::create(&settings).map_err(|e| RecordError::io("cannot make the memory for recording", e))?;
    let arena = Arc::new(arena);
    let door = match (&how, arena.file()) {
        (How::Program(Plan { settings, .. }), Some(file)) => Door::open(&settings.door, file, &settings.plugin),
        _ => Err(std::io::Error::other("a whole system needs none")),
    };
    let (command, qemu) = match &how {
        How::Program(plan) => (plan.command(options, &arena), &*plan.qemu),
        How::Guest(guest) => (guest.command(&arena.path()), guest.qemu()),
    };
    let started =
        said_aside(command, options).and_then(|command| Watched::spawn(command, &arena)).map_err(|e| (qemu, e));
    let mut watched = match started {
        Ok(watched) => watched,
        Err((qemu, error)) => {
            output.abandon();
            return Err(RecordError::io(format!("cannot start {}", qemu.display()), error));
        }
    };
    let (started, began) = (Instant::now(), SystemTime::now());
    let shared = Arc::new(Shared::default());
    let limits = Limits::whole(options.skip, options.max_instructions.unwrap_or(u64::MAX));
    if let Some(Intervals { length, every }) = options.intervals.filter(|of| of.length == 0 || of.every <= of.length) {
        return Err(RecordError::Intervals { length, every });
    }
    let consumer = Consumer::new(
        Arc::clone(&arena),
        Arc::clone(&shared),
        how.settings().description.clone(),
        output,
        limits,
        options.intervals,
    );
    let consumer = std::thread::spawn(move || consumer.run());
    let mut told = started;
    let mut asked: Option<Instant> = None;
    let mut status: Option<ExitStatus> = None;
    let mut ended_after = None;
    while !consumer.is_finished() {
        if status.is_none() {
            let found = watched.status().map_err(|e| RecordError::io("cannot wait for the program", e))?;
            status = found.map(ExitStatus::from_raw);
            if status.is_some() {
                ended_after = Some(started.elapsed());
                shared.reaped.store(true, Ordering::Release);
            }
        }
        if told.elapsed() >= TELL {
            told = Instant::now();
            let retired = shared.retired.load(Ordering::Relaxed);
            if !on_progress(&Progress { instructions: retired, seconds: started.elapsed().as_secs_f64() }) {
                // Asked again, it need not be polite.
                signal_all(&shared, &watched, if asked.is_none() { libc::SIGTERM } else { libc::SIGKILL });
                asked = asked.or(Some(told));
            }
        }
        if asked.is_some_and(|since| since.elapsed() > GRACE) {
            signal_all(&shared, &watched, libc::SIGKILL);
        }
        std::thread::sleep(TURN);
    }
    let found = consumer
        .join()
        .map_err(|_| RecordError::io("the recorder failed", std::io::Error::other("a defect of mmulab's own")))?;
    // Whoever still runs waits for room that will not come, and is ended.
    arena.close();
    watched.end().map_err(|e| RecordError::io("cannot end the program", e))?;
    drop(door);
    let status = status.unwrap_or_else(|| ExitStatus::from_raw(arena.main_status().unwrap_or(libc::SIGKILL)));
    let seconds = ended_after.unwrap_or_else(|| started.elapsed()).as_secs_f64();
    let retired = shared.retired.load(Ordering::Relaxed);
    if !shared.began.load(Ordering::Acquire) && !matches!(found.why, Why::Full(_)) {
        found.output.abandon();
        let said = match status.code() {
            Some(code) => format!("it ended with status {code}; what it said is above"),
            None => format!("signal {} ended it", status.signal().unwrap_or_default()),
        };
        return Err(match &how {
            How::Program(plan) => RecordError::QemuFailed { program: plan.program.clone(), said },
            How::Guest(guest) => RecordError::GuestFailed { program: guest.program.clone(), tail: guest.tail() },
        });
    }
    let told_its_end = found.status.is_some();
    let mut report = report(options, found, status, asked.is_some(), (seconds, retired));
    let said = std::mem::take(&mut *shared.said.lock().unwrap_or_else(PoisonError::into_inner));
    let (names, warnings) = jit::keep(&options.output, &said, began);
    report.code_names = names;
    report.warnings.extend(warnings);
    if let How::Program(Plan { nameless: Some(why), .. }) = &how {
        report.warnings.push(why.clone());
    }
    if let How::Guest(guest) = &how {
        let missing = guest.missing.iter().map(|name| format!("the guest lacks {name}: it was not found here"));
        report.warnings.extend(missing);
        if report.ended == Ended::Exited && !told_its_end {
            report.ended = Ended::Signal;
            report
                .warnings
                .push(format!("the guest ended before its program; its kernel's last words:{}", guest.tail()));
        }
    }
    Ok(report)
}

/// Kind of program that runs.
enum How {
    Program(Plan),
    Guest(Guest),
}

impl How {
    fn settings(&self) -> &Settings {
        match self {
            Self::Program(plan) => &plan.settings,
            Self::Guest(guest) => &guest.settings,
        }
    }
}

fn report(
    options: &RecordOptions,
    found: Found,
    status: ExitStatus,
    asked: bool,
    (seconds, retired): (f64, u64),
) -> RecordReport {
    let Found { why, mut output, mut lost, processes, threads, status: told } = found;
    let mut warnings = Vec::new();
    let mut exit_status = told.or(status.code()).or(status.signal().map(|s| 128 + s)).unwrap_or_default();
    let ended = match why {
        Why::Full(error) => {
            exit_status = 0;
            warnings.push(format!("the trace could not be written to its end: {error}"));
            Ended::DiskFull
        }
        Why::Limit => {
            exit_status = 0;
            Ended::Limit
        }
        Why::Ended if told.is_some() => Ended::Exited,
        Why::Ended if asked => Ended::Interrupted,
        Why::Ended if status.signal().is_some() => Ended::Signal,
        Why::Ended => Ended::Exited,
    };
    let ended_early = match ended {
        Ended::Exited => None,
        Ended::Signal => status.signal().map(|s| format!("signal {s} ended the program")),
        // Asking for a part is not ending early.
        Ended::Limit => None,
        Ended::Interrupted => Some("interrupted".into()),
        Ended::DiskFull => Some("the disk was full".into()),
    };
    lost.dedup();
    // Of a program that was stopped, or that a signal ended, that is said already.
    let failed = (ended == Ended::Exited && exit_status != 0).then(|| format!("status {exit_status}"));
    let end = EndInfo { processes, threads, ended_early, failed, lost: lost.clone() };
    match output.finish(&end) {
        Ok(0) => {}
        Ok(given_up) => warnings.push(format!("{given_up} chunks were given up to make room for the trace's index")),
        Err(error) => warnings
            .push(format!("the trace's index could not be written ({error}); it reads up to its last whole chunk")),
    }
    if output.instructions == 0 && options.skip > 0 {
        warnings.push(format!("the program retired {retired} instructions, and {} were to be left out", options.skip));
    }
    let bytes = output.bytes();
    RecordReport {
        output: options.output.clone(),
        ended,
        exit_status,
        instructions: output.instructions,
        references: output.references,
        bytes,
        bytes_per_instruction: bytes as f64 / output.instructions.max(1) as f64,
        seconds,
        instructions_per_s: retired as f64 / seconds.max(1e-9),
        processes,
        threads,
        lost,
        warnings,
        code_names: Vec::new(),
    }
}

/// Sends the program's standard output to the launcher's standard error, or nowhere. The launcher's standard output is
/// for its own data (tables, JSON), which would be spoilt.
fn said_aside(mut command: Command, options: &RecordOptions) -> std::io::Result<Command> {
    command.stdout(match options.quiet {
        true => Stdio::null(),
        false => Stdio::from(std::io::stderr().as_fd().try_clone_to_owned()?),
    });
    if let Some(path) = &options.stdin {
        command.stdin(File::open(path)?);
    }
    Ok(command)
}

/// Sends `signal` to all processes that are recorded.
fn signal_all(shared: &Shared, watched: &Watched, signal: i32) {
    let mut pids = shared.live.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if !shared.reaped.load(Ordering::Acquire) {
        pids.extend(watched.main());
    }
    for pid in pids {
        // SAFETY: no memory is involved. A process that ended a moment ago is no harm.
        unsafe { libc::kill(pid as libc::pid_t, signal) };
    }
}

/// How a program is run.
struct Plan {
    settings: Settings,
    qemu: PathBuf,
    program: PathBuf,
    /// The program's arguments, the interpreter's of a script included; the first is its name for itself.
    args: Vec<String>,
    /// The libraries that it preloads: for the names of its memory, and to record its heap.
    preloaded: Vec<OsString>,
    /// Why its memory has no names, though they were asked for.
    nameless: Option<String>,
}

fn plan(options: &RecordOptions) -> Result<Plan, RecordError> {
    let name = options.command.first().ok_or(RecordError::NoCommand)?;
    if !options.plugin.is_file() {
        return Err(RecordError::NoPlugin(options.plugin.clone()));
    }
    let program = elf::find(name).ok_or_else(|| RecordError::NotFound(name.clone()))?;
    let resolved = elf::resolve(&program, options.command.clone())
        .map_err(|why| RecordError::NotEmulated { program: program.clone(), why })?;
    let isa = options.isa.unwrap_or(resolved.isa);
    let (mut preloaded, mut nameless) = (Vec::new(), None);
    if let Some(library) = options.sites.as_deref().map(|library| library_for(library, isa)) {
        match cannot_preload(&resolved.program, isa, &library) {
            Some(why) => nameless = Some(format!("{}: its memory has no names: {why}", program.display())),
            None => preloaded.push(library_path(&library)?),
        }
    }
    if let Some(library) = options.heap.as_deref().map(|library| library_for(library, isa)) {
        if let Some(why) = cannot_preload(&resolved.program, isa, &library) {
            return Err(RecordError::HeapUnseen { program: resolved.program, why });
        }
        preloaded.push(library_path(&library)?);
    }
    let qemu = match &options.qemu {
        Some(qemu) => qemu.clone(),
        None => {
            let wanted = elf::qemu_name(isa);
            elf::find(wanted).ok_or_else(|| RecordError::NoQemu { wanted: wanted.into() })?
        }
    };
    let mut qemu_args = Vec::new();
    if let Some(cpu) = &options.cpu {
        qemu_args.extend(["-cpu".into(), cpu.clone()]);
    }
    if let Some(size) = options.page_size {
        qemu_args.extend(["-p".into(), size.bytes().to_string()]);
    }
    if options.fixed_layout {
        qemu_args.extend(["-seed".into(), SEED.into()]);
    }
    let usual = PathBuf::from("/usr").join(elf::triplet(isa));
    let sysroot = options.sysroot.clone().or_else(|| (!elf::is_native(isa) && usual.is_dir()).then_some(usual));
    if let Some(sysroot) = &sysroot {
        qemu_args.extend(["-L".into(), sysroot.display().to_string()]);
    }
    let description = Description {
        program: program.display().to_string(),
        args: options.command[1..].to_vec(),
        isa,
        cpu: options.cpu.clone(),
        has_address_space: true,
        has_heap: options.heap.is_some(),
        misses_of: None,
        warps: None,
        skipped: (options.skip > 0).then_some(options.skip),
        writer: format!("mmulab {}", env!("CARGO_PKG_VERSION")),
        source: format!("{} {}", elf::qemu_name(isa), qemu_args.join(" ")).trim_end().to_owned(),
    };
    let plugin = std::fs::canonicalize(&options.plugin).unwrap_or_else(|_| options.plugin.clone());
    // The program may change its directory and its environment before it executes another.
    let qemu = std::fs::canonicalize(&qemu).unwrap_or(qemu);
    let settings = Settings {
        description,
        qemu: Some(qemu.clone()),
        qemu_args,
        plugin,
        door: door_name(),
        pid_namespace: pid_namespace(),
        gate: options.gate,
        system: None,
    };
    Ok(Plan { settings, qemu, program: resolved.program, args: resolved.args, preloaded, nameless })
}

/// The library like this one for programs of `isa`, which lies beside it: `libmmulab_sites.so` is for this computer's
/// instruction set, and `libmmulab_sites-aarch64.so` for aarch64.
fn library_for(library: &Path, isa: Isa) -> PathBuf {
    if elf::is_native(isa) {
        return library.to_path_buf();
    }
    let name = library.file_stem().unwrap_or_default().to_string_lossy();
    library.with_file_name(format!("{name}-{isa}.so"))
}

/// Why `program` does not preload `library`, which stands before its allocator, if so.
fn cannot_preload(program: &Path, isa: Isa, library: &Path) -> Option<&'static str> {
    if !elf::is_native(isa) && !library.exists() {
        return Some("this mmulab was built without the library for its instruction set that tells of it");
    }
    let is_static = mmulab_elf::read(program).is_ok_and(|file| file.interpreter.is_none());
    is_static.then_some("it is linked statically, its allocator within it; link it dynamically")
}

/// A library's path, as the dynamic linker takes it.
fn library_path(library: &Path) -> Result<OsString, RecordError> {
    let found = std::fs::canonicalize(library).map_err(|_| RecordError::NoHeapLibrary(library.to_path_buf()))?;
    if found.as_os_str().as_encoded_bytes().iter().any(|b| b" :,\t\n".contains(b)) {
        return Err(RecordError::HeapLibraryPath(found));
    }
    Ok(found.into_os_string())
}

impl Plan {
    fn command(&self, options: &RecordOptions, arena: &Arena) -> Command {
        let mut env: Vec<(OsString, OsString)> = std::env::vars_os()
            .chain(options.env.iter().map(|(k, v)| (OsString::from(k), OsString::from(v))))
            .collect();
        if !self.preloaded.is_empty() {
            // First, so that they stand before an allocator that is preloaded, too.
            let others = env.iter().rev().find(|(name, _)| name == PRELOAD).map(|(_, value)| value.clone());
            let others = others.filter(|others| !others.is_empty());
            let all: Vec<OsString> = self.preloaded.iter().cloned().chain(others).collect();
            env.push((PRELOAD.into(), all.join(OsStr::new(":"))));
        }
        let (args, env) = command_line(
            &self.settings,
            &Handed { arena: arena.path(), ..Handed::default() },
            &crate::Image { number: 0, pid: 1, tid: 1 },
            &self.program,
            self.args.iter().map(OsString::from).collect(),
            env,
        );
        let mut command = Command::new(&self.qemu);
        command.args(args).env_clear().envs(env);
        if options.fixed_layout {
            // SAFETY: personality(2) may be called between fork and exec; it touches no memory.
            unsafe {
                command.pre_exec(|| {
                    let now = libc::personality(0xffff_ffff);
                    if now < 0 || libc::personality(now as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong) < 0
                    {
                        return Err(std::io::Error::last_os_error());
                    }
                    Ok(())
                })
            };
        }
        command
    }
}

/// A name of this recording's own for its socket.
fn door_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("mmulab-record-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The namespace of process numbers that this process is in, as its inode; 0 if it is not known.
pub fn pid_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino())
}

/// Descriptors for the plugin of an image, from the process that starts it. They are open in QEMU when it starts; the
/// plugin closes them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Handed {
    /// Where the shared memory is: a path.
    pub arena: String,
    /// Where it is if that path cannot be opened: a descriptor.
    pub arena_fd: Option<RawFd>,
    /// The plugin, where its own path may not be open to the process.
    pub plugin_fd: Option<RawFd>,
    /// The program, if it is a descriptor that the process which executed it had open.
    pub program_fd: Option<RawFd>,
    /// The root and the working directory to go on in: those of a program that called chroot, QEMU being outside.
    pub inside: Option<(RawFd, RawFd)>,
}

/// Variables that the host's dynamic linker heeds: they are the recorded program's, not QEMU's.
fn is_for_linker(name: &[u8]) -> bool {
    name.starts_with(b"LD_") || name == b"GLIBC_TUNABLES" || name.starts_with(b"MALLOC_")
}

/// QEMU's arguments and environment for recording `program` as `image`.
pub fn command_line(
    settings: &Settings,
    handed: &Handed,
    image: &crate::Image,
    program: &Path,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
) -> (Vec<OsString>, Vec<(OsString, OsString)>) {
    // In QEMU's option lists a comma within a value is written twice.
    let escape = |path: &Path| path.display().to_string().replace(',', ",,");
    let mut out: Vec<OsString> = settings.qemu_args.iter().map(OsString::from).collect();
    out.push("-plugin".into());
    let crate::Image { number, pid, tid } = image;
    let plugin = match handed.plugin_fd {
        Some(fd) => format!("/proc/self/fd/{fd}"),
        None => escape(&settings.plugin),
    };
    let mut given = format!("{plugin},arena={},image={number},pid={pid},tid={tid}", escape(Path::new(&handed.arena)));
    let fds = [("arena-fd", handed.arena_fd), ("plugin-fd", handed.plugin_fd), ("program-fd", handed.program_fd)];
    let inside = handed
        .inside
        .map_or([None; 2], |(root, directory)| [("root-fd", Some(root)), ("directory-fd", Some(directory))].map(Some));
    for (key, fd) in fds.into_iter().chain(inside.into_iter().flatten()) {
        if let Some(fd) = fd {
            given.push_str(&format!(",{key}={fd}"));
        }
    }
    out.push(given.into());
    let mut host = Vec::new();
    for (name, value) in env {
        let name = name.into_vec();
        let value = value.into_vec();
        // QEMU takes commas for the end of a variable.
        if is_for_linker(&name) && !value.contains(&b',') {
            let both = [&name[..], b"=", &value[..]].concat();
            out.extend(["-E".into(), OsString::from_vec(both)]);
        } else {
            host.push((OsString::from_vec(name), OsString::from_vec(value)));
        }
    }
    let mut args = args.into_iter();
    if let Some(name) = args.next() {
        out.extend(["-0".into(), name]);
    }
    out.push(program.into());
    out.extend(args);
    (out, host)
}

/// The QEMU for programs of `isa`.
pub fn qemu_for(settings: &Settings, isa: Isa) -> Option<PathBuf> {
    if settings.description.isa == isa && settings.qemu.is_some() {
        return settings.qemu.clone();
    }
    elf::find(elf::qemu_name(isa))
}
