//! FreeBSD's buddy allocator, after sys/vm/vm_phys.c of FreeBSD 14.

use crate::{FrameCounts, lists::Lists};
use rustc_hash::FxHashSet;

/// The largest order: 16 MiB (`VM_NFREEORDER` is 13 in sys/amd64/include/vmparam.h).
pub const MAX_ORDER: u8 = 12;
/// `VM_NFREEPOOL`.
const POOLS: usize = 2;

/// What memory is for; the free lists of the two are apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Pool {
    /// Pages of programs and files (`VM_FREEPOOL_DEFAULT`).
    Default = 0,
    /// What the kernel reaches through its direct map: page tables (`VM_FREEPOOL_DIRECT`).
    Direct = 1,
}

impl Pool {
    const ALL: [Self; POOLS] = [Self::Default, Self::Direct];
}

/// Free blocks by order and pool.
pub struct VmPhys {
    lists: Lists,
    frames: u64,
    free: u64,
    /// Frames in use that came from the direct pool, to which they return.
    direct: FxHashSet<u32>,
}

impl VmPhys {
    /// Nothing free yet.
    pub fn new(frames: u64) -> Self {
        let lists = Lists::new((usize::from(MAX_ORDER) + 1) * POOLS);
        Self { lists, frames, free: 0, direct: FxHashSet::default() }
    }

    fn list(order: u8, pool: Pool) -> usize {
        usize::from(order) * POOLS + pool as usize
    }

    /// The pool a frame in use returns to.
    pub fn pool_of(&self, pfn: u32) -> Pool {
        if self.direct.contains(&pfn) { Pool::Direct } else { Pool::Default }
    }

    /// Frames free.
    pub fn free_frames(&self) -> u64 {
        self.free
    }

    /// Free blocks of exactly `order`.
    pub fn free_blocks(&self, order: u8) -> u64 {
        Pool::ALL.iter().map(|&p| self.lists.length(Self::list(order, p))).sum()
    }

    /// Free blocks of exactly `order` and one pool, as they would go out.
    pub fn blocks(&self, order: u8, pool: Pool) -> impl Iterator<Item = u32> {
        self.lists.blocks(Self::list(order, pool))
    }

    /// Frees `from..to` in the largest aligned blocks, in ascending order, without merging them with what is free
    /// around (`vm_phys_enqueue_contig`).
    pub fn free_range(&mut self, mut from: u32, to: u32) {
        while from < to {
            let order = from.trailing_zeros().min(u32::from(MAX_ORDER)).min((to - from).ilog2()) as u8;
            self.lists.push_tail(Self::list(order, Pool::Default), from);
            self.free += 1 << order;
            from += 1 << order;
        }
    }

    /// Takes the first block of the smallest order of its own pool that has one. Otherwise it takes the first block of
    /// the largest order of any pool (`vm_phys_alloc_freelist_pages`).
    pub fn take(&mut self, order: u8, pool: Pool, counts: &mut FrameCounts) -> Option<u32> {
        let has = |lists: &Lists, o: u8, p: Pool| lists.length(Self::list(o, p)) != 0;
        let own = (order..=MAX_ORDER).find(|&o| has(&self.lists, o, pool)).map(|o| (o, pool));
        let (from, list) = own.or_else(|| {
            let any = |o| Pool::ALL.into_iter().find(|&p| has(&self.lists, o, p)).map(|p| (o, p));
            let found = (order..=MAX_ORDER).rev().find_map(any);
            counts.steals += u64::from(found.is_some());
            found
        })?;
        let pfn = self.lists.head(Self::list(from, list))?;
        self.lists.remove(pfn);
        for half in (order..from).rev() {
            // `vm_phys_split_pages`: the upper half goes to the tail.
            self.lists.push_tail(Self::list(half, pool), pfn + (1 << half));
            counts.splits += 1;
        }
        self.free -= 1 << order;
        if pool == Pool::Direct {
            self.direct.extend(pfn..pfn + (1 << order));
        }
        Some(pfn)
    }

    /// Gives a block back, merging it with its free buddies, whichever pool they are in (`vm_phys_free_pages`).
    pub fn give(&mut self, pfn: u32, order: u8, counts: &mut FrameCounts) {
        let pool = self.pool_of(pfn);
        if pool == Pool::Direct {
            for frame in pfn..pfn + (1 << order) {
                self.direct.remove(&frame);
            }
        }
        self.free += 1 << order;
        let (mut pfn, mut order) = (pfn, order);
        while order < MAX_ORDER {
            let buddy = pfn ^ (1 << order);
            if self.lists.of(buddy).is_none_or(|list| list / POOLS != usize::from(order)) {
                break;
            }
            self.lists.remove(buddy);
            counts.merges += 1;
            pfn &= buddy;
            order += 1;
        }
        self.lists.push_tail(Self::list(order, pool), pfn);
    }

    /// The lowest aligned run of wholly free largest blocks that makes up `order`: its first frame.
    pub fn find_run(&self, order: u8) -> Option<u64> {
        let (step, run) = (1u64 << MAX_ORDER, 1u64 << order);
        let whole = |pfn: u64| self.lists.of(pfn as u32).is_some_and(|list| list / POOLS == usize::from(MAX_ORDER));
        let mut starts = (0..self.frames / run).map(|i| i * run);
        starts.find(|&s| (s..s + run).step_by(step as usize).all(whole))
    }

    /// The lowest aligned run of wholly free largest blocks that makes up `order`, taken (`vm_phys_alloc_contig`).
    pub fn take_run(&mut self, order: u8) -> Option<u32> {
        let (step, run) = (1u64 << MAX_ORDER, 1u64 << order);
        let start = self.find_run(order)?;
        for pfn in (start..start + run).step_by(step as usize) {
            self.lists.remove(pfn as u32);
        }
        self.free -= run;
        Some(start as u32)
    }
}
