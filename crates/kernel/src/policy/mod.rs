//! Which size of page a fault maps: one module per policy.
//!
//! A policy is asked when nothing is mapped at an address. It answers with a size, and with the reason for not
//! answering with a larger one. What frames there are it does not know: the fault handler tries the answer, and counts
//! the refusal if no block is free.

mod hugetlb;
mod thp;

pub use hugetlb::Hugetlb;
pub use thp::Thp;

use crate::counts::Refusal;
use crate::freebsd::Freebsd;
use crate::vma::Vma;
use crate::{KernelDesc, KernelError, LinuxDesc, PolicyKind};
use mmulab_addr::PageOrder;

/// A fault on memory where nothing is mapped.
pub struct Ask<'a> {
    /// The mapping.
    pub vma: &'a Vma,
    /// Its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// The address that faulted.
    pub va: u64,
    /// The largest page whose aligned place around `va` is empty in the page table.
    pub room: PageOrder,
}

impl Ask<'_> {
    /// Whether the aligned page of `order` around the fault lies inside the mapping.
    pub fn fits(&self, order: PageOrder) -> bool {
        let base = self.va & !(order.bytes() - 1);
        base >= self.start && self.end - base >= order.bytes()
    }
}

/// A policy's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// A base page, and why nothing larger, if anything larger was thought of.
    Base(Option<Refusal>),
    /// A page of this order from the allocator.
    Large(PageOrder),
    /// A page of the pool.
    Pooled(PageOrder),
}

/// The policy of a run.
#[derive(Clone, Debug)]
pub enum Policy {
    /// Base pages only.
    Linux4k,
    /// Transparent huge pages.
    Thp(Thp),
    /// A pool of huge pages.
    Hugetlb(Hugetlb),
    /// FreeBSD's memory manager, which decides about sizes after pages are mapped.
    Freebsd(Freebsd),
}

impl Policy {
    /// The policy described.
    ///
    /// # Errors
    /// A section that the kind does not read, or one that it lacks.
    pub fn new(desc: &KernelDesc) -> Result<Self, KernelError> {
        let (machine, desc) = (desc, &desc.policy);
        let stray = |key: &str| {
            Err(KernelError::Description {
                key: key.into(),
                message: format!(
                    "policy '{}' is of another kind and has no use for this section: remove it",
                    desc.name
                ),
            })
        };
        if desc.kind == PolicyKind::Freebsd {
            let sections = [("thp", desc.thp.is_some()), ("hugetlb", desc.hugetlb.is_some())];
            if let Some((key, _)) = sections.into_iter().find(|s| s.1) {
                return stray(key);
            }
            check_freebsd(&desc.linux)?;
            let has_superpages = machine.table.has_leaf(PageOrder::P2M);
            let freebsd = desc.freebsd.clone().unwrap_or_default();
            return Freebsd::new(&freebsd, has_superpages, machine.memory.bytes()).map(Self::Freebsd);
        }
        if desc.freebsd.is_some() {
            return stray("freebsd");
        }
        match (desc.kind, &desc.thp, &desc.hugetlb) {
            (PolicyKind::Linux4k, None, None) => Ok(Self::Linux4k),
            (PolicyKind::LinuxThp, thp, None) => Thp::new(thp.clone().unwrap_or_default()).map(Self::Thp),
            (PolicyKind::Hugetlb, None, Some(hugetlb)) => Ok(Self::Hugetlb(Hugetlb::new(hugetlb.clone()))),
            (PolicyKind::Hugetlb, None, None) => Err(KernelError::Description {
                key: "hugetlb".into(),
                message: "a policy of kind 'hugetlb' needs this section: give at least size = \"2M\" and pool = \"1G\""
                    .into(),
            }),
            (PolicyKind::Freebsd, ..) => unreachable!("made above"),
            (_, Some(_), _) => stray("thp"),
            (_, _, Some(_)) => stray("hugetlb"),
        }
    }

    /// The size of page to map.
    #[inline]
    pub fn choose(&self, ask: &Ask) -> Choice {
        match self {
            Self::Linux4k | Self::Freebsd(_) => Choice::Base(None),
            Self::Thp(thp) => thp.choose(ask),
            Self::Hugetlb(hugetlb) => hugetlb.choose(ask),
        }
    }

    /// Where a brk heap that the program wants to end at `end` ends.
    pub fn heap_end(&self, end: u64) -> u64 {
        match self {
            Self::Hugetlb(hugetlb) => hugetlb.heap_end(end),
            Self::Linux4k | Self::Thp(_) | Self::Freebsd(_) => end,
        }
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
