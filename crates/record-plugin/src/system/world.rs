//! The guest's processes and threads, and the one that runs. A process is recognised by the root of its page table, a
//! thread by its kernel stack.

use super::{
    arch::Arch,
    frames::SeenFrames,
    numbers::{EXECVE, EXECVEAT},
    ram::Ram,
};
use crate::{session::say, slots, thread};
use mmulab_addr::{BASE_BYTES, PageOrder, Pid, Prot, Tid, VirtAddr};
use mmulab_record::Message;
use mmulab_trace::{Backing, Event, MapFlags};
use rustc_hash::FxHashMap;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
};

/// log2 of the bytes of a kernel stack, which is aligned. It is 16 KiB, or a base page if that is larger (THREAD_SIZE
/// of arch/x86/include/asm/page_64_types.h and arch/arm64/include/asm/memory.h).
static STACK_SHIFT: AtomicU32 = AtomicU32::new(14);

/// Kernel stacks are those of a kernel with base pages of this size.
pub fn set_stacks(base: PageOrder) {
    STACK_SHIFT.fetch_max(base.shift(), Ordering::Relaxed);
}

/// Address spaces remembered, for those whose process is not known yet.
const ROOTS: usize = 4096;
/// QEMU's number of the only CPU.
pub const CPU: u32 = 0;
/// The upper half is the kernel's, but for the last page.
const KERNEL_END: u64 = 0xffff_ffff_ffff_f000;

/// A process, by a number of our own.
pub type Id = u32;

/// A process of the guest.
#[derive(Default)]
pub struct Process {
    pub root: u64,
    /// Its number in the guest, once it is known.
    pub guest: Option<u32>,
    /// Its number in the trace, if it is recorded.
    pub number: Option<u32>,
    /// The thread of it that was told first, and those told.
    first: u32,
    /// The thread that ran last.
    last: u64,
    /// Whether its executions and forks are followed into the trace.
    pub recorded: bool,
    /// Files it has open.
    pub files: BTreeMap<i32, String>,
    pub heap: Option<u64>,
    /// Shared memory it has attached: how many bytes, by address.
    pub attached: BTreeMap<u64, u64>,
    pub told: SeenFrames,
    pub ended: bool,
    /// It has the memory of the program it is to be, of which nothing was told yet.
    pub executing: bool,
}

/// What of the present is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Recorded {
    Nothing,
    All,
    /// All but references to programs' memory.
    Kernel,
    /// All but references to the kernel's memory. Some come while programs run. If a function of QEMU's (XSAVE) makes
    /// the accesses of a program's last instruction, QEMU calls for that instruction when the function serves the
    /// kernel.
    Programs,
}

/// A system call that a thread is in.
#[derive(Clone)]
pub struct Inside {
    /// Where its registers are.
    pub at: u64,
    pub number: u64,
    pub args: [u64; 6],
    /// The text its first path argument had.
    pub path: Option<String>,
}

/// A thread, by its kernel stack.
#[derive(Default)]
pub struct Thread {
    pub process: Id,
    /// Its number in the trace; 0 before it ran there.
    tid: u32,
    pub inside: Option<Inside>,
}

/// A process that is being made, by the thread `maker`, and did not run yet.
pub struct Coming {
    pub maker: u64,
    pub shares_memory: bool,
    /// Who it became.
    pub became: Option<Id>,
    /// Its number in the guest, if its maker learned it first.
    pub guest: Option<u32>,
}

/// All that is known.
pub struct World {
    pub arch: Arch,
    pub ram: Ram,
    pub root: u64,
    /// The kernel stack in use.
    pub stack: u64,
    roots: Vec<u64>,
    pub processes: BTreeMap<Id, Process>,
    pub spaces: FxHashMap<u64, Id>,
    pub threads: FxHashMap<u64, Thread>,
    pub coming: Vec<Coming>,
    pub kernel: SeenFrames,
    /// Bytes of the segments of System V shared memory, by their numbers.
    pub segments: BTreeMap<u64, u64>,
    next_id: Id,
    next_number: u32,
    next_tid: u32,
    pub begun: bool,
    with_kernel: bool,
    /// Who the launcher believes to run.
    running: Option<(u32, u32)>,
}

/// The stack that an address on it belongs to.
pub fn stack_of(address: u64) -> u64 {
    address >> STACK_SHIFT.load(Ordering::Relaxed)
}

impl World {
    /// The world as the agent's first word finds it: the agent runs, and nothing else is known.
    pub fn new(arch: Arch, ram: Ram, root: u64, stack: u64, with_kernel: bool) -> Self {
        let mut this = Self {
            arch,
            ram,
            root,
            stack,
            roots: vec![root],
            processes: BTreeMap::new(),
            spaces: FxHashMap::default(),
            threads: FxHashMap::default(),
            coming: Vec::new(),
            kernel: SeenFrames::default(),
            segments: BTreeMap::new(),
            next_id: 0,
            next_number: 1,
            next_tid: 1,
            begun: false,
            with_kernel,
            running: None,
        };
        let agent = this.new_process(root, Process::default());
        this.threads.insert(stack, Thread { process: agent, ..Thread::default() });
        this
    }

    pub fn new_process(&mut self, root: u64, process: Process) -> Id {
        let id = self.next_id;
        self.next_id += 1;
        self.processes.insert(id, Process { root, ..process });
        self.spaces.insert(root, id);
        id
    }

    /// The process that runs.
    pub fn acting(&self) -> Option<Id> {
        match self.threads.get(&self.stack) {
            Some(thread) => Some(thread.process),
            // A thread of the kernel's runs in whatever address space there is.
            None => self.spaces.get(&self.root).copied(),
        }
    }

    /// Another root of page tables was loaded.
    pub fn root_loaded(&mut self, root: u64) {
        if self.arch == Arch::Arm64 && self.ram.is_empty(root) {
            return;
        }
        self.root = root;
        self.roots.retain(|&r| r != root);
        if self.roots.len() >= ROOTS {
            self.roots.remove(0);
        }
        self.roots.push(root);
        let executes = self.threads.get(&self.stack).filter(|t| t.inside.as_ref().is_some_and(Inside::executes));
        let is_awaited = self.coming.iter().any(|c| c.became.is_none() && !c.shares_memory);
        if let Some(thread) = executes
            && !self.spaces.contains_key(&root)
            && !is_awaited
        {
            let id = thread.process;
            self.moves_to(id, root);
            if let Some(process) = self.processes.get_mut(&id) {
                process.executing = true;
            }
        }
    }

    /// The process has another address space from here on.
    pub fn moves_to(&mut self, id: Id, root: u64) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        let old = std::mem::replace(&mut process.root, root);
        if old != root && self.spaces.get(&old) == Some(&id) {
            self.spaces.remove(&old);
            // One that only borrowed it leaves it to its owner.
            if let Some((&owner, _)) = self.processes.iter().find(|(_, p)| p.root == old && !p.ended) {
                self.spaces.insert(old, owner);
            }
        }
        self.spaces.insert(root, id);
    }

    /// The address space, of those seen, in which `address` lies in frame `pfn`.
    pub fn root_with(&self, address: u64, pfn: u64) -> Option<u64> {
        let mut seen = self.roots.iter().rev();
        seen.find(|&&root| self.ram.translate(root, address).is_some_and(|(at, _)| at >> 12 == pfn)).copied()
    }

    /// The kernel goes on on another stack.
    pub fn switched_to(&mut self, stack: u64) {
        self.stack = stack;
        let owner = self.spaces.get(&self.root).copied();
        if let Some(thread) = self.threads.get(&stack) {
            // A thread runs in its process's address space; one that ended leaves its stack to another.
            if self.processes.get(&thread.process).is_some_and(|p| !p.ended && p.root == self.root) {
                return;
            }
            self.threads.remove(&stack);
        }
        // A process that was made has memory of its own, which nobody had before; threads of the kernel's have none.
        let is_new = owner.is_none_or(|id| self.processes[&id].ended);
        if is_new && let Some(at) = self.coming.iter().position(|c| c.became.is_none() && !c.shares_memory) {
            self.comes(at, stack);
        }
    }

    fn comes(&mut self, at: usize, stack: u64) {
        let Coming { maker, shares_memory, guest, .. } = self.coming[at];
        let Some(maker) = self.threads.get(&maker).map(|t| t.process) else { return };
        let from = &self.processes[&maker];
        let (recorded, files, heap, told) = (from.recorded, from.files.clone(), from.heap, from.told.clone());
        let attached = from.attached.clone();
        let copy = Process { guest, recorded, files, heap, attached, told, ..Process::default() };
        let id = self.new_process(self.root, copy);
        if recorded && self.begun {
            let child = Pid(self.number(id));
            self.emit(maker, vec![Event::Fork { child, shares_memory }]);
        }
        self.threads.insert(stack, Thread { process: id, ..Thread::default() });
        match guest {
            Some(_) => drop(self.coming.remove(at)),
            None => self.coming[at].became = Some(id),
        }
    }

    /// The kernel is about to return to a program: whoever it is, it is a thread.
    pub fn returns(&mut self, stack: u64) {
        self.stack = stack;
        let Some(&process) = self.spaces.get(&self.root) else { return };
        if let Some(thread) = self.threads.get(&stack)
            && self.processes.get(&thread.process).is_some_and(|p| !p.ended && p.root == self.root)
        {
            return;
        }
        // One that borrows its maker's memory, which waits for it, or else a thread.
        let of = |c: &Coming| self.threads.get(&c.maker).map(|t| t.process);
        let borrower = |c: &Coming| c.became.is_none() && c.shares_memory && of(c) == Some(process);
        if let Some(at) = self.coming.iter().position(borrower) {
            self.comes(at, stack);
        } else {
            self.threads.insert(stack, Thread { process, ..Thread::default() });
        }
    }

    /// The process's number in the trace; it gets one if it has none.
    pub fn number(&mut self, id: Id) -> u32 {
        let next = &mut self.next_number;
        let Some(process) = self.processes.get_mut(&id) else { return 0 };
        *process.number.get_or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }

    /// Tells events of a process, whoever runs.
    pub fn emit(&mut self, id: Id, events: Vec<Event>) {
        let Some(process) = self.processes.get(&id).filter(|p| p.recorded && self.begun) else { return };
        let stack = if self.acting() == Some(id) { self.stack } else { process.last };
        self.runs(id, stack);
        thread::publish_all(CPU);
        if let Some(slot) = slots::number(CPU) {
            say(slot, &Message::Events(events));
        }
    }

    /// Has the launcher know that this process runs, by the thread of this stack, or by any.
    fn runs(&mut self, id: Id, stack: u64) {
        let number = self.number(id);
        let mut new = None;
        let next = &mut self.next_tid;
        let Some(process) = self.processes.get_mut(&id) else { return };
        let mut take = || {
            *next += 1;
            *next - 1
        };
        let tid = match self.threads.get_mut(&stack).filter(|t| t.process == id) {
            Some(thread) if thread.tid != 0 => thread.tid,
            Some(thread) => {
                thread.tid = if process.first == 0 { take() } else { *new.insert(take()) };
                thread.tid
            }
            None if process.first == 0 => take(),
            None => process.first,
        };
        if process.first == 0 {
            process.first = tid;
            // A thread of the process that is met later takes over this number if nobody has it yet.
            if let Some(thread) = self.threads.values_mut().find(|t| t.process == id && t.tid == 0) {
                thread.tid = tid;
            }
        }
        process.last = stack;
        let first = process.first;
        let Some(slot) = slots::number(CPU) else { return };
        if let Some(child) = new {
            thread::publish_all(CPU);
            say(slot, &Message::Runs { pid: number, tid: first });
            say(slot, &Message::Events(vec![Event::Clone { child: Tid(child) }]));
            self.running = Some((number, first));
        }
        if self.running != Some((number, tid)) {
            thread::publish_all(CPU);
            say(slot, &Message::Runs { pid: number, tid });
            self.running = Some((number, tid));
        }
    }

    /// After any change: which part of what runs now is recorded. The launcher gets its process and thread.
    pub fn choose_recorded(&mut self) -> Recorded {
        let Some(id) = self.acting().filter(|_| self.begun) else { return Recorded::Nothing };
        let Some(process) = self.processes.get(&id).filter(|p| p.recorded && p.number.is_some()) else {
            return Recorded::Nothing;
        };
        // The kernel changes its own code in the lower half of an address space that is nobody's (text_poke).
        let is_own = process.root == self.root && !process.executing;
        let recorded = match (is_own, self.with_kernel) {
            (true, true) => Recorded::All,
            (true, false) => Recorded::Programs,
            (false, true) => Recorded::Kernel,
            (false, false) => Recorded::Nothing,
        };
        // A thread of the kernel's has no number of its own: it borrows that of the process whose memory it uses.
        let stack = if self.threads.contains_key(&self.stack) { self.stack } else { self.processes[&id].last };
        self.runs(id, stack);
        recorded
    }

    /// The events that a process's address space begins with: the kernel's half is the same in all.
    pub fn kernel_events(&self) -> Vec<Event> {
        if !self.with_kernel {
            return Vec::new();
        }
        let flags = MapFlags { shared: true, global: true, label: Some("[kernel]".into()), ..MapFlags::default() };
        vec![Event::Mmap {
            addr: VirtAddr::new(self.arch.kernel_start()),
            len: KERNEL_END - self.arch.kernel_start(),
            prot: Prot::RW.with(Prot::X),
            flags,
            backing: Backing::File { path: "[kernel]".into(), offset: 0 },
        }]
    }

    /// Tells where all pages of the process lie that was not told yet: it is about to end, or the recording is.
    pub fn tell_frames(&mut self, id: Id) {
        let Some(process) = self.processes.get_mut(&id).filter(|p| p.number.is_some()) else { return };
        let mapped = self.ram.mapped(process.root);
        let news = process.told.news(&mapped);
        let events = news.iter().map(|s| Event::Frames {
            addr: VirtAddr::new(s.address),
            pfn: mmulab_addr::Pfn(s.pfn),
            size: s.size(),
            count: s.count,
        });
        // A message has to fit in a buffer.
        let events: Vec<Event> = events.collect();
        for part in events.chunks(1024) {
            self.emit(id, part.to_vec());
        }
    }

    /// A page is referred to whose frame is not known to have been told: what there is to tell of it.
    pub fn page_used(&mut self, address: u64) -> Option<(u64, u64, u8)> {
        let (at, order) = self.ram.translate(self.root, address)?;
        let bytes = BASE_BYTES << order;
        let (first, pfn) = (address & !(bytes - 1), (at & !(bytes - 1)) >> 12);
        let told = if address >> 63 == 1 {
            &mut self.kernel
        } else {
            let id = *self.spaces.get(&self.root)?;
            &mut self.processes.get_mut(&id)?.told
        };
        // Numbers of pages of the upper half count from 0 there.
        let page = first << 7 >> 19;
        told.note(page, pfn, order).then_some((first, pfn, order))
    }
}

impl Inside {
    /// Whether the thread becomes another program.
    pub fn executes(&self) -> bool {
        matches!(self.number, EXECVE | EXECVEAT)
    }
}
