//! Holds memory in pieces at random, so that the memory left for programs is as fragmented as was asked for. It is the
//! paper's memhog (paper 4, section 6), placed as `memory.fragment` of a simulated machine places it.
//!
//! It first takes all free memory, a page at a time. Then it reads the frame of each page, chooses pieces among the
//! frames, and gives the rest back. The held pages stay where they are: they are locked, and compaction is set to leave
//! them alone.

use crate::{
    plan::Memhog,
    processes::{FRAME, PAGE, PRESENT},
    tunables::tell_kernel,
};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use std::{fs, io, os::unix::fs::FileExt, ptr};

/// Left alone, in bytes: what the kernel needs for page tables.
const LEFT: u64 = 3 << 20;
/// Taken at a time at most, in bytes.
const STEP: u64 = 32 << 20;
/// The watermark below which the kernel would look for memory to free, in KiB; restored afterwards.
const LOW_WATERMARK_KB: &str = "256";
const WATERMARK: &str = "/proc/sys/vm/min_free_kbytes";
/// Memory of each zone that others must leave to it.
const RESERVES: &str = "/proc/sys/vm/lowmem_reserve_ratio";
const NO_RESERVES: &str = "0 0 0 0 0";
/// How much a CPU keeps of the pages given back, as one part in N of a zone. It is next to nothing, so that free pages
/// meet.
const KEPT: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";
const NONE_KEPT: &str = "1000000";
/// Entries of the page map read at a time.
const ENTRIES: usize = 4096;
const SEED: u128 = 0x6d65_6d68_6f67;
/// linux/mman.h; not in every libc crate.
const MADV_POPULATE_WRITE: libc::c_int = 23;
const MLOCK_ONFAULT: libc::c_uint = 1;

/// Holds `percent` of what is free in chunks at random places.
pub fn hold(how: Memhog) -> Result<(), String> {
    let during = [(WATERMARK, LOW_WATERMARK_KB), (RESERVES, NO_RESERVES), (KEPT, NONE_KEPT)];
    let before = during.map(|(path, _)| fs::read_to_string(path));
    for (path, value) in during {
        tell_kernel(path, value)?;
    }
    let held = Area::reserve(meminfo("MemTotal:")?)?;
    held.advise(0, held.bytes, libc::MADV_NOHUGEPAGE)?;
    // A child that is about to become another program has no use for it.
    held.advise(0, held.bytes, libc::MADV_DONTFORK)?;
    // They have their memory before there is none left.
    let mut lists = Lists::of((held.bytes / PAGE) as usize);
    let pages = (held.take_all()? / PAGE) as usize;
    lists.truncate(pages);
    held.frames(&mut lists.frames)?;
    lists.choose(how);
    let is_held = &lists.is_held;
    let mut first = 0;
    while first < pages {
        let run = is_held[first..].iter().take_while(|&&h| h == is_held[first]).count();
        if !is_held[first] {
            held.advise(first as u64 * PAGE, run as u64 * PAGE, libc::MADV_DONTNEED)?;
        }
        first += run;
    }
    // Given back, they would be the largest block there is.
    std::mem::forget(lists);
    held.lock()?;
    tell_kernel("/proc/sys/vm/compact_unevictable_allowed", "0")?;
    for ((path, _), value) in during.into_iter().zip(before) {
        tell_kernel(path, value.map_err(|e| format!("{path}: {e}"))?.trim())?;
    }
    Ok(())
}

/// What is known of each page that was taken.
struct Lists {
    frames: Vec<u64>,
    /// Pages in the order of their frames.
    by_frame: Vec<u32>,
    is_held: Vec<bool>,
}

impl Lists {
    /// Room for a number of pages, all of it written to: memory that is zero would not be there yet.
    fn of(pages: usize) -> Self {
        Self { frames: vec![u64::MAX; pages], by_frame: vec![u32::MAX; pages], is_held: vec![true; pages] }
    }

    fn truncate(&mut self, pages: usize) {
        self.frames.truncate(pages);
        self.by_frame.truncate(pages);
        self.is_held.truncate(pages);
    }

    /// Settles which pages are held, by their frames: chunks begin at frames chosen at random, until they are enough.
    fn choose(&mut self, how: Memhog) {
        let count = self.frames.len() as u64;
        let goal = count * how.percent / 100;
        let chunk = (how.chunk_kb * 1024 / PAGE).clamp(1, count.max(1));
        (0..).zip(&mut self.by_frame).for_each(|(page, place)| *place = page);
        self.by_frame.sort_unstable_by_key(|&page| self.frames[page as usize]);
        self.is_held.fill(false);
        let mut rng = Pcg64Mcg::new(SEED);
        let mut held = 0;
        while held < goal {
            let start = ((u128::from(rng.next_u64()) * u128::from(count - chunk + 1)) >> 64) as usize;
            for &page in &self.by_frame[start..start + chunk as usize] {
                let is_held = &mut self.is_held[page as usize];
                if held < goal && !*is_held {
                    *is_held = true;
                    held += 1;
                }
            }
        }
    }
}

/// A number of /proc/meminfo, in bytes.
fn meminfo(name: &str) -> Result<u64, String> {
    let text = fs::read_to_string("/proc/meminfo").map_err(|e| format!("/proc/meminfo: {e}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kb = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kb.map(|kb| kb * 1024).ok_or_else(|| format!("/proc/meminfo has no {name}"))
}

/// Addresses of this program.
struct Area {
    start: *mut u8,
    bytes: u64,
}

impl Area {
    fn reserve(bytes: u64) -> Result<Self, String> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory where there was none.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes as usize, rights, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(format!("addresses for {bytes} bytes: {}", io::Error::last_os_error()));
        }
        Ok(Self { start: start.cast(), bytes })
    }

    fn advise(&self, from: u64, bytes: u64, advice: libc::c_int) -> Result<(), String> {
        // SAFETY: the area is nobody's but ours, and nothing is read from it.
        let done = unsafe { libc::madvise(self.start.add(from as usize).cast(), bytes as usize, advice) };
        if done == 0 { Ok(()) } else { Err(format!("memory to hold: {}", io::Error::last_os_error())) }
    }

    /// Has pages until next to nothing is free; how many bytes from its start on.
    fn take_all(&self) -> Result<u64, String> {
        let (mut taken, mut most) = (0, STEP);
        loop {
            let free = meminfo("MemFree:")?.min(self.bytes - taken).saturating_sub(LEFT);
            let step = free.min(most) / PAGE * PAGE;
            if step == 0 {
                return Ok(taken);
            }
            match self.advise(taken, step, MADV_POPULATE_WRITE) {
                Ok(()) => taken += step,
                // Not all that is free is for programs; some of it may have come.
                Err(_) => most = step / 2,
            }
        }
    }

    /// The frame of each page.
    fn frames(&self, into: &mut [u64]) -> Result<(), String> {
        let failed = |e: io::Error| format!("/proc/self/pagemap: {e}");
        let map = fs::File::open("/proc/self/pagemap").map_err(failed)?;
        let mut at = self.start as u64 / PAGE * 8;
        for part in into.chunks_mut(ENTRIES) {
            let mut bytes = [0; ENTRIES * 8];
            map.read_exact_at(&mut bytes[..part.len() * 8], at).map_err(failed)?;
            for (frame, bytes) in part.iter_mut().zip(bytes.chunks_exact(8)) {
                let entry = bytes.try_into().map_or(0, u64::from_le_bytes);
                *frame = if entry & PRESENT == 0 { u64::MAX } else { entry & FRAME };
            }
            at += part.len() as u64 * 8;
        }
        Ok(())
    }

    /// Pages that are there stay, and no others come.
    fn lock(&self) -> Result<(), String> {
        // SAFETY: the area is ours.
        let done = unsafe { libc::syscall(libc::SYS_mlock2, self.start, self.bytes as usize, MLOCK_ONFAULT) };
        if done == 0 { Ok(()) } else { Err(format!("locking memory: {}", io::Error::last_os_error())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_neighbouring_frames_are_held() {
        // Pages were handed out in the opposite order of frames, with a hole that belongs to the kernel.
        let frames: Vec<u64> = (0..4096u64).rev().map(|frame| if frame < 1000 { frame } else { frame + 500 }).collect();
        let choose = |frames: &[u64], percent, chunk_kb| {
            let mut lists = Lists::of(frames.len());
            lists.frames.copy_from_slice(frames);
            lists.choose(Memhog { percent, chunk_kb });
            lists.is_held
        };
        let is_held = choose(&frames, 25, 64);
        assert_eq!(is_held.iter().filter(|&&h| h).count(), 1024);
        let begins = (0..4095).filter(|&i| is_held[i] && (i == 0 || !is_held[i - 1])).count();
        assert!((30..=64).contains(&begins), "chunks of 16 pages that sometimes touch: {begins}");
        let single = choose(&frames, 50, 4);
        let longest = single.chunk_by(|a, b| a == b).map(<[bool]>::len).max();
        assert!(longest < Some(30), "{longest:?}");
        assert!(choose(&[], 50, 4).is_empty());
    }
}
