//! Physical memory as Linux hands it out: the zone's buddy allocator behind per-CPU lists.

use crate::{FrameCounts, Mobility, Rest, buddy::Buddy};

/// The largest order that per-CPU lists hold besides huge pages (PAGE_ALLOC_COSTLY_ORDER).
const COSTLY: u8 = 3;
/// Per-CPU lists: orders 0..=3 by mobility.
const PCP_LISTS: usize = (COSTLY as usize + 1) * Mobility::COUNT;
/// A per-CPU list is relieved when it holds this many batches (`pcp->high`, before it was tuned to the zone).
const HIGH_BATCHES: u32 = 6;

/// Free frames kept by one processor; the last one is the next to go out.
#[derive(Default)]
struct PerCpu {
    lists: [Vec<u32>; PCP_LISTS],
    /// Base frames in all of them.
    held: u32,
    /// Where the next relief begins.
    turn: usize,
}

/// Linux's free memory.
pub struct LinuxFrames {
    pub buddy: Buddy,
    cpus: Vec<PerCpu>,
    batch: u32,
    /// A per-CPU list with this many frames gives some back.
    high: u32,
}

impl LinuxFrames {
    pub fn new(buddy: Buddy, cpus: u16, batch: u32) -> Self {
        let cpus = (0..cpus.max(1)).map(|_| PerCpu::default()).collect();
        Self { buddy, cpus, batch, high: HIGH_BATCHES * batch }
    }

    /// Has processors keep free blocks that memory was found with, a part of each list each, the first to go out first.
    /// What a processor was seen to keep it may keep.
    pub fn keep(&mut self, order: u8, mobility: Mobility, blocks: &[u32]) {
        let share = blocks.len().div_ceil(self.cpus.len()).max(1);
        for (cpu, part) in self.cpus.iter_mut().zip(blocks.chunks(share)) {
            let list = &mut cpu.lists[usize::from(order) * Mobility::COUNT + mobility as usize];
            list.extend(part.iter().rev());
            cpu.held += (part.len() as u32) << order;
            self.high = self.high.max(cpu.held + self.batch);
        }
    }

    #[inline]
    pub fn alloc(&mut self, order: u8, mobility: Mobility, cpu: u16, counts: &mut FrameCounts) -> Option<u32> {
        if order <= COSTLY {
            self.of_list(order, mobility, cpu, counts)
        } else {
            self.of_buddy(order, mobility, counts)
        }
    }

    #[inline]
    pub fn free(&mut self, pfn: u32, order: u8, cpu: u16, counts: &mut FrameCounts) {
        if order > self.buddy.max_order() {
            let step = 1 << self.buddy.max_order();
            for part in (pfn..pfn + (1 << order)).step_by(step) {
                self.buddy.give(part, self.buddy.max_order(), false, Rest::Usual, counts);
            }
            return;
        }
        let mobility = self.buddy.block_of(pfn);
        if order > COSTLY {
            self.buddy.give(pfn, order, mobility == Mobility::Movable, Rest::Usual, counts);
            return;
        }
        let cpu = usize::from(cpu) % self.cpus.len();
        let mine = &mut self.cpus[cpu];
        mine.lists[usize::from(order) * Mobility::COUNT + mobility as usize].push(pfn);
        mine.held += 1 << order;
        if mine.held >= self.high {
            self.relieve(cpu, counts);
        }
    }

    #[inline]
    fn of_list(&mut self, order: u8, mobility: Mobility, cpu: u16, counts: &mut FrameCounts) -> Option<u32> {
        let cpu = usize::from(cpu) % self.cpus.len();
        let list = usize::from(order) * Mobility::COUNT + mobility as usize;
        if self.cpus[cpu].lists[list].is_empty() {
            self.refill(cpu, order, mobility, list, counts);
        }
        if self.cpus[cpu].lists[list].is_empty() {
            // What other lists keep may merge to what is wanted (`drain_all_pages`).
            self.drain(counts);
            self.refill(cpu, order, mobility, list, counts);
        }
        let mine = &mut self.cpus[cpu];
        let pfn = mine.lists[list].pop()?;
        mine.held -= 1 << order;
        Some(pfn)
    }

    fn of_buddy(&mut self, order: u8, mobility: Mobility, counts: &mut FrameCounts) -> Option<u32> {
        if order > self.buddy.max_order() {
            return None;
        }
        self.buddy.take(order, mobility, counts).or_else(|| {
            self.drain(counts);
            self.buddy.take(order, mobility, counts)
        })
    }

    /// `rmqueue_bulk`: the first block taken is the first to go out.
    #[cold]
    fn refill(&mut self, cpu: usize, order: u8, mobility: Mobility, list: usize, counts: &mut FrameCounts) {
        counts.refills += 1;
        for _ in 0..(self.batch >> order).max(2) {
            match self.buddy.take(order, mobility, counts) {
                Some(pfn) => {
                    self.cpus[cpu].lists[list].push(pfn);
                    self.cpus[cpu].held += 1 << order;
                }
                None => break,
            }
        }
        self.cpus[cpu].lists[list].reverse();
    }

    /// `free_pcppages_bulk`: a batch goes back, oldest first, the lists taking turns.
    #[cold]
    fn relieve(&mut self, cpu: usize, counts: &mut FrameCounts) {
        counts.reliefs += 1;
        let mut left = self.batch;
        let mine = &mut self.cpus[cpu];
        while left > 0 && mine.held > 0 {
            let turn = mine.turn % PCP_LISTS;
            mine.turn = turn + 1;
            if mine.lists[turn].is_empty() {
                continue;
            }
            let order = (turn / Mobility::COUNT) as u8;
            let movable = turn % Mobility::COUNT == Mobility::Movable as usize;
            let take = mine.lists[turn].len().min((left >> order).max(1) as usize);
            for pfn in mine.lists[turn].drain(..take) {
                self.buddy.give(pfn, order, movable, Rest::Usual, counts);
                mine.held -= 1 << order;
                left = left.saturating_sub(1 << order);
            }
        }
    }

    /// Empties every per-CPU list.
    pub fn drain(&mut self, counts: &mut FrameCounts) {
        for cpu in 0..self.cpus.len() {
            while self.cpus[cpu].held > 0 {
                self.relieve(cpu, counts);
            }
        }
    }

    /// Frames in per-CPU lists.
    pub fn held(&self) -> u64 {
        self.cpus.iter().map(|c| u64::from(c.held)).sum()
    }
}
