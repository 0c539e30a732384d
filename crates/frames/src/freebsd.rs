//! Physical memory as FreeBSD hands it out: `vm_phys` behind per-CPU caches of base frames.

use crate::{
    FrameCounts,
    vm_phys::{MAX_ORDER, Pool, VmPhys},
};

/// Free base frames kept by one processor, one bucket for each pool (`vm_pgcache` in sys/vm/vm_page.c); the last one is
/// the next to go out (`cache_alloc_item` in sys/vm/uma_core.c).
#[derive(Default)]
struct PerCpu {
    buckets: [Vec<u32>; 2],
}

/// Buckets full of freed frames a processor keeps before one goes back: UMA has one to allocate from and one to free
/// to.
const KEPT_BUCKETS: usize = 2;

/// FreeBSD's free memory.
pub struct FreebsdFrames {
    pub phys: VmPhys,
    cpus: Vec<PerCpu>,
    bucket: usize,
}

impl FreebsdFrames {
    pub fn new(phys: VmPhys, cpus: u16, bucket: u32) -> Self {
        let cpus = (0..cpus.max(1)).map(|_| PerCpu::default()).collect();
        Self { phys, cpus, bucket: bucket.max(1) as usize }
    }

    #[inline]
    pub fn alloc(&mut self, order: u8, pool: Pool, cpu: u16, counts: &mut FrameCounts) -> Option<u32> {
        if order > MAX_ORDER {
            return None;
        }
        if order == 0 {
            return self.of_bucket(pool, cpu, counts);
        }
        self.phys.take(order, pool, counts).or_else(|| {
            self.drain(counts);
            self.phys.take(order, pool, counts)
        })
    }

    fn of_bucket(&mut self, pool: Pool, cpu: u16, counts: &mut FrameCounts) -> Option<u32> {
        let cpu = usize::from(cpu) % self.cpus.len();
        if self.cpus[cpu].buckets[pool as usize].is_empty() {
            // `vm_page_zone_import` fills a bucket in ascending order; it is emptied from its end, so that frames go
            // out in descending order.
            counts.refills += 1;
            for _ in 0..self.bucket {
                let Some(pfn) = self.phys.take(0, pool, counts) else { break };
                self.cpus[cpu].buckets[pool as usize].push(pfn);
            }
        }
        if self.cpus[cpu].buckets[pool as usize].is_empty() {
            self.drain(counts);
            return self.phys.take(0, pool, counts);
        }
        self.cpus[cpu].buckets[pool as usize].pop()
    }

    #[inline]
    pub fn free(&mut self, pfn: u32, order: u8, cpu: u16, counts: &mut FrameCounts) {
        if order > MAX_ORDER {
            for part in (pfn..pfn + (1 << order)).step_by(1 << MAX_ORDER) {
                self.phys.give(part, MAX_ORDER, counts);
            }
            return;
        }
        if order > 0 {
            self.phys.give(pfn, order, counts);
            return;
        }
        let pool = self.phys.pool_of(pfn);
        let cpu = usize::from(cpu) % self.cpus.len();
        let bucket = &mut self.cpus[cpu].buckets[pool as usize];
        bucket.push(pfn);
        if bucket.len() > KEPT_BUCKETS * self.bucket {
            counts.reliefs += 1;
            // The full bucket that has waited longest goes back.
            let old: Vec<u32> = bucket.drain(..self.bucket).collect();
            for pfn in old {
                self.phys.give(pfn, 0, counts);
            }
        }
    }

    /// Empties every bucket.
    pub fn drain(&mut self, counts: &mut FrameCounts) {
        for cpu in &mut self.cpus {
            for pfn in cpu.buckets.iter_mut().flat_map(|b| b.drain(..)) {
                self.phys.give(pfn, 0, counts);
            }
        }
    }

    /// Frames in buckets.
    pub fn held(&self) -> u64 {
        self.cpus.iter().flat_map(|c| &c.buckets).map(|b| b.len() as u64).sum()
    }
}
