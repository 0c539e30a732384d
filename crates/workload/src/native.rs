//! Real memory: the same algorithm as a program of its own, whose recording can be held against the generator.

use crate::{
    algorithm::Algorithm,
    layout::Region,
    memory::{Array, Cell, Chain, Kept, Memory, Setup, Word},
    program::Program,
    touched::touch,
};
use mmulab_addr::{Prot, Tid};
use std::{
    io, ptr,
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// A page that is unmapped when the data are ready and the algorithm begins. A recording contains this event, so that a
/// reader knows which references are the algorithm's.
pub const GATE: u64 = 0xf_ffe0_0000;
const GATE_BYTES: usize = 4096;

/// Mappings at the addresses the generator tells of.
pub struct Native {
    regions: Vec<Region>,
}

impl Native {
    /// Maps `regions`.
    ///
    /// # Errors
    /// The system's, when one of them is taken or memory is short.
    fn new(regions: &[Region]) -> io::Result<Self> {
        let mut native = Self { regions: Vec::new() };
        for region in regions {
            map(region.base, region.bytes as usize)?;
            native.regions.push(*region);
        }
        Ok(native)
    }

    /// Address `at` as a pointer.
    #[inline(always)]
    fn pointer<T: Word>(&self, array: &Array<T>, index: u64) -> *mut T {
        assert!(index < array.len(), "element {index} of {}", array.len());
        ptr::with_exposed_provenance_mut(array.at(index) as usize)
    }
}

fn map(base: u64, bytes: usize) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let wanted = ptr::with_exposed_provenance_mut(base as usize);
    // SAFETY: MAP_FIXED_NOREPLACE maps nothing over what is there.
    let found = unsafe { libc::mmap(wanted, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if found == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if found.expose_provenance() != base as usize {
        return Err(io::Error::other(format!("{base:#x} cannot be mapped: a kernel before Linux 4.17")));
    }
    Ok(())
}

fn unmap(base: u64, bytes: usize) {
    // SAFETY: nothing is used of it any more, for only this module maps it.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(base as usize), bytes) };
}

impl Drop for Native {
    fn drop(&mut self) {
        self.regions.iter().for_each(|r| unmap(r.base, r.bytes as usize));
    }
}

impl Setup for Native {
    fn rows<const N: usize>(&mut self, rows: u64, row: impl Fn(u64) -> [Cell; N]) {
        (0..rows).flat_map(row).for_each(|cell| self.init(cell));
    }

    fn code(&mut self, chain: &Chain) {
        for i in 0..chain.functions {
            let next = (i + 1 < chain.functions).then(|| chain.at(i + 1));
            let bytes = machine::function(chain.at(i), next);
            let at = ptr::with_exposed_provenance_mut::<u8>(chain.at(i) as usize);
            // SAFETY: the function lies in a mapping of ours, which nothing else refers to and is writable as yet.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
        }
    }
}

/// Machine code of the functions of a chain.
#[cfg(target_arch = "x86_64")]
mod machine {
    /// The function at `at`: increments what the first argument points at, then goes on to `next` or returns.
    pub fn function(at: u64, next: Option<u64>) -> Vec<u8> {
        // inc qword ptr [rdi]
        let mut code = vec![0x48, 0xff, 0x07];
        match next {
            // jmp, its distance counted from its end
            Some(next) => {
                code.push(0xe9);
                code.extend(((next as i64 - at as i64 - 8) as i32).to_le_bytes());
            }
            // ret
            None => code.push(0xc3),
        }
        code
    }

    /// Whether there is code for this instruction set.
    pub const KNOWN: bool = true;
}

#[cfg(not(target_arch = "x86_64"))]
mod machine {
    /// None is known.
    pub fn function(_at: u64, _next: Option<u64>) -> Vec<u8> {
        Vec::new()
    }

    /// Whether there is code for this instruction set.
    pub const KNOWN: bool = false;
}

impl Memory for Native {
    #[inline(always)]
    fn block(&mut self, _site: u64, _instructions: u32) {}

    #[inline(always)]
    fn load<T: Word>(&mut self, array: Array<T>, index: u64, _value: impl FnOnce() -> T) -> T {
        // SAFETY: the array lies in a mapping of ours, and the index was checked.
        unsafe { self.pointer(&array, index).read_volatile() }
    }

    #[inline(always)]
    fn store<T: Word>(&mut self, array: Array<T>, index: u64, value: impl FnOnce() -> T) {
        // SAFETY: as above.
        unsafe { self.pointer(&array, index).write_volatile(value()) }
    }

    #[inline(always)]
    fn get<T: Word>(&mut self, kept: Kept<T>, index: u64) -> T {
        // SAFETY: as above.
        unsafe { self.pointer(&kept.array(), index).read_volatile() }
    }

    #[inline(always)]
    fn put<T: Word>(&mut self, kept: Kept<T>, index: u64, value: T) {
        // SAFETY: as above.
        unsafe { self.pointer(&kept.array(), index).write_volatile(value) }
    }

    #[inline(always)]
    fn init(&mut self, cell: Cell) {
        let at = ptr::with_exposed_provenance_mut::<u8>(cell.at as usize);
        // SAFETY: as above: the cell is an element of an array.
        unsafe {
            match cell.bytes {
                1 => at.write_volatile(cell.bits as u8),
                4 => at.cast::<u32>().write_volatile(cell.bits as u32),
                _ => at.cast::<u64>().write_volatile(cell.bits),
            }
        }
    }

    #[inline(always)]
    fn call(&mut self, chain: &Chain, local: Array<u64>) {
        let code: *const () = ptr::with_exposed_provenance(chain.at(0) as usize);
        // SAFETY: `code` wrote there what increments what it is given and returns; `run` refuses where it knows none.
        unsafe { std::mem::transmute::<*const (), extern "C" fn(*mut u64)>(code)(self.pointer(&local, 0)) }
    }
}

/// A program at work, by the threads that hold it in turn.
struct Work<A> {
    program: Program<A>,
    native: Native,
    /// The next round, how many there are at most, and whether all are done.
    at: u64,
    most: u64,
    over: bool,
}

impl<A: Algorithm> Work<A> {
    /// Does what is left of the turn that it is.
    fn do_turn(&mut self) {
        let turn = self.program.turn(self.at);
        let until = turn.end.min(self.most);
        let (done, goes_on) = self.program.run(turn, self.at, until, &mut self.native, |_| true);
        self.at += done;
        self.over = !goes_on || self.at >= self.most;
    }
}

/// What each thread does: its turns, until all is done.
fn take_turns<A: Algorithm>(work: &Mutex<Work<A>>, next: &Condvar, tid: Tid) {
    let mut held = work.lock().unwrap_or_else(PoisonError::into_inner);
    while !held.over {
        if held.program.turn(held.at).tid == tid {
            held.do_turn();
            next.notify_all();
        } else {
            held = next.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What a program did once its data were ready.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// Rounds of its outermost loop.
    pub rounds: u64,
    /// Time on a CPU that they took, of all its threads. Time of others on a busy computer does not count.
    pub cpu: Duration,
}

/// Time on a CPU that this process has had (`CLOCK_PROCESS_CPUTIME_ID`).
fn cpu_time() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written, and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

/// Runs all rounds of `program` in real memory.
///
/// # Errors
/// Its arrays cannot be mapped.
pub fn run<A: Algorithm>(mut program: Program<A>) -> io::Result<Done> {
    map(GATE, GATE_BYTES)?;
    let regions = program.layout().regions().to_vec();
    let mut native = Native::new(&regions).inspect_err(|_| unmap(GATE, GATE_BYTES))?;
    let code = regions.iter().filter(|r| r.prot == Prot::RX);
    if code.clone().next().is_some() && !machine::KNOWN {
        return Err(io::Error::other("its code is written for x86-64 alone"));
    }
    program.build();
    program.prepare(&mut native);
    for region in code {
        let start = ptr::with_exposed_provenance_mut(region.base as usize);
        // SAFETY: a mapping of ours, which is not written to from here on.
        if unsafe { libc::mprotect(start, region.bytes as usize, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    touch(&regions);
    unmap(GATE, GATE_BYTES);
    let begun = cpu_time();
    let (threads, most) = (program.threads(), program.rounds().unwrap_or(u64::MAX));
    let work = Mutex::new(Work { program, native, at: 0, most, over: most == 0 });
    let next = Condvar::new();
    std::thread::scope(|scope| {
        let (work, next) = (&work, &next);
        (2..=threads).for_each(|tid| drop(scope.spawn(move || take_turns(work, next, Tid(tid)))));
        take_turns(work, next, Tid(1));
    });
    let cpu = cpu_time().saturating_sub(begun);
    // The arrays are unmapped behind it.
    Ok(Done { rounds: work.into_inner().unwrap_or_else(PoisonError::into_inner).at, cpu })
}
