//! Recording a whole system: the guest's kernel and all that its agent says is to be recorded. One CPU runs it all, so a block
//! and an access are words as ever; who runs is told between them.
//!
//! The plugin API that all QEMUs have gives no registers. What is needed of them is in the guest's memory: the kernel saves a
//! program's registers there when it enters, and page tables lie there. Only CR3 is asked of QEMU's monitor, after each load.

mod calls;
mod code;
mod frames;
mod letters;
mod monitor;
mod ram;
mod world;

use crate::{
    api::{Api, Id, MemInfo, Tb},
    blocks, session, thread,
};
use mmulab_record::words;
use std::{
    cell::RefCell,
    ffi::{c_uint, c_void},
    path::PathBuf,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};
use world::{CPU, Recorded, World, stack_of};

/// What the next block is preceded by: CR3 was loaded, or translations were dropped.
static NEWS: AtomicU8 = AtomicU8::new(0);
const LOADED: u8 = 1;
const DROPPED: u8 = 2;

/// Whether what runs is recorded.
static ON: AtomicU8 = AtomicU8::new(Recorded::Nothing as u8);
/// The kernel stack in use, before anything else is known.
static STACK: AtomicU64 = AtomicU64::new(0);
static WORLD: Mutex<Option<World>> = Mutex::new(None);
static SETTINGS: OnceLock<Settings> = OnceLock::new();

struct Settings {
    monitor: PathBuf,
    with_kernel: bool,
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

/// Registers what is called for a system, recorded as the launcher's settings say.
pub fn install(api: &Api, id: Id, monitor: PathBuf, with_kernel: bool) {
    let _ = SETTINGS.set(Settings { monitor, with_kernel });
    session::told_already();
    api.on_translation(id, on_translate);
}

extern "C" fn on_translate(_: Id, tb: Tb) {
    thread_local! {
        static BYTES: RefCell<(Vec<u8>, Vec<usize>)> = const { RefCell::new((Vec::new(), Vec::new())) };
    }
    let (Some(session), Some(settings)) = (session::current(), SETTINGS.get()) else { return };
    let api = &session.api;
    BYTES.with_borrow_mut(|(bytes, ends)| {
        bytes.clear();
        ends.clear();
        for insn in api.instructions(tb) {
            api.bytes(insn, bytes);
            ends.push(bytes.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let slices: Vec<&[u8]> = starts.zip(ends.iter()).map(|(from, &to)| &bytes[from..to]).collect();
        let found = code::look(&slices);
        let start = api.start(tb);
        let is_kernel = start >> 63 == 1;
        if settings.with_kernel || !is_kernel {
            let word = words::block(blocks::number(start, ends.len() as u32, bytes));
            let last = start.wrapping_add(bytes.len().max(1) as u64 - 1);
            let second = if (start ^ last) >> 12 != 0 { last & !0xfff } else { start };
            let block: &'static Block = Box::leak(Box::new(Block { word, start, second }));
            api.on_execution(tb, on_block, std::ptr::from_ref(block) as u64);
            for (insn, index) in api.instructions(tb).zip(0u64..) {
                api.on_access(insn, on_access, index);
            }
        } else {
            api.on_execution(tb, on_quiet_block, PLAIN);
        }
        if found.loads_root || found.drops {
            let news = if found.loads_root { LOADED | DROPPED } else { DROPPED };
            api.on_execution(tb, on_news, u64::from(news));
        }
        for (insn, index) in api.instructions(tb).zip(0usize..) {
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

/// Looks at the world, and settles who runs afterwards.
fn with_world(act: impl FnOnce(&mut World)) {
    let mut guard = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(world) = &mut *guard {
        act(world);
        ON.store(world.settle() as u8, Ordering::Relaxed);
    }
}

extern "C" fn on_news(_: c_uint, news: *mut c_void) {
    NEWS.fetch_or(news as u64 as u8, Ordering::Relaxed);
}

#[cold]
fn take_news() {
    let news = NEWS.swap(0, Ordering::Relaxed);
    frames::forget();
    if news & LOADED != 0 {
        with_world(World::root_loaded);
    }
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
        if let Some(pointer) = world.ram.u64(world.root, address) {
            world.switched_to(stack_of(pointer));
        }
    });
}

extern "C" fn on_enter(_: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    with_world(|world| calls::enter(world, address));
}

extern "C" fn on_leave(_: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    STACK.store(stack_of(address), Ordering::Relaxed);
    with_world(|world| calls::leave(world, address));
}

extern "C" fn on_ring(_: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    {
        let mut guard = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            match first_world() {
                Ok(world) => *guard = Some(world),
                Err(why) => eprintln!("mmulab: the guest cannot be followed: {why}"),
            }
        }
    }
    with_world(|world| {
        if let Some(letter) = letters::read(world, address) {
            letters::open(world, &letter);
        }
    });
}

fn first_world() -> Result<World, String> {
    let settings = SETTINGS.get().ok_or("it was not prepared")?;
    let ram = ram::Ram::find().ok_or("its memory is not in QEMU's memory map")?;
    let monitor = monitor::Monitor::connect(&settings.monitor).map_err(|e| format!("QEMU's monitor: {e}"))?;
    World::new(ram, monitor, STACK.load(Ordering::Relaxed), settings.with_kernel).map_err(|e| e.to_string())
}
