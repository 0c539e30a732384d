//! A layout of memory drawn from the observations: which frames are in use, and the free lists.

use super::observed::{Counted, List, Observed};
use crate::{
    Mobility,
    buddy::BLOCK_ORDER,
    random::{below, generator},
};
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHashMap;

/// No more of memory than this is in use, and in small blocks, so that memory smaller than a guest's has room for the
/// program.
const MOST_HELD: u64 = 2;
const MOST_SMALL: u64 = 8;
/// Places tried at a jump's distance, and then anywhere, before a block is given up.
const NEAR_TRIES: u32 = 16;
const FAR_TRIES: u32 = 64;

/// Free blocks of one size, in the order of their list: the first goes out first.
pub struct Blocks {
    pub of_cpu: bool,
    pub mobility: Mobility,
    pub order: u8,
    pub first: Vec<u32>,
}

/// What memory is like.
pub struct Layout {
    pub lists: Vec<Blocks>,
    /// The migrate type of each page block below `end`.
    pub mobility: Vec<Mobility>,
    /// Runs of frames in use, ascending.
    pub held: Vec<(u32, u32)>,
    /// From here on everything is free.
    pub end: u32,
}

/// Draws a layout of memory of `total` frames of which the `reserved` first are nobody's.
pub fn lay(observed: &Observed, reserved: u32, total: u64, max_order: u8, seed: u64) -> Layout {
    let mut rng = generator(0x6167_6564, seed);
    let held = observed.held(total).min(total / MOST_HELD);
    let small: u64 = observed.lists.iter().map(|l| u64::from(l.length.1) << l.order).sum();
    let scale = ((total / MOST_SMALL) as f64 / small as f64).min(1.0);
    let wanted: Vec<u32> = (observed.lists.iter())
        .map(|l| (f64::from(between(&mut rng, l.length.0, l.length.1)) * scale).round() as u32)
        .collect();
    let free: u64 = observed.lists.iter().zip(&wanted).map(|(l, &n)| u64::from(n) << l.order).sum();
    let used = held + free + u64::from(reserved);
    let end = (used.next_multiple_of(1 << max_order.max(BLOCK_ORDER)) as u32).min(total as u32);

    let seats = observed.seats.map(|(least, most)| (f64::from(between(&mut rng, least, most)) * scale).ceil() as usize);
    let places = seats_of(&mut rng, seats.iter().sum(), &observed.gaps, end >> BLOCK_ORDER);
    let mut place = Placing::new(reserved, end, rng);
    place.seat(seats, places);
    // Migrate types with few page blocks take theirs first; of each, large blocks, which fit in few places, go first.
    let mut order: Vec<usize> = (0..observed.lists.len()).collect();
    order.sort_by_key(|&i| {
        let list = &observed.lists[i];
        (list.mobility == Mobility::Movable, list.of_cpu, std::cmp::Reverse(list.order), i)
    });
    let lists = order.into_iter().map(|i| place.list(&observed.lists[i], wanted[i])).collect();
    Layout { lists, held: place.held(), mobility: place.owners(), end }
}

fn between(rng: &mut Pcg64Mcg, least: u32, most: u32) -> u32 {
    least + below(rng, u64::from(most - least) + 1) as u32
}

/// One of what was counted, as often as it was seen.
fn draw(rng: &mut Pcg64Mcg, counted: &Counted) -> Option<i32> {
    let all: u64 = counted.iter().map(|c| u64::from(c.1)).sum();
    let mut left = below(rng, all.max(1));
    counted
        .iter()
        .find(|c| {
            u64::from(c.1) > left || {
                left -= u64::from(c.1);
                false
            }
        })
        .map(|c| c.0)
}

/// The page blocks of `blocks` in which small blocks may lie: as many as are wanted and fit, as far apart as in guests.
fn seats_of(rng: &mut Pcg64Mcg, wanted: usize, gaps: &Counted, blocks: u32) -> Vec<u32> {
    let gaps: Vec<u32> =
        (1..wanted.min(blocks as usize)).map(|_| draw(rng, gaps).unwrap_or(1).unsigned_abs().max(1)).collect();
    let spare = u64::from(blocks - 1) - gaps.len() as u64;
    let apart: u64 = gaps.iter().map(|&gap| u64::from(gap - 1)).sum();
    // Gaps that memory has no room for are narrowed alike.
    let narrow = |gap: u32| if apart > spare { 1 + (u64::from(gap - 1) * spare / apart) as u32 } else { gap };
    let mut at = below(rng, spare.saturating_sub(apart) + 1) as u32;
    let mut seats = vec![at];
    for gap in gaps {
        at += narrow(gap);
        seats.push(at);
    }
    seats
}

struct Placing {
    rng: Pcg64Mcg,
    reserved: u32,
    end: u32,
    /// Whether a frame is in a free block, a bit each.
    free: Vec<u64>,
    /// The order of each free block of the zone: buddies of one order would be one block.
    zone: FxHashMap<u32, u8>,
    owners: Vec<Option<Mobility>>,
    /// Page blocks in which blocks smaller than they lie.
    seats: [Vec<u32>; Mobility::COUNT],
}

impl Placing {
    fn new(reserved: u32, end: u32, rng: Pcg64Mcg) -> Self {
        let frames = end as usize;
        Self {
            rng,
            reserved,
            end,
            free: vec![0; frames.div_ceil(64)],
            zone: FxHashMap::default(),
            owners: vec![None; frames.div_ceil(1 << BLOCK_ORDER)],
            seats: Default::default(),
        }
    }

    /// Gives each mobility its number of seats, any of those there are; what is few comes first, so that it has one.
    fn seat(&mut self, wanted: [usize; Mobility::COUNT], mut places: Vec<u32>) {
        for mobility in [Mobility::Reclaimable, Mobility::Unmovable, Mobility::Movable] {
            for _ in 0..wanted[mobility as usize] {
                if !places.is_empty() {
                    let seat = places.swap_remove(below(&mut self.rng, places.len() as u64) as usize);
                    self.owners[seat as usize] = Some(mobility);
                    self.seats[mobility as usize].push(seat);
                }
            }
        }
    }

    fn is_free(&self, frame: u32) -> bool {
        self.free[frame as usize / 64] >> (frame % 64) & 1 != 0
    }

    /// Takes the block at `first` if it can be one of `list`.
    fn take(&mut self, list: &List, first: u32) -> bool {
        let frames = 1u32 << list.order;
        let Some(end) = first.checked_add(frames).filter(|&end| end <= self.end) else { return false };
        let blocks = first as usize >> BLOCK_ORDER..=(end as usize - 1) >> BLOCK_ORDER;
        let small = list.order < BLOCK_ORDER;
        let fits = first >= self.reserved
            && (!small || self.owners[first as usize >> BLOCK_ORDER].is_some())
            && (first..end).all(|frame| !self.is_free(frame))
            && self.owners[blocks.clone()].iter().all(|owner| owner.is_none_or(|m| m == list.mobility))
            && (list.of_cpu || self.zone.get(&(first ^ frames)) != Some(&list.order));
        if fits {
            (first..end).for_each(|frame| self.free[frame as usize / 64] |= 1 << (frame % 64));
            self.owners[blocks].fill(Some(list.mobility));
            if !list.of_cpu {
                self.zone.insert(first, list.order);
            }
        }
        fits
    }

    /// Lays out a list of `wanted` blocks, or of as many as there is room for.
    fn list(&mut self, list: &List, wanted: u32) -> Blocks {
        let mut first = Vec::with_capacity(wanted as usize);
        let step = 1i64 << list.order;
        while (first.len() as u32) < wanted {
            let Some(start) = self.start(list, first.last().copied()) else { break };
            first.push(start);
            let run = draw(&mut self.rng, &list.runs).unwrap_or(1);
            let (length, step) = (run.unsigned_abs(), if run < 0 { -step } else { step });
            for _ in 1..length.min(wanted - first.len() as u32 + 1) {
                let next = i64::from(first[first.len() - 1]) + step;
                match u32::try_from(next) {
                    Ok(next) if self.take(list, next) => first.push(next),
                    _ => break,
                }
            }
        }
        Blocks { of_cpu: list.of_cpu, mobility: list.mobility, order: list.order, first }
    }

    /// Where the next run begins: at a jump from the last block, or anywhere if nothing is free of others there.
    fn start(&mut self, list: &List, last: Option<u32>) -> Option<u32> {
        for _ in 0..if last.is_some() { NEAR_TRIES } else { 0 } {
            let (Some(last), Some(jump)) = (last, draw(&mut self.rng, &list.jumps)) else { break };
            let least = 1u64 << (jump.unsigned_abs().max(1) - 1);
            let distance = (least + below(&mut self.rng, least)) as i64;
            let at = i64::from(last) + if jump < 0 { -distance } else { distance };
            let at = u32::try_from(at).map(|at| at >> list.order << list.order);
            if let Ok(at) = at
                && self.take(list, at)
            {
                return Some(at);
            }
        }
        for _ in 0..FAR_TRIES {
            let at = if list.order < BLOCK_ORDER {
                let seats = &self.seats[list.mobility as usize];
                let seat = *seats.get(below(&mut self.rng, seats.len() as u64) as usize)?;
                (seat << BLOCK_ORDER) + ((below(&mut self.rng, 1 << (BLOCK_ORDER - list.order)) as u32) << list.order)
            } else {
                (below(&mut self.rng, u64::from(self.end >> list.order).max(1)) as u32) << list.order
            };
            if self.take(list, at) {
                return Some(at);
            }
        }
        None
    }

    fn held(&self) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for frame in (self.reserved..self.end).filter(|&frame| !self.is_free(frame)) {
            match runs.last_mut() {
                Some(run) if run.1 == frame => run.1 += 1,
                _ => runs.push((frame, frame + 1)),
            }
        }
        runs
    }

    fn owners(&self) -> Vec<Mobility> {
        self.owners.iter().map(|owner| owner.unwrap_or(Mobility::Movable)).collect()
    }
}
