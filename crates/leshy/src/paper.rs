//! Algorithm 1 of paper 3, as its text says it.
//!
//! The printed listing cannot be run as it stands. Its lines 4 to 6 aggregate misses before the loop over the misses,
//! and sort a bin for each miss. Lines 8 to 13 never test the limit of N entries and go on after a size that succeeds.
//! So the largest size always wins. Line 15 runs while the target is covered, and does not say which entry is
//! substituted. It would end with a selection that misses the target. The text says what is meant, and this file
//! follows it:
//!
//! 1. The *initial size* is the smallest size of which at most N entries, hottest first, reach the target.
//! 2. Of the M entries, keep the M - 1 hottest. Replace the last by a selection of smaller entries that reach the
//!    target again, without exceeding N. That selection is found by steps 1 and 2 over the sizes below: so the
//!    algorithm recurses down to the smallest size.
//! 3. Repeat with the next coldest entry of the initial size, until one cannot be replaced without more bytes.
//!
//! "Without more bytes" is implied: the selection is to be the least contiguity-taxed one (Equation 1).

use crate::{
    artifact::needed,
    bins::Bins,
    board::{Board, Place, Room},
    goal::{Goal, LeshyError},
    selection::Selection,
};

/// The selection of Algorithm 1.
///
/// # Errors
/// The goal makes no sense, or its entries cannot reach the target at any size.
pub fn paper(bins: &Bins, goal: &Goal) -> Result<Selection, LeshyError> {
    let mut board = Board::new(bins, Room::new(bins, goal)?);
    let wanted = goal.wanted(bins.total());
    let Some(level) = fill(&mut board, bins.levels().len(), wanted, u64::MAX) else {
        return Err(out_of_reach(bins, &board, wanted));
    };
    let mut made = Selection::new(bins, goal, board.entries());
    made.initial = Some(bins.levels()[level].order);
    Ok(made)
}

/// Chooses free bins of the smallest size below `below` that reach `wanted` with at most `bytes` bytes, and replaces
/// them by smaller ones if possible. Returns their level; nothing is chosen if there is none.
fn fill(board: &mut Board, below: usize, wanted: u64, bytes: u64) -> Option<usize> {
    for level in 0..below {
        let mut covered = board.covered();
        let mut places: Vec<Place> = Vec::new();
        let left = usize::try_from(board.room.left(level)).unwrap_or(usize::MAX);
        for at in board.hottest(level).take(left) {
            if covered >= wanted {
                break;
            }
            covered += board.bins.weight_of(at.0, at.1);
            places.push(at);
        }
        if covered >= wanted && (places.len() as u64).saturating_mul(board.bytes(level)) <= bytes {
            places.iter().for_each(|&at| board.choose(at));
            refine(board, level, places, wanted);
            return Some(level);
        }
    }
    None
}

/// Replaces bins of one level, the coldest first, by smaller ones.
pub(crate) fn refine(board: &mut Board, level: usize, mut places: Vec<Place>, wanted: u64) {
    while let Some(coldest) = places.pop() {
        board.release(coldest);
        if fill(board, level, wanted, board.bytes(level)).is_none() {
            board.choose(coldest);
            break;
        }
    }
}

fn out_of_reach(bins: &Bins, board: &Board, wanted: u64) -> LeshyError {
    let reach = |level: usize| -> u64 {
        let left = usize::try_from(board.room.left(level)).unwrap_or(usize::MAX);
        bins.levels()[level].hottest().take(left).map(|(_, bin)| bin.weight(bins.weight())).sum()
    };
    let best = (0..bins.levels().len()).max_by_key(|&level| reach(level)).unwrap_or_default();
    LeshyError::OutOfReach {
        size: bins.levels()[best].order,
        entries: board.room.left(best),
        reached: reach(best),
        wanted,
        needed: needed(bins, best, wanted),
    }
}
