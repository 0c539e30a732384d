//! What occupies memory before the program starts.

use crate::{Fragment, HeldPages, MemoryError, buddy::BLOCK_ORDER};
use mmulab_addr::{BASE_SHIFT, parse_bytes};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// What is left.
pub enum Occupied {
    /// All of it.
    Nothing,
    /// These runs of frames, in ascending order.
    Free(Vec<(u32, u32)>),
}

fn bad(what: String) -> MemoryError {
    MemoryError { key: "fragment", what }
}

fn frames_of(text: &str, key: &str) -> Result<u64, MemoryError> {
    match parse_bytes(text) {
        Some(bytes) if bytes >> BASE_SHIFT > 0 => Ok(bytes >> BASE_SHIFT),
        _ => Err(bad(format!("{key} is '{text}': write an amount of memory, such as 4G"))),
    }
}

/// Whether what occupies memory may be moved.
pub fn is_movable(how: &Fragment) -> bool {
    match how {
        Fragment::None => false,
        Fragment::Fmfi { held, .. } | Fragment::Memhog { held, .. } => *held == HeldPages::Movable,
    }
}

/// The runs of frames from `first` up to `end` between those that are free.
pub fn between(free: &[(u32, u32)], first: u32, end: u32) -> Vec<(u32, u32)> {
    let starts = std::iter::once(first).chain(free.iter().map(|run| run.1));
    let ends = free.iter().map(|run| run.0).chain(std::iter::once(end));
    starts.zip(ends).filter(|(from, to)| from < to).collect()
}

/// The frames from `first` up to `end` that stay free.
pub fn occupy(how: &Fragment, first: u32, end: u32, seed: u64) -> Result<Occupied, MemoryError> {
    match how {
        Fragment::None => Ok(Occupied::Nothing),
        Fragment::Fmfi { target, free, order, .. } => {
            let free = frames_of(free, "free")?;
            if !(0.0..=1.0).contains(target) {
                return Err(bad(format!("target is {target}: give a share from 0 to 1")));
            }
            if order.get() != BLOCK_ORDER {
                return Err(bad(format!("order is {order}: the tool frees the starts of 2M blocks, so give 2M")));
            }
            chunks(*target, free, first, end).map(Occupied::Free)
        }
        Fragment::Memhog { percent, chunk, within, .. } => {
            let chunk = frames_of(chunk, "chunk")?;
            let within = within.as_ref().map(|text| frames_of(text, "within")).transpose()?;
            if !(0.0..=95.0).contains(percent) {
                return Err(bad(format!("percent is {percent}: give 0 to 95, the program needs memory too")));
            }
            let until = within.map_or(end, |frames| u64::from(end).min(u64::from(first) + frames) as u32);
            let mut free = hog(*percent, chunk, first, until, seed)?;
            match free.last_mut() {
                Some(last) if last.1 == until => last.1 = end,
                _ if until < end => free.push((until, end)),
                _ => {}
            }
            Ok(Occupied::Free(free))
        }
    }
}

/// Whole blocks spread evenly, and small chunks at the start of the others, until `free` frames are free.
fn chunks(target: f64, free: u64, first: u32, end: u32) -> Result<Vec<(u32, u32)>, MemoryError> {
    let size = 1u64 << BLOCK_ORDER;
    let from = u64::from(first).div_ceil(size);
    let blocks = u64::from(end) / size - from;
    let whole = ((free as f64 * (1.0 - target)) / size as f64).round() as u64;
    let small = free.saturating_sub(whole * size);
    let others = blocks.saturating_sub(whole);
    // A chunk of half a block or more would join its neighbour's into larger blocks than the target allows.
    let chunk = if small == 0 { 0 } else { small.div_ceil(others.max(1)) };
    if whole > blocks || chunk > size / 2 {
        let most = (blocks as f64 * size as f64 / (1.0 - target + 2.0 * target)) as u64;
        return Err(bad(format!(
            "free is too much of memory for a target of {target}: at most about {}M can be free, or enlarge \
             memory.size",
            (most << BASE_SHIFT) >> 20
        )));
    }
    let mut runs: Vec<(u32, u32)> = Vec::new();
    let (mut left, mut done) = (small, 0);
    for block in 0..blocks {
        let start = ((from + block) * size) as u32;
        // Evenly: the whole blocks among the first `block + 1` are their share of all.
        let due = (block + 1) * whole / blocks;
        let take = if due > done {
            done = due;
            size
        } else {
            let take = chunk.min(left);
            left -= take;
            take
        };
        match runs.last_mut() {
            Some(last) if last.1 == start && take > 0 => last.1 += take as u32,
            _ if take > 0 => runs.push((start, start + take as u32)),
            _ => {}
        }
    }
    Ok(runs)
}

/// Chunks at random places until `percent` of the frames are taken.
fn hog(percent: f64, chunk: u64, first: u32, end: u32, seed: u64) -> Result<Vec<(u32, u32)>, MemoryError> {
    let frames = u64::from(end - first);
    let goal = (frames as f64 * percent / 100.0) as u64;
    if chunk > frames / 4 {
        return Err(bad("chunk is more than a quarter of memory: give a smaller one".into()));
    }
    let mut taken = vec![0u64; frames.div_ceil(64) as usize];
    // The generator's state is odd: a seed's lowest bit would be lost in its.
    let mut rng = Pcg64Mcg::new(0x6d65_6d68_6f67 ^ u128::from(seed) << 1);
    let mut held = 0;
    while held < goal {
        let start = ((u128::from(rng.next_u64()) * u128::from(frames - chunk + 1)) >> 64) as u64;
        for frame in start..start + chunk {
            let (word, bit) = ((frame / 64) as usize, 1 << (frame % 64));
            if held < goal && taken[word] & bit == 0 {
                taken[word] |= bit;
                held += 1;
            }
        }
    }
    let is_free = |frame: u64| taken[(frame / 64) as usize] >> (frame % 64) & 1 == 0;
    let mut runs = Vec::new();
    let mut frame = 0;
    while frame < frames {
        if !is_free(frame) {
            frame += 1;
            continue;
        }
        let start = frame;
        while frame < frames && is_free(frame) {
            frame += 1;
        }
        runs.push((first + start as u32, first + frame as u32));
    }
    Ok(runs)
}
