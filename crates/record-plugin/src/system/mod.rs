//! Recording a whole system: the guest's kernel and all that its agent says is to be recorded. One CPU runs it all, so
//! a block and an access are words as ever; who runs is told between them.
//!
//! The plugin API that all QEMUs have gives no registers. What is needed of them is in the guest's memory: the kernel
//! saves a program's registers there when it enters, and page tables lie there. Only their root is asked of QEMU's
//! monitor, after each load.

mod arch;
mod calls;
mod frames;
mod letters;
mod monitor;
mod numbers;
mod ram;
mod world;

use crate::{
    api::{Api, Id, MemInfo, Tb},
    blocks,
    code::Code,
    initial, session, slots, thread,
};
use arch::{Arch, Load};
use mmulab_addr::PageOrder;
use mmulab_record::{SystemSettings, words};
use mmulab_trace::Isa;
use mmulab_visible::visible;
use monitor::Monitor;
use std::{
    cell::RefCell,
    ffi::{c_uint, c_void},
    path::PathBuf,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering},
    },
};
use world::{CPU, Recorded, World, stack_of};

/// What the next block is preceded by: a root was loaded, and which, or translations were dropped.
static NEWS: AtomicU32 = AtomicU32::new(0);
const DROPPED: u32 = 1;
const LOADED: u32 = 2;
const LOADED_KERNEL: u32 = 4;
/// From here on: one more than the number of the register that the root was loaded from.
const FROM_SHIFT: u32 = 8;

/// Where the kernel's half and the programs' were last known to have their tables.
static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);
static ROOT: AtomicU64 = AtomicU64::new(0);
static MONITOR: Mutex<Option<Monitor>> = Mutex::new(None);

/// Whether what runs is recorded.
static ON: AtomicU8 = AtomicU8::new(Recorded::Nothing as u8);
/// The kernel stack in use, before anything else is known.
static STACK: AtomicU64 = AtomicU64::new(0);
static WORLD: Mutex<Option<World>> = Mutex::new(None);
static SETTINGS: OnceLock<Settings> = OnceLock::new();

struct Settings {
    arch: Arch,
    monitor: PathBuf,
    with_kernel: bool,
    /// The size of the kernel's base pages.
    base: PageOrder,
}

/// A translated block, never given back: QEMU may call with it for as long as it runs.
struct Block {
    word: u64,
    start: u64,
    /// The second page its bytes reach, or its first again.
    second: u64,
}

/// What a block's execution does that matters.
const PLAIN: u64 = 0;

/// Registers what is called for a system, recorded as the launcher's settings say; false if such systems cannot be
/// followed.
pub fn install(api: &Api, id: Id, isa: Isa, system: SystemSettings) -> bool {
    let Some(arch) = Arch::of(isa) else { return false };
    let SystemSettings { monitor, with_kernel, base_page } = system;
    world::set_stacks(base_page);
    let _ = SETTINGS.set(Settings { arch, monitor, with_kernel, base: base_page });
    initial::told_already();
    api.on_translation(id, on_translate);
    true
}

extern "C" fn on_translate(_: Id, tb: Tb) {
    thread_local! {
        static CODE: RefCell<Code> = RefCell::new(Code::default());
    }
    let (Some(session), Some(settings)) = (session::current(), SETTINGS.get()) else { return };
    let api = &session.api;
    CODE.with_borrow_mut(|code| {
        code.read(session, tb);
        let Code { instructions, bytes, .. } = &*code;
        let slices: Vec<&[u8]> = code.slices().collect();
        let found = settings.arch.look(&slices);
        let start = api.start(tb);
        let is_kernel = start >> 63 == 1;
        if settings.with_kernel || !is_kernel {
            let word = words::block(blocks::number(start, instructions.len() as u32, bytes));
            let last = start.wrapping_add(bytes.len().max(1) as u64 - 1);
            let second = if (start ^ last) >> 12 != 0 { last & !0xfff } else { start };
            let block: &'static Block = Box::leak(Box::new(Block { word, start, second }));
            api.on_execution(tb, on_block, std::ptr::from_ref(block) as u64);
            for (&insn, index) in instructions.iter().zip(0u64..) {
                api.on_access(insn, on_access, index);
            }
        } else {
            api.on_execution(tb, on_quiet_block, PLAIN);
        }
        let number = |from: Option<u8>| from.map_or(0, |register| u32::from(register) + 1) << FROM_SHIFT;
        let news = match found.loads {
            Some(Load::Root(from)) => LOADED | DROPPED | number(from),
            Some(Load::KernelRoot(from)) => LOADED_KERNEL | DROPPED | number(from),
            None => u32::from(found.drops) * DROPPED,
        };
        if news != 0 {
            api.on_execution(tb, on_news, u64::from(news));
        }
        for (&insn, index) in instructions.iter().zip(0usize..) {
            for (place, call) in [
                (found.switches, on_switch as crate::api::OnAccess),
                (found.entered, on_enter),
                (found.leaves, on_leave),
                (found.rings, on_ring),
            ] {
                if place == Some(index) {
                    api.on_access(insn, call, 0);
                }
            }
        }
    });
}

/// Changes the world, and chooses what is recorded afterwards.
fn with_world(act: impl FnOnce(&mut World)) {
    let mut guard = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(world) = &mut *guard {
        act(world);
        ON.store(world.choose_recorded() as u8, Ordering::Relaxed);
    }
}

extern "C" fn on_news(_: c_uint, news: *mut c_void) {
    NEWS.store(NEWS.load(Ordering::Relaxed) & DROPPED | news as u64 as u32, Ordering::Relaxed);
}

#[cold]
fn take_news() {
    let news = NEWS.swap(0, Ordering::Relaxed);
    frames::forget();
    if news & (LOADED | LOADED_KERNEL) == 0 {
        return;
    }
    let Some(settings) = SETTINGS.get() else { return };
    let from = (news >> FROM_SHIFT).checked_sub(1).map(|register| register as u8);
    if settings.arch == Arch::X86 && !is_followed() {
        // CR3 can be asked for when it is needed first.
        return;
    }
    if settings.arch == Arch::Arm64 && from.is_none() {
        return;
    }
    let Ok(root) = loaded_root(settings, from) else {
        slots::lose("address spaces: QEMU's monitor does not answer");
        return;
    };
    let place = if news & LOADED == 0 { &KERNEL_ROOT } else { &ROOT };
    place.store(root, Ordering::Relaxed);
    with_world(|world| {
        if news & LOADED == 0 {
            world.ram.kernel_root = root;
        } else {
            world.root_loaded(root);
        }
    });
}

fn is_followed() -> bool {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// What the monitor says of the root that was just loaded.
fn loaded_root(settings: &Settings, from: Option<u8>) -> std::io::Result<u64> {
    let mut monitor = MONITOR.lock().unwrap_or_else(PoisonError::into_inner);
    let monitor = match &mut *monitor {
        Some(monitor) => monitor,
        none => none.insert(Monitor::connect(&settings.monitor)?),
    };
    monitor.root(from)
}

extern "C" fn on_quiet_block(_: c_uint, _: *mut c_void) {
    if NEWS.load(Ordering::Relaxed) != 0 {
        take_news();
    }
}

extern "C" fn on_block(index: c_uint, block: *mut c_void) {
    // SAFETY: it was made for this callback and is never given back.
    let block = unsafe { &*block.cast::<Block>() };
    if NEWS.load(Ordering::Relaxed) != 0 {
        take_news();
    }
    if ON.load(Ordering::Relaxed) == Recorded::Nothing as u8 || index != CPU {
        return;
    }
    for address in [block.start, block.second] {
        if !frames::is_known(address) {
            meet(address);
        }
    }
    thread::on_block(index, block.word);
}

extern "C" fn on_access(index: c_uint, info: MemInfo, address: u64, instruction: *mut c_void) {
    let on = ON.load(Ordering::Relaxed);
    let left_out = if address >> 63 == 0 { Recorded::Kernel } else { Recorded::Programs };
    if on == Recorded::Nothing as u8 || on == left_out as u8 || index != CPU {
        return;
    }
    if !frames::is_known(address) {
        meet(address);
    }
    if let Some(session) = session::current() {
        let api = &session.api;
        thread::on_access(index, address, api.size_shift(info), api.is_store(info), instruction as u64);
    }
}

/// A page that is not remembered is about to be referred to.
#[cold]
fn meet(address: u64) {
    let mut guard = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((first, pfn, order)) = guard.as_mut().and_then(|world| world.page_used(address)) {
        thread::put_pair(CPU, words::frame(first, pfn, order));
    }
    frames::remember(address);
}

extern "C" fn on_switch(_: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    with_world(|world| {
        if let Some(pointer) = world.ram.u64(world.root, world.arch.pointer(address)) {
            world.switched_to(stack_of(pointer));
        }
    });
}

extern "C" fn on_enter(_: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    with_world(|world| {
        if let Some(place) = world.arch.entered(&world.ram, world.root, address) {
            calls::enter(world, place);
        }
    });
}

extern "C" fn on_leave(_: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    STACK.store(stack_of(address), Ordering::Relaxed);
    with_world(|world| {
        if let Some(place) = world.arch.leaves(&world.ram, world.root, address) {
            calls::leave(world, place);
        }
    });
}

extern "C" fn on_ring(_: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    {
        let mut guard = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            match first_world(address) {
                Ok(world) => *guard = Some(world),
                Err(why) => eprintln!("mmulab: the guest cannot be followed: {}", visible(why)),
            }
        }
    }
    with_world(|world| {
        if let Some(letter) = letters::read(world, address) {
            letters::open(world, &letter);
        }
    });
}

/// The world as it is when the agent stores to `address`.
fn first_world(address: u64) -> Result<World, String> {
    let settings = SETTINGS.get().ok_or("it was not prepared")?;
    let mut ram = ram::Ram::find(settings.arch, settings.base).ok_or("its memory is not in QEMU's memory map")?;
    ram.kernel_root = KERNEL_ROOT.load(Ordering::Relaxed);
    let root = match settings.arch {
        Arch::X86 => loaded_root(settings, None).map_err(|e| format!("QEMU's monitor: {e}"))?,
        Arch::Arm64 => ROOT.load(Ordering::Relaxed),
    };
    ram.fit(settings.base, root, address);
    Ok(World::new(settings.arch, ram, root, STACK.load(Ordering::Relaxed), settings.with_kernel))
}
