//! What occupies memory before the program starts.

use crate::{
    Fragment, HeldPages, MemoryError,
    buddy::BLOCK_ORDER,
    random::{below, generator},
};
use mmulab_addr::{BASE_SHIFT, parse_bytes};

/// Frames whose page-table entries share a cache line.
const GROUP: u64 = 8;

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
        Fragment::Memhog { percent, chunk, within, regions, over, .. } => {
            let chunk = frames_of(chunk, "chunk")?;
            let within = within.as_ref().map(|text| frames_of(text, "within")).transpose()?;
            let over = over.as_ref().map(|text| frames_of(text, "over")).transpose()?;
            if !(0.0..=95.0).contains(percent) {
                return Err(bad(format!("percent is {percent}: give 0 to 95, the program needs memory too")));
            }
            let until = within.map_or(end, |frames| u64::from(end).min(u64::from(first) + frames) as u32);
            let mut free = hog(*percent, chunk, first, until, seed)?;
            if let Some(regions) = *regions {
                return spread(&free, (first, until, end), u64::from(regions), over, seed).map(Occupied::Free);
            }
            if over.is_some() {
                return Err(bad("over is how much of memory regions lie in: give regions too".into()));
            }
            match free.last_mut() {
                Some(last) if last.1 == until => last.1 = end,
                _ if until < end => free.push((until, end)),
                _ => {}
            }
            Ok(Occupied::Free(free))
        }
    }
}

/// Deals the area from `first` up to `until` to regions of 2 MiB. They lie evenly in `over` frames of the memory, which
/// goes up to `end`. Each region gets as many groups of eight frames, at random places, and what is beside them is
/// taken. Between the regions all is free. `free` are the area's free frames.
///
/// ```text
/// the area      |g0|g1|g2|g3|g4|g5|
///                 '--. '---. '-----------------.
/// memory        | g0 .. g1 .. |    free    | g2 .. g3 .. |    free    | g4 .. g5 .. |    free ..
///               <--- 2 MiB --->            <--- 2 MiB --->
/// ```
///
/// With all groups at the start of their regions, lines of the hypervisor's entries would share a few sets of a cache.
fn spread(
    free: &[(u32, u32)],
    (first, until, end): (u32, u32, u32),
    regions: u64,
    over: Option<u64>,
    seed: u64,
) -> Result<Vec<(u32, u32)>, MemoryError> {
    let size = 1u64 << BLOCK_ORDER;
    let from = u64::from(first).div_ceil(size);
    let all = (u64::from(end) / size).saturating_sub(from);
    let lies_in = over.map_or(all, |frames| frames / size);
    let groups = u64::from(until - first).div_ceil(GROUP).div_ceil(regions);
    if groups > size / GROUP {
        let least = u64::from(until - first).div_ceil(size);
        return Err(bad(format!("regions is {regions}: within does not fit into so few, give at least {least}")));
    }
    if regions > lies_in || lies_in > all {
        let key = if lies_in > all { "over" } else { "regions" };
        return Err(bad(format!(
            "{key} is too much: this memory has {all} regions of 2M, of which over has {lies_in}"
        )));
    }
    let mut runs: Vec<(u32, u32)> = Vec::new();
    let mut add = |start: u64, stop: u64| match runs.last_mut() {
        Some(last) if u64::from(last.1) == start => last.1 = stop as u32,
        _ if start < stop => runs.push((start as u32, stop as u32)),
        _ => {}
    };
    let mut rng = generator(0x7265_6769_6f6e, seed);
    let mut after = u64::from(first);
    let mut parts = free.iter().map(|&(start, stop)| (u64::from(start - first), u64::from(stop - first))).peekable();
    for region in 0..regions {
        let block = (from + region * lies_in / regions) * size;
        add(after, block);
        after = block + size;
        let mut left = groups;
        for place in 0..size / GROUP {
            // Of the places that remain, each is as likely to be one of the `left`.
            if below(&mut rng, size / GROUP - place) >= left {
                continue;
            }
            let begin = (region * groups + groups - left) * GROUP;
            left -= 1;
            let (to, close) = (block + place * GROUP, begin + GROUP);
            while let Some(&(start, stop)) = parts.peek().filter(|part| part.0 < close) {
                add(to + start.max(begin) - begin, to + stop.min(close) - begin);
                if stop > close {
                    break;
                }
                parts.next();
            }
        }
    }
    add(after, u64::from(end));
    Ok(runs)
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
    let mut rng = generator(0x6d65_6d68_6f67, seed);
    let mut held = 0;
    while held < goal {
        let start = below(&mut rng, frames - chunk + 1);
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
