//! The part of QEMU's plugin API that recording needs. The prototypes follow QEMU's documentation of its plugin
//! interface (docs/devel/tcg-plugins). They are looked up in the running QEMU, so that one library serves all versions.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// The oldest API that has all of this.
pub const OLDEST: c_int = 1;
/// The newest API this was written for. QEMU refuses plugins built for an API newer than its own or older than it
/// still supports, so [`choose_version`] names the one that fits.
const NEWEST: c_int = 4;
/// From this version on, instruction bytes are copied out instead of pointed at.
const COPIES_BYTES: c_int = 3;

pub type Id = u64;
/// A block being translated; QEMU's.
pub type Tb = *mut c_void;
/// An instruction of it; QEMU's.
pub type Insn = *mut c_void;
/// What is known of an access; only QEMU's accessors read it.
pub type MemInfo = u32;

#[repr(C)]
pub struct Version {
    pub min: c_int,
    pub cur: c_int,
}

/// What QEMU tells a plugin of itself.
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub version: Version,
    pub system_emulation: bool,
}

pub type OnBlock = extern "C" fn(c_uint, *mut c_void);
pub type OnAccess = extern "C" fn(c_uint, MemInfo, u64, *mut c_void);
pub type OnTranslate = extern "C" fn(Id, Tb);
#[rustfmt::skip]
pub type OnSyscall = extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub type OnSyscallReturn = extern "C" fn(Id, c_uint, i64, i64);

/// QEMU's enum qemu_plugin_cb_flags: callbacks do not touch registers.
const NO_REGISTERS: c_int = 0;
/// QEMU's enum qemu_plugin_mem_rw: loads and stores.
const READS_AND_WRITES: c_int = 3;

macro_rules! api {
    ($($field:ident: $symbol:literal => fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// QEMU's functions.
        pub struct Api {
            version: c_int,
            $($field: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl Api {
            /// Looks all of them up; the name of the first that is missing otherwise.
            pub fn find(version: c_int) -> Result<Self, &'static str> {
                // SAFETY: QEMU's symbols of these names have these types in the versions that are accepted.
                unsafe {
                    Ok(Self {
                        version,
                        $($field: {
                            let at = lookup($symbol);
                            if at.is_null() {
                                return Err($symbol);
                            }
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(at)
                        },)*
                    })
                }
            }
        }
    };
}

api! {
    tb_trans: "qemu_plugin_register_vcpu_tb_trans_cb" => fn(Id, OnTranslate);
    tb_exec: "qemu_plugin_register_vcpu_tb_exec_cb" => fn(Tb, OnBlock, c_int, *mut c_void);
    mem: "qemu_plugin_register_vcpu_mem_cb" => fn(Insn, OnAccess, c_int, c_int, *mut c_void);
    syscall: "qemu_plugin_register_vcpu_syscall_cb" => fn(Id, OnSyscall);
    syscall_ret: "qemu_plugin_register_vcpu_syscall_ret_cb" => fn(Id, OnSyscallReturn);
    tb_n_insns: "qemu_plugin_tb_n_insns" => fn(Tb) -> usize;
    tb_vaddr: "qemu_plugin_tb_vaddr" => fn(Tb) -> u64;
    tb_get_insn: "qemu_plugin_tb_get_insn" => fn(Tb, usize) -> Insn;
    insn_data: "qemu_plugin_insn_data" => fn(Insn, *mut c_void, usize) -> usize;
    insn_size: "qemu_plugin_insn_size" => fn(Insn) -> usize;
    insn_vaddr: "qemu_plugin_insn_vaddr" => fn(Insn) -> u64;
    insn_haddr: "qemu_plugin_insn_haddr" => fn(Insn) -> *mut c_void;
    mem_size_shift: "qemu_plugin_mem_size_shift" => fn(MemInfo) -> c_uint;
    mem_is_store: "qemu_plugin_mem_is_store" => fn(MemInfo) -> bool;
}

/// Finds a symbol of the running QEMU; null if it has none of this name.
fn lookup(name: &str) -> *mut c_void {
    let mut bytes = [0u8; 64];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the name ends in a zero byte, being shorter than the array.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, bytes.as_ptr().cast()) }
}

/// The API version to declare to the running QEMU, told by symbols that came with each version.
pub fn choose_version() -> c_int {
    // QEMU 9.0 brought version 2 and refuses older ones; 9.1 brought 3 and conditional callbacks; 9.2 brought 4.
    let came_with = [
        (NEWEST, "qemu_plugin_mem_get_value"),
        (COPIES_BYTES, "qemu_plugin_register_vcpu_tb_exec_cond_cb"),
        (2, "qemu_plugin_scoreboard_new"),
    ];
    came_with.into_iter().find(|(_, symbol)| !lookup(symbol).is_null()).map_or(OLDEST, |(version, _)| version)
}

impl Api {
    /// Registers what is called for all blocks and system calls.
    pub fn register(&self, id: Id, translate: OnTranslate, syscall: OnSyscall, ret: OnSyscallReturn) {
        // SAFETY: called from qemu_plugin_install, where registering is allowed.
        unsafe {
            (self.tb_trans)(id, translate);
            (self.syscall)(id, syscall);
            (self.syscall_ret)(id, ret);
        }
    }

    /// Registers what is called for all blocks of a system.
    pub fn on_translation(&self, id: Id, translate: OnTranslate) {
        // SAFETY: called from qemu_plugin_install, where registering is allowed.
        unsafe { (self.tb_trans)(id, translate) }
    }

    /// Has `call` called with `data` before each execution of `tb`.
    pub fn on_execution(&self, tb: Tb, call: OnBlock, data: u64) {
        // SAFETY: `tb` is the block being translated. `data` is a number, never followed as a pointer.
        unsafe { (self.tb_exec)(tb, call, NO_REGISTERS, data as *mut c_void) }
    }

    /// Has `call` called with `data` after each access of `insn`.
    pub fn on_access(&self, insn: Insn, call: OnAccess, data: u64) {
        // SAFETY: like on_execution.
        unsafe { (self.mem)(insn, call, NO_REGISTERS, READS_AND_WRITES, data as *mut c_void) }
    }

    /// A block's first address.
    pub fn start(&self, tb: Tb) -> u64 {
        // SAFETY: `tb` is the block being translated.
        unsafe { (self.tb_vaddr)(tb) }
    }

    /// A block's instructions.
    pub fn instructions(&self, tb: Tb) -> impl Iterator<Item = Insn> + use<'_> {
        // SAFETY: `tb` is the block being translated, and the indices are below its count.
        unsafe {
            let count = (self.tb_n_insns)(tb);
            (0..count).map(move |i| (self.tb_get_insn)(tb, i))
        }
    }

    /// Appends an instruction's bytes to `out`.
    pub fn bytes(&self, insn: Insn, out: &mut Vec<u8>) {
        // SAFETY: `insn` belongs to the block being translated; QEMU holds `size` bytes of it.
        unsafe {
            let size = (self.insn_size)(insn);
            let at = out.len();
            out.resize(at + size, 0);
            if self.version >= COPIES_BYTES {
                (self.insn_data)(insn, out[at..].as_mut_ptr().cast(), size);
            } else {
                // Before version 3 it takes the instruction only, and returns where the bytes are.
                type Older = unsafe extern "C" fn(Insn) -> *const u8;
                let older: Older = std::mem::transmute(self.insn_data);
                let from = older(insn);
                if !from.is_null() {
                    out[at..].copy_from_slice(std::slice::from_raw_parts(from, size));
                }
            }
        }
    }

    /// Where an instruction's bytes are for QEMU, less where they are for the program: the guest's base.
    pub fn base(&self, insn: Insn) -> Option<u64> {
        // SAFETY: `insn` belongs to the block being translated.
        let (host, guest) = unsafe { ((self.insn_haddr)(insn), (self.insn_vaddr)(insn)) };
        (!host.is_null()).then(|| (host as u64).wrapping_sub(guest))
    }

    /// Log2 of an access's bytes.
    #[inline(always)]
    pub fn size_shift(&self, info: MemInfo) -> u32 {
        // SAFETY: `info` is what QEMU passed to the callback that asks.
        unsafe { (self.mem_size_shift)(info) }
    }

    /// Whether an access stores.
    #[inline(always)]
    pub fn is_store(&self, info: MemInfo) -> bool {
        // SAFETY: `info` is what QEMU passed to the callback that asks.
        unsafe { (self.mem_is_store)(info) }
    }
}

/// A C string of QEMU's, as text.
pub fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: QEMU passes strings that end in a zero byte.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}
