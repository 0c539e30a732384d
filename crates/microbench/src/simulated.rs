//! The benchmark on a simulated machine.

use crate::{Counted, Kind, PageState, Plan, Target, TargetError};
use mmulab_addr::{BASE_BYTES, PageOrder, Prot, VirtAddr, Vpn};
use mmulab_machine::{Machine, Observation, Watch};
use mmulab_tlb::Entry;
use mmulab_trace::{Advice, Backing, Batch, Event, MapFlags, Ref};

/// Where the region lies: 2 MB aligned, away from everything.
const REGION: u64 = 0x4000_0000;

/// A machine that runs nothing else.
pub struct Simulated {
    machine: Machine,
    batch: Batch,
    sampler: Sampler,
    pages: u64,
}

/// Counts reloads as the hardware's counters do.
#[derive(Default)]
struct Sampler {
    counted: Counted,
    /// Level of each array.
    levels: Vec<u8>,
    /// Of the reference in progress: the first page that the first level was filled with, and whether it got more than
    /// that.
    first: Option<Vpn>,
    coalesced: bool,
}

impl Watch for Sampler {
    fn filled(&mut self, array: usize, entry: &Entry) {
        if self.levels.get(array) == Some(&1) {
            // Designs whose entries are no pages tell each page they hold. A page may be filled twice: from the L2, and
            // again after the walk that sets its dirty bit.
            let first = *self.first.get_or_insert(entry.vpn);
            self.coalesced |= first != entry.vpn || entry.order != PageOrder::P4K;
        }
    }

    fn reference(&mut self, seen: &Observation) {
        use mmulab_machine::Answer::{Hit, Miss};
        let coalesced = std::mem::take(&mut self.coalesced);
        self.first = None;
        // A larger page is none of the four.
        let larger = seen.seen.size >= PageOrder::P2M.bytes();
        let counter = match (seen.seen.l1, seen.seen.l2, coalesced) {
            (Miss, Hit, false) => &mut self.counted.l2_hit_4k,
            (Miss, Hit, true) => &mut self.counted.l2_hit_coalesced,
            (Miss, _, false) => &mut self.counted.l2_miss_4k,
            (Miss, _, true) => &mut self.counted.l2_miss_coalesced,
            _ => &mut 0,
        };
        *counter += u64::from(!larger);
    }
}

fn at(page: u64) -> VirtAddr {
    VirtAddr::new(REGION + page * BASE_BYTES)
}

impl Simulated {
    /// On `machine`, which has run nothing yet.
    pub fn new(machine: Machine) -> Self {
        let levels = machine.tlb_levels();
        Self { machine, batch: Batch::default(), sampler: Sampler { levels, ..Sampler::default() }, pages: 0 }
    }

    fn flush(&mut self) -> Result<(), TargetError> {
        self.machine.run_watched(&self.batch, &mut self.sampler);
        self.batch.clear();
        match self.machine.ended() {
            None => Ok(()),
            Some(ended) => {
                let report = ended.report();
                Err(TargetError(format!("the machine stopped ({}): {}", report.reason, report.message)))
            }
        }
    }

    fn event(&mut self, event: Event) -> Result<(), TargetError> {
        self.batch.push_event(event);
        self.flush()
    }

    /// Groups whose pages lie in memory as they must to coalesce.
    fn aligned_groups(&self, plan: &Plan) -> u64 {
        let pages = u64::from(plan.group);
        let frame = |page: u64| self.machine.leaf(at(page)).map(|leaf| leaf.translate(at(page)).0 / BASE_BYTES);
        let is_aligned = |group: &u64| {
            frame(group * pages).is_some_and(|first| {
                first % pages == 0 && (1..pages).all(|n| frame(group * pages + n) == Some(first + n))
            })
        };
        (0..plan.groups()).filter(is_aligned).count() as u64
    }
}

impl Target for Simulated {
    fn prepare(&mut self, plan: &Plan) -> Result<Option<String>, TargetError> {
        self.pages = plan.pages();
        let (addr, len) = (at(0), plan.region);
        let (prot, flags) = (Prot::RW, MapFlags::default());
        self.event(Event::Mmap { addr, len, prot, flags, backing: Backing::Anon })?;
        for page in 0..self.pages {
            self.batch.refs.push(Ref::write(at(page)));
        }
        self.flush()?;
        if plan.write_protect {
            self.event(Event::Mprotect { addr, len, prot: Prot::R })?;
        }
        self.event(Event::Madvise { addr, len, advice: Advice::Free })?;
        let mut left = (0..self.pages).filter_map(|page| self.machine.leaf(at(page)));
        if left.any(|leaf| leaf.accessed || leaf.dirty) {
            return Err(TargetError(
                "madvise left accessed or dirty bits set under this policy: choose one whose MADV_FREE clears them, \
                 such as freebsd-reserv or linux-4k"
                    .into(),
            ));
        }
        if (0..self.pages).any(|page| self.machine.leaf(at(page)).is_none_or(|leaf| leaf.order != PageOrder::P4K)) {
            return Err(TargetError(
                "the region is not mapped with base pages under this policy: choose one without larger pages, such as \
                 freebsd-reserv or linux-4k"
                    .into(),
            ));
        }
        let aligned = self.aligned_groups(plan);
        let all = plan.groups();
        Ok((aligned != all).then(|| {
            format!(
                "{aligned} of {all} groups lie aligned and contiguous in memory: under this policy that is \
                 coincidence; the others cannot coalesce"
            )
        }))
    }

    fn perform(&mut self, kind: Kind, page: u64) {
        match kind {
            Kind::Read => self.batch.refs.push(Ref::read(at(page))),
            Kind::Write => self.batch.refs.push(Ref::write(at(page))),
            Kind::Invalidate => self.batch.push_event(Event::Invlpg { addr: at(page) }),
        }
        if self.batch.is_full() {
            // What stops the machine stops the next sample too.
            let _ = self.flush();
        }
    }

    fn sample(&mut self) -> Result<Counted, TargetError> {
        self.flush()?;
        Ok(self.sampler.counted)
    }

    fn pages(&mut self) -> Result<Vec<PageState>, TargetError> {
        let state = |page| match self.machine.leaf(at(page)) {
            Some(leaf) => PageState { valid: true, accessed: Some(leaf.accessed), modified: Some(leaf.dirty) },
            None => PageState::default(),
        };
        Ok((0..self.pages).map(state).collect())
    }
}
