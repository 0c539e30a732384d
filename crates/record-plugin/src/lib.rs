//! The plugin that QEMU loads to record a program. It writes each block's execution and each access as one word to
//! memory shared with the launcher. It also reports to the launcher the system calls that matter.
//!
//! It does as little as it can. The program's threads run it at every block and every access. Nothing in it outlives a
//! fork, needs a thread of its own, or is lost when a signal ends the process.

mod api;
mod blocks;
mod calls;
mod code;
mod exec;
mod guest;
mod handover;
mod initial;
mod memory_map;
mod order;
mod room;
mod session;
mod sites;
mod slots;
mod system;
mod telling;
mod thread;

use api::{Api, Id, Info, MemInfo, Tb};
use code::Code;
use mmulab_record::{Image, Settings, arena::Arena, words};
use mmulab_trace::Isa;
use mmulab_visible::visible;
use std::{
    cell::RefCell,
    ffi::{OsString, c_char, c_int, c_uint, c_void},
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicI32, Ordering},
};

/// The API version this plugin was made for; QEMU reads it before anything else.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(api::OLDEST);

/// The loader runs this before QEMU reads the version: so one library serves QEMUs that insist on different ones.
extern "C" fn store_version() {
    qemu_plugin_version.store(api::choose_version(), Ordering::Relaxed);
}
#[used]
#[unsafe(link_section = ".init_array")]
static STORE_VERSION: extern "C" fn() = store_version;

/// QEMU's entry point. Anything but 0 makes QEMU end before the program begins.
///
/// # Safety
/// QEMU's own call: `info` and the `argc` strings of `argv` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: as promised.
    let (info, args) = unsafe {
        let args = (0..argc.max(0) as usize).map(|i| api::text(*argv.add(i))).collect::<Vec<_>>();
        (&*info, args)
    };
    match install(id, info, &args) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("mmulab: the program cannot be recorded: {}", visible(why));
            1
        }
    }
}

fn install(id: Id, info: &Info, args: &[String]) -> Result<(), String> {
    let value = |key: &str| {
        let found = args.iter().find_map(|a| a.strip_prefix(key)?.strip_prefix('='));
        found.ok_or_else(|| format!("the plugin was given no {key}; `mmulab record` starts it"))
    };
    let number = |key: &str| value(key)?.parse::<u32>().map_err(|e| format!("{key}: {e}"));
    let target = api::text(info.target_name);
    let isa = match target.as_str() {
        "x86_64" => Isa::X86_64,
        "aarch64" => Isa::Aarch64,
        "riscv64" => Isa::Riscv64,
        _ => return Err(format!("programs for {target} are not supported")),
    };
    let version = qemu_plugin_version.load(Ordering::Relaxed);
    let api =
        Api::find(version).map_err(|symbol| format!("this QEMU has no {symbol}; version 6.0 or later is needed"))?;
    let arena_path = value("arena")?.to_owned();
    let handed = |key: &str| -> Result<Option<OwnedFd>, String> {
        let Ok(text) = value(key) else { return Ok(None) };
        let fd = text.parse().map_err(|e| format!("{key}: {e}"))?;
        // SAFETY: whoever started QEMU handed it over, and nobody else knows it.
        Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }))
    };
    drop(handed("plugin-fd")?);
    let arena_file = match handed("arena-fd")? {
        Some(file) => Ok(file.into()),
        None => Arena::file_at(Path::new(&arena_path)),
    };
    let arena = arena_file.and_then(|file| {
        room::reserve(&file);
        Arena::from_file(&file)
    });
    let arena = arena.map_err(|e| format!("{arena_path}: {e}"))?;
    let settings: Settings = serde_json::from_slice(arena.settings()).map_err(|e| format!("the settings: {e}"))?;
    let image = Image { number: number("image")?, pid: number("pid")?, tid: number("tid")? };
    if info.system_emulation {
        let Some(system) = settings.system.clone() else {
            return Err("QEMU emulates a whole system, and the launcher wants a program".into());
        };
        let (program, before, program_fd) = (PathBuf::new(), Vec::new(), None.into());
        let session = session::Session { arena, arena_path, settings, api, isa, program, program_fd, before };
        telling::start(session, &image)?;
        return match session::current() {
            Some(session) if !system::install(&session.api, id, isa, system) => {
                Err(format!("systems for {target} are not supported"))
            }
            _ => Ok(()),
        };
    }
    let named = program().ok_or("QEMU's command line names no program")?;
    let before = memory_map::mappings();
    if let (Some(root), Some(directory)) = (handed("root-fd")?, handed("directory-fd")?) {
        memory_map::keep_map();
        handover::go_inside(root, directory)?;
    }
    // The program may change its directory later.
    let program = std::path::absolute(&named).unwrap_or(named);
    let program_fd = handed("program-fd")?.into();
    let session = session::Session { arena, arena_path, settings, api, isa, program, program_fd, before };
    telling::start(session, &image)?;
    // SAFETY: a function of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(in_copy)) };
    if let Some(session) = session::current() {
        session.api.register(id, on_translate, on_call, on_return);
    }
    Ok(())
}

unsafe extern "C" fn in_copy() {
    calls::in_copy();
}

/// The program on QEMU's command line: the launcher puts it after `-0 NAME`.
fn program() -> Option<PathBuf> {
    let line = std::fs::read("/proc/self/cmdline").ok()?;
    let mut args = line.split(|&b| b == 0).skip_while(|a| *a != b"-0");
    let found = args.nth(2)?.to_vec();
    Some(PathBuf::from(OsString::from_vec(found)))
}

extern "C" fn on_translate(_: Id, tb: Tb) {
    thread_local! {
        static CODE: RefCell<Code> = RefCell::new(Code::default());
    }
    let Some(session) = session::current() else { return };
    let api = &session.api;
    CODE.with_borrow_mut(|code| {
        code.read(session, tb);
        for (&insn, index) in code.instructions.iter().zip(0u64..) {
            api.on_access(insn, on_access, index);
            if session::base().is_none()
                && let Some(base) = api.base(insn)
            {
                session::set_base(base);
            }
        }
        let number = blocks::number(api.start(tb), code.instructions.len() as u32, &code.bytes);
        api.on_execution(tb, on_block, words::block(number));
    });
}

extern "C" fn on_block(index: c_uint, word: *mut c_void) {
    thread::on_block(index, word as u64);
}

extern "C" fn on_access(index: c_uint, info: MemInfo, address: u64, instruction: *mut c_void) {
    if let Some(session) = session::current() {
        let api = &session.api;
        thread::on_access(index, address, api.size_shift(info), api.is_store(info), instruction as u64);
    }
}

#[allow(clippy::too_many_arguments)] // QEMU's signature.
extern "C" fn on_call(
    _: Id,
    index: c_uint,
    number: i64,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
    _: u64,
    _: u64,
) {
    calls::enter(index, number, [a, b, c, d, e, f]);
}

extern "C" fn on_return(_: Id, index: c_uint, _: i64, result: i64) {
    calls::leave(index, result);
}
