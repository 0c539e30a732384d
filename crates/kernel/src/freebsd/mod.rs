//! FreeBSD's memory manager: objects, reservations, clustered faults and superpage promotion.
//!
//! Sources: sys/vm/vm_reserv.c, sys/vm/vm_fault.c, sys/vm/vm_object.c and sys/amd64/amd64/pmap.c of FreeBSD 14, and
//! Solomon, Zhou and Cox, "An Empirical Evaluation of PTE Coalescing" (paper 1), section 2.2.
//! `docs/concepts/freebsd.md` lists the parts that are modelled and those that are not.

mod advise;
mod code;
mod desc;
mod fault;
mod file;
mod padding;
mod promote;
mod quicksilver;
mod resident;
mod threshold;

pub use code::{CodeDesc, Padding, ShareTables};
pub use desc::FreebsdDesc;
pub use quicksilver::QuicksilverDesc;
pub use threshold::Threshold;

use crate::clock::Due;
use crate::manager::Manager;
use crate::memory::reservations::Reservations;
use crate::parts::demotion::at_store::AtStore;
use crate::parts::placement::reservation::Reservation;
use crate::parts::promotion::{PromotionKind, Promotions};
use crate::parts::settings::PromotionSettings;
use crate::parts::traits::{Daemon, Hole, Promotion};
use crate::parts::zeroing::at_fault::AtFault;
use crate::ranges::Span;
use crate::report::counts::Refusal;
use crate::space::compaction::Compaction;
use crate::space::fork::ForkCopies;
use crate::space::range::PageRange;
use crate::space::system::SystemCx;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx};
use crate::{AdviceFlush, Fault, FaultError, KernelError};
use mmulab_addr::{PageOrder, VirtAddr};
use mmulab_frames::Allocator;
use mmulab_pagetable::Leaf;
use quicksilver::Quicksilver;

/// FreeBSD's memory manager.
#[derive(Debug)]
pub(crate) struct Freebsd {
    desc: FreebsdDesc,
    placement: Reservation,
    /// Off if the policy says so, or the page table has no leaves of 2 MiB: else contiguity is all that reservations
    /// give.
    promotion: Promotions,
    /// The same for code that the program makes, where a threshold asks for less than all: what is missing is zeroed.
    early: Promotions,
    zeroing: AtFault,
    demotion: AtStore,
    daemon: Option<Quicksilver>,
}

impl Freebsd {
    /// The manager described, on a page table that has leaves of 2 MiB or has not.
    ///
    /// # Errors
    /// Values out of range, or reservations that cannot be.
    pub fn new(desc: &FreebsdDesc, has_superpages: bool, memory_bytes: u64) -> Result<Self, KernelError> {
        let wrong =
            |key: &str, message: String| Err(KernelError::Description { key: format!("freebsd.{key}"), message });
        if desc.promotion && desc.levels.is_empty() {
            return wrong(
                "levels",
                "promotion needs reservations: give levels = [\"2M\"], or promotion = false".into(),
            );
        }
        if let Err(message) = Reservation::check(&desc.levels, memory_bytes) {
            return wrong("levels", message);
        }
        if desc.promotion && !desc.levels.iter().any(|&l| l >= PageOrder::P2M) {
            return wrong(
                "promotion",
                "pages of 2M are promoted, which no level is large enough for: add \"2M\"".into(),
            );
        }
        if !(1..=PageOrder::P2M.base_pages() as u32).contains(&desc.promotion_threshold) {
            return wrong("promotion_threshold", format!("{} is not between 1 and 512", desc.promotion_threshold));
        }
        if !desc.cluster.0.is_power_of_two() || !(4096..=PageOrder::P2M.bytes()).contains(&desc.cluster.0) {
            return wrong("cluster", "must be a power of two from 4K to 2M".into());
        }
        if !(1..=512).contains(&desc.bucket) {
            return wrong("bucket", format!("{} is not between 1 and 512", desc.bucket));
        }
        let cluster_pages = desc.cluster.0 / PageOrder::P4K.bytes();
        if let Some((key, message)) = desc.code.wrong(desc.promotion, cluster_pages) {
            return wrong(key, message);
        }
        let how = match desc.promotion && has_superpages {
            true => PromotionKind::InPlace,
            false => PromotionKind::ByDaemon,
        };
        let fills = desc.daemon.as_ref().is_some_and(|daemon| daemon.fill_threshold.is_some());
        if fills && !desc.promotion {
            return wrong("daemon.fill_threshold", "nothing is promoted: remove it, or set promotion = true".into());
        }
        let settings = PromotionSettings {
            size: PageOrder::P2M,
            threshold: desc.promotion_threshold,
            needs_accessed: desc.promotion_needs_accessed,
            takes_filled: fills,
        };
        let made = |settings: &PromotionSettings| Promotions::new(how, settings);
        let (promotion, early) = match (made(&settings), made(&PromotionSettings { threshold: 1, ..settings })) {
            (Ok(promotion), Ok(early)) => (promotion, early),
            (Err((_, message)), _) | (_, Err((_, message))) => return wrong("promotion", message),
        };
        let daemon = desc.daemon.as_ref().map(|daemon| Quicksilver::new(daemon, &desc.levels)).transpose();
        let daemon = match daemon {
            Ok(daemon) => daemon,
            Err(("", message)) => return wrong("daemon", message),
            Err((key, message)) => return wrong(&format!("daemon.{key}"), message),
        };
        let (zeroing, demotion) = (AtFault, AtStore);
        Ok(Self { desc: desc.clone(), placement: Reservation, promotion, early, zeroing, demotion, daemon })
    }

    /// Whether anything becomes a page of 2 MiB.
    fn has_superpages(&self) -> bool {
        self.promotion.is_on()
    }

    /// Its reservations, none of which is made yet.
    pub fn reservations(&self) -> Reservations {
        Reservations::new(&self.desc.levels)
    }
}

impl Manager for Freebsd {
    fn allocator(&self) -> Allocator {
        Allocator::Freebsd { bucket: self.desc.bucket }
    }

    fn flush_ceiling(&self) -> u64 {
        self.desc.flush_ceiling
    }

    fn anonymous_is_code(&self) -> bool {
        self.desc.code.anonymous
    }

    /// Each mapping flushes by itself.
    fn advice_flush(&self) -> AdviceFlush {
        AdviceFlush::Mapping
    }

    fn hint_sizes(&self) -> &[PageOrder] {
        &[]
    }

    fn hints_guide_faults(&self) -> bool {
        false
    }

    /// The advice divides mappings, as it does in the trace's kernel; no decision looks at it.
    fn takes_hints(&self) -> bool {
        true
    }

    fn heap_end(&self, end: u64) -> u64 {
        end
    }

    fn populate(&self, space: &mut AddressSpace, cx: &mut Cx, hole: &Hole) -> Result<Fault, FaultError> {
        self.map_hole(space, cx, hole)
    }

    fn store(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        span: &Span<Vma>,
        va: VirtAddr,
        leaf: Leaf,
    ) -> Result<Fault, FaultError> {
        let fault = self.write_protected(space, cx, span, va, leaf)?;
        self.promoted(space, cx, &span.value, va.align_down(PageOrder::P4K).raw(), fault)
    }

    fn free(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError> {
        self.advise_free(space, cx, pages)
    }

    /// Nothing is read (`vm_map_madvise` in sys/vm/vm_map.c).
    fn will_need(&self, _: &mut AddressSpace, _: &mut Cx, _: PageRange) {}

    fn fork_copies(&self) -> ForkCopies {
        self.desc.fork_copies
    }

    /// Code is mapped by the tables that other processes have for it (paper 2, section VI-B: exec-time pre-faulting).
    /// Then the pages in memory are entered.
    fn mapped(&self, space: &mut AddressSpace, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError> {
        let Some(span) = space.vmas.find(pages.start).cloned() else { return Ok(()) };
        let sizes = self.shared_table_sizes(space, &span.value);
        Self::join_tables(space, cx, &span, pages, &sizes)?;
        self.enter_resident(space, cx, &span, pages, &sizes)
    }

    /// There is no such advice.
    fn collapse(&self, _: &mut AddressSpace, cx: &mut Cx, pages: PageRange) -> Result<(), FaultError> {
        cx.refuse(Refusal::ThpNever, pages.start);
        Ok(())
    }

    fn before_fault(&mut self, _: &mut SystemCx, _: usize, _: VirtAddr) -> bool {
        false
    }

    fn after_fault(&mut self, _: &mut SystemCx, _: VirtAddr) {}

    fn wakes_at(&self) -> Option<u64> {
        self.daemon.as_ref().map(Daemon::wakes_at)
    }

    fn wake(&mut self, system: &mut SystemCx, due: Due) -> Result<(), KernelError> {
        match &mut self.daemon {
            Some(daemon) => match due.runs(daemon.wakes_at()) {
                // Reservations are emptied by themselves, without compaction of other memory.
                Some(now) => daemon.wake(system, &mut Compaction::default(), now),
                None => Ok(()),
            },
            None => Ok(()),
        }
    }
}
