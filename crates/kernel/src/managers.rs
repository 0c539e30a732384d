//! The memory managers there are, and the one that a policy file describes.
//!
//! This is the only file that knows of both: each call of [`Manager`] is dispatched here, statically.

use crate::adviser::Advises;
use crate::clock::Due;
use crate::desc::{KernelDesc, PolicyDesc, PolicyKind};
use crate::freebsd::Freebsd;
use crate::linux::Linux;
use crate::linux::boot::{check, reserve};
use crate::linux::desc::{AdviceFlush, LinuxDesc};
use crate::manager::Manager;
use crate::memory::Memory;
use crate::memory::reservations::Reservations;
use crate::parts::base_page;
use crate::parts::contiguous::Contiguous;
use crate::parts::traits::Hole;
use crate::ranges::Span;
use crate::space::fork::ForkCopies;
use crate::space::range::PageRange;
use crate::space::system::SystemCx;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx};
use crate::{Fault, FaultError, KernelError};
use mmulab_addr::{PageOrder, VirtAddr};
use mmulab_frames::Allocator;
use mmulab_pagetable::Leaf;

/// The memory manager of a run.
pub(crate) enum MemoryManager {
    Linux(Box<Linux>),
    Freebsd(Box<Freebsd>),
}

impl MemoryManager {
    /// The manager that a policy file describes.
    ///
    /// # Errors
    /// A section that the kind does not read, or one that it lacks; values out of range.
    pub fn new(desc: &KernelDesc) -> Result<Self, KernelError> {
        let (table, memory, desc) = (&desc.table, &desc.memory, &desc.policy);
        only_sections_of_kind(desc)?;
        base_page::check(desc, table).map_err(|(key, message)| KernelError::Description { key, message })?;
        let linux = |linux: Linux| -> Result<Self, KernelError> {
            Ok(Self::Linux(Box::new(linux.with_text(desc, table)?.with_advice(desc, table))))
        };
        let manager = match desc.kind {
            PolicyKind::Freebsd => {
                check_freebsd(&desc.linux)?;
                let freebsd = desc.freebsd.clone().unwrap_or_default();
                let has_superpages = table.has_leaf(PageOrder::P2M);
                Freebsd::new(&freebsd, has_superpages, memory.bytes()).map(|freebsd| Self::Freebsd(Box::new(freebsd)))
            }
            PolicyKind::Linux4k => linux(Linux::base(&desc.linux)),
            PolicyKind::Linux => Linux::parts(desc, table, memory).and_then(linux),
            PolicyKind::LinuxThp => Linux::thp(desc, &desc.thp.clone().unwrap_or_default(), table).and_then(linux),
            PolicyKind::Hugetlb => match &desc.hugetlb {
                Some(pool) => Linux::hugetlb(&desc.linux, pool, table).and_then(linux),
                None => Err(KernelError::Description {
                    key: "hugetlb".into(),
                    message:
                        "a policy of kind 'hugetlb' needs this section: give at least size = \"2M\" and pool = \"1G\""
                            .into(),
                }),
            },
        }?;
        // FreeBSD reads a part of this section, too.
        check(&desc.linux)?;
        Ok(manager)
    }

    /// Takes an adviser that wants to be asked this.
    ///
    /// # Errors
    /// The manager cannot have one.
    pub fn take_adviser(&mut self, advises: Advises) -> Result<(), KernelError> {
        match self {
            Self::Linux(linux) => {
                if advises.ticks {
                    linux.tick_every(advises.period_ms);
                }
                Ok(())
            }
            Self::Freebsd(_) => Err(KernelError::Description {
                key: "kind".into(),
                message: "an adviser is asked by Linux: take a policy of a kind that is not \"freebsd\"".into(),
            }),
        }
    }

    /// Sets aside at boot what the manager keeps for itself.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn boot(&self, memory: &mut Memory, desc: &PolicyDesc) -> Result<(), KernelError> {
        match self {
            Self::Linux(_) => {
                let levels = desc.placement.as_ref().map_or(&[][..], |placement| &placement.levels);
                memory.reservations = Reservations::new(levels);
                desc.hugetlb.as_ref().map_or(Ok(()), |pool| reserve(memory, pool))
            }
            Self::Freebsd(freebsd) => {
                memory.reservations = freebsd.reservations();
                Ok(())
            }
        }
    }
}

/// Calls a method of the manager of the run.
macro_rules! each {
    ($self:ident, $manager:ident => $call:expr) => {
        match $self {
            MemoryManager::Linux($manager) => $call,
            MemoryManager::Freebsd($manager) => $call,
        }
    };
}

impl Manager for MemoryManager {
    fn allocator(&self) -> Allocator {
        each!(self, manager => manager.allocator())
    }

    fn flush_ceiling(&self) -> u64 {
        each!(self, manager => manager.flush_ceiling())
    }

    fn contiguous(&self) -> Contiguous {
        each!(self, manager => manager.contiguous())
    }

    fn advice_flush(&self) -> AdviceFlush {
        each!(self, manager => manager.advice_flush())
    }

    fn takes_hints(&self) -> bool {
        each!(self, manager => manager.takes_hints())
    }

    fn hint_sizes(&self) -> &[PageOrder] {
        each!(self, manager => manager.hint_sizes())
    }

    fn anonymous_is_code(&self) -> bool {
        each!(self, manager => manager.anonymous_is_code())
    }

    fn fork_copies(&self) -> ForkCopies {
        each!(self, manager => manager.fork_copies())
    }

    fn hints_guide_faults(&self) -> bool {
        each!(self, manager => manager.hints_guide_faults())
    }

    fn switched_on_at_start(&self) -> Option<&[u32]> {
        each!(self, manager => manager.switched_on_at_start())
    }

    fn wants_stores(&self) -> bool {
        each!(self, manager => manager.wants_stores())
    }

    fn heap_end(&self, end: u64) -> u64 {
        each!(self, manager => manager.heap_end(end))
    }

    #[inline]
    fn populate(&self, space: &mut AddressSpace, cx: &mut Cx, hole: &Hole) -> Result<Fault, FaultError> {
        each!(self, manager => manager.populate(space, cx, hole))
    }

    #[inline]
    fn store(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        span: &Span<Vma>,
        va: VirtAddr,
        leaf: Leaf,
    ) -> Result<Fault, FaultError> {
        each!(self, manager => manager.store(space, cx, span, va, leaf))
    }

    fn free(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError> {
        each!(self, manager => manager.free(space, cx, pages))
    }

    fn will_need(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange) {
        each!(self, manager => manager.will_need(space, cx, pages));
    }

    fn mapped(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError> {
        each!(self, manager => manager.mapped(space, cx, pages))
    }

    fn collapse(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError> {
        each!(self, manager => manager.collapse(space, cx, pages))
    }

    #[inline]
    fn before_fault(&mut self, system: &mut SystemCx, slot: usize, va: VirtAddr) -> bool {
        each!(self, manager => manager.before_fault(system, slot, va))
    }

    fn after_fault(&mut self, system: &mut SystemCx, va: VirtAddr) {
        each!(self, manager => manager.after_fault(system, va));
    }

    #[inline]
    fn wakes_at(&self) -> Option<u64> {
        each!(self, manager => manager.wakes_at())
    }

    fn wake(&mut self, system: &mut SystemCx, due: Due) -> Result<(), KernelError> {
        each!(self, manager => manager.wake(system, due))
    }
}

/// Refuses sections that the kind of a policy does not read.
fn only_sections_of_kind(desc: &PolicyDesc) -> Result<(), KernelError> {
    let kind = desc.kind;
    let sections = [
        ("thp", desc.thp.is_some(), kind == PolicyKind::LinuxThp),
        ("hugetlb", desc.hugetlb.is_some(), kind == PolicyKind::Hugetlb),
        ("freebsd", desc.freebsd.is_some(), kind == PolicyKind::Freebsd),
        ("fault", desc.fault.is_some(), kind == PolicyKind::Linux),
        ("placement", desc.placement.is_some(), kind == PolicyKind::Linux),
        ("promotion", desc.promotion.is_some(), kind == PolicyKind::Linux),
        ("zeroing", desc.zeroing.is_some(), kind == PolicyKind::Linux),
        ("demotion", desc.demotion.is_some(), kind == PolicyKind::Linux),
        ("reclaim", desc.reclaim.is_some(), kind == PolicyKind::Linux),
        ("contiguous", desc.contiguous.is_some(), matches!(kind, PolicyKind::Linux | PolicyKind::LinuxThp)),
        ("hints", desc.hints.is_some(), kind == PolicyKind::Linux),
        ("text", desc.text.is_some(), kind.is_linux()),
    ];
    match sections.into_iter().find(|(_, is_there, is_read)| *is_there && !is_read) {
        None => Ok(()),
        Some((key, ..)) => Err(KernelError::Description {
            key: key.into(),
            message: format!("policy '{}' is of another kind and has no use for this section: remove it", desc.name),
        }),
    }
}

/// Of the `linux` section, what FreeBSD does otherwise must be left alone.
fn check_freebsd(linux: &LinuxDesc) -> Result<(), KernelError> {
    let default = LinuxDesc::default();
    let changed = [
        ("fault_around", linux.fault_around != default.fault_around, "freebsd.cluster and freebsd.prefault"),
        ("read_around", linux.read_around != default.read_around, "freebsd.cluster"),
        ("largest_read", linux.largest_read != default.largest_read, "nothing: FreeBSD reads nothing ahead of time"),
        (
            "prefaulted_accessed",
            linux.prefaulted_accessed != default.prefaulted_accessed,
            "freebsd.prefaulted_accessed",
        ),
        ("zero_page", linux.zero_page != default.zero_page, "nothing: FreeBSD has no zero page"),
        ("advice_flush", linux.advice_flush != default.advice_flush, "nothing: FreeBSD flushes each mapping by itself"),
        ("flush_ceiling", linux.flush_ceiling != default.flush_ceiling, "freebsd.flush_ceiling"),
    ];
    match changed.into_iter().find(|c| c.1) {
        None => Ok(()),
        Some((key, _, instead)) => Err(KernelError::Description {
            key: format!("linux.{key}"),
            message: format!("FreeBSD has no use for it: remove it, and set {instead}"),
        }),
    }
}
