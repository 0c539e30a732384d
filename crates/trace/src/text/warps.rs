//! Lines of one warp instruction: `warp CORE.WARP CODE [xCOUNT] KIND MASK ADDRESSES`.

use super::words::{Words, Wrong, address_of};
use crate::{Batch, Event, Item, Ref, native::MAX_INSTRUCTIONS};
use mmulab_addr::{Access, Pid, Tid, VirtAddr};
use std::fmt::Write as _;

/// Lanes that a line can name.
const LANES_MAX: usize = 64;

/// The acting process and thread, and the places of threads that are warps: lines of warps leave these out.
#[derive(Clone, Copy)]
pub(super) struct Acting {
    pid: Pid,
    tid: Tid,
    /// Warps of a core, if the trace is one of warps.
    pub warps: Option<u16>,
    /// Instructions that `n` lines said.
    retired: u64,
}

impl Acting {
    /// A trace begins as process 1, thread 1.
    pub fn new(warps: Option<u16>) -> Self {
        Self { pid: Pid(1), tid: Tid(1), warps, retired: 0 }
    }

    /// An `n` line: the number of instructions that retired.
    pub fn retire(&mut self, count: u64) -> Result<(), String> {
        self.retired = self.retired.saturating_add(count);
        if self.retired <= MAX_INSTRUCTIONS {
            return Ok(());
        }
        Err(format!("with {count} here, {} instructions retire in all; {MAX_INSTRUCTIONS} are the most", self.retired))
    }

    /// Takes over an event that was read.
    pub fn follow(&mut self, event: &Event) {
        if let Event::Switch { pid, tid } = *event {
            (self.pid, self.tid) = (pid, tid);
        }
    }

    /// Takes in the rest of a line that began with `warp`.
    pub fn take(&mut self, words: &mut Words<'_>, batch: &mut Batch) -> Result<(), Wrong> {
        let tid = self.thread(words)?;
        let code = words.address()?;
        let (column, mut word) = words.need("r or w")?;
        let mut count = 1;
        if let Some(n) = word.strip_prefix('x') {
            count = n.parse().map_err(|_| Wrong(column, format!("'{word}' is not a count: write x and a number")))?;
            word = words.need("r or w")?.1;
        }
        let write = match word {
            "r" => false,
            "w" => true,
            _ => return Err(Wrong(column, format!("'{word}' is neither r, for a load, nor w, for a store"))),
        };
        let mask = mask(words)?;
        let (column, word) = words.need("the lanes' addresses")?;
        let lanes = lanes(word, mask).map_err(|what| Wrong(column, what))?;
        words.end()?;
        if tid != self.tid {
            self.tid = tid;
            batch.push_event(Event::Switch { pid: self.pid, tid });
        }
        batch.push_block(code, 1, count);
        batch.refs.extend(lanes.into_iter().map(|va| Ref::data(va, write)));
        Ok(())
    }

    fn thread(&self, words: &mut Words<'_>) -> Result<Tid, Wrong> {
        let (column, word) = words.need("CORE.WARP")?;
        let wrong = |what: &str| Wrong(column, format!("'{word}' {what}"));
        let Some(warps) = self.warps.map(u32::from) else {
            return Err(wrong("needs a line '#: warps N' at the beginning: how many warps a core has"));
        };
        let numbers = word.split_once('.').and_then(|(core, warp)| Some((core.parse().ok()?, warp.parse().ok()?)));
        let (core, warp): (u32, u32) = numbers.ok_or_else(|| wrong("is not a warp: write CORE.WARP in numbers"))?;
        if warp >= warps {
            return Err(wrong(&format!("is not a warp of a core that has {warps}, from 0 on")));
        }
        let tid = core.checked_mul(warps).and_then(|first| first.checked_add(warp));
        tid.map(Tid).ok_or_else(|| wrong("has a core beyond any"))
    }

    /// The line for the words of `batch` from `at` on, and how many words it stands for, if they are an instruction of
    /// a warp.
    pub fn line(&mut self, batch: &Batch, at: usize) -> Option<(String, usize)> {
        let warps = u32::from(self.warps?);
        let (mut tid, mut next) = (self.tid, at);
        if let Item::Event(index) = batch.refs[at].item() {
            match batch.events[index] {
                Event::Switch { pid, tid: other } if pid == self.pid && other != tid => tid = other,
                _ => return None,
            }
            next += 1;
        }
        let Item::Access(Access::Fetch, code, mut count @ 1..) = batch.refs.get(next)?.item() else { return None };
        next += 1;
        if let Item::Retire(more @ 1..) = batch.refs.get(next)?.item()
            && count == Ref::MAX_BLOCK
        {
            count = u32::try_from(more).ok()?.checked_add(count)?;
            next += 1;
        }
        let first = *batch.refs.get(next).filter(|word| !word.is_control() && !word.is_fetch())?;
        let alike = |word: &&Ref| !word.is_control() && !word.is_fetch() && word.is_write() == first.is_write();
        let lanes: Vec<VirtAddr> =
            batch.refs[next..].iter().take(LANES_MAX).take_while(alike).map(|word| word.va()).collect();
        self.tid = tid;
        let mut line = format!("warp {}.{} {code}", tid.0 / warps, tid.0 % warps);
        if count != 1 {
            let _ = write!(line, " x{count}");
        }
        let (mask, addresses) = spelt(&lanes);
        let _ = write!(line, " {} {mask:#x} {addresses}", if first.is_write() { 'w' } else { 'r' });
        Some((line, next + lanes.len() - at))
    }
}

fn mask(words: &mut Words<'_>) -> Result<u64, Wrong> {
    let (column, word) = words.need("a mask of lanes")?;
    let mask = word.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let mask = mask.ok_or_else(|| Wrong(column, format!("'{word}' is not a mask: write 0x and up to 16 digits")))?;
    if mask == 0 {
        return Err(Wrong(column, "no lane is active: leave the line out".into()));
    }
    Ok(mask)
}

/// The addresses of the active lanes.
fn lanes(word: &str, mask: u64) -> Result<Vec<VirtAddr>, String> {
    if let Some(at) = word.rfind(['+', '-']).filter(|&at| at > 0) {
        let stride = word[at..].parse::<i64>().map_err(|_| format!("'{}' is not a stride in bytes", &word[at..]))?;
        return Ok(strided(address_of(&word[..at])?, stride, mask).collect());
    }
    let found = word.split(',').map(address_of).collect::<Result<Vec<_>, _>>()?;
    let active = mask.count_ones() as usize;
    match found.len() == active {
        true => Ok(found),
        false => Err(format!("{} addresses for {active} lanes: write BASE+STRIDE, or one for each lane", found.len())),
    }
}

/// Lane n is at `base` + n strides, modulo 2^57.
fn strided(base: VirtAddr, stride: i64, mask: u64) -> impl Iterator<Item = VirtAddr> {
    let active = (0..u64::BITS).filter(move |lane| mask >> lane & 1 == 1);
    active.map(move |lane| VirtAddr::new(base.raw().wrapping_add((stride as u64).wrapping_mul(u64::from(lane)))))
}

/// The mask and the words for these lanes, of which there are 1 to 64.
fn spelt(lanes: &[VirtAddr]) -> (u64, String) {
    let all = u64::MAX >> (LANES_MAX - lanes.len());
    let base = lanes[0];
    // The least step is the stride; where others are several of it, lanes between are off.
    let steps = || lanes.windows(2).map(|two| two[1].raw().wrapping_sub(two[0].raw()) as i64);
    let stride = steps().min_by_key(|step| step.unsigned_abs()).unwrap_or(0);
    let mut mask = all;
    if stride != 0 {
        let places = lanes.iter().map(|va| va.raw().wrapping_sub(base.raw()) as i64 / stride);
        let bits = places.map(|place| u32::try_from(place).ok().and_then(|place| 1u64.checked_shl(place)));
        mask = bits.map(Option::unwrap_or_default).fold(0, |mask, bit| mask | bit);
    }
    if lanes.len() > 1 && strided(base, stride, mask).eq(lanes.iter().copied()) {
        return (mask, format!("{base}{stride:+}"));
    }
    let listed: Vec<String> = lanes.iter().map(ToString::to_string).collect();
    (all, listed.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_spelt_as_short_as_they_allow() {
        let spell = |lanes: &[u64]| spelt(&lanes.iter().map(|&raw| VirtAddr::new(raw)).collect::<Vec<_>>());
        assert_eq!(spell(&[0x1000, 0x1004, 0x1008]), (7, "0x1000+4".into()));
        assert_eq!(spell(&[0x1000, 0x1008, 0x100c]), (0b1101, "0x1000+4".into()));
        assert_eq!(spell(&[0x1000, 0xff8, 0xff0]), (7, "0x1000-8".into()));
        assert_eq!(spell(&[0x1000, 0x1000]), (3, "0x1000+0".into()));
        assert_eq!(spell(&[0x1000]), (1, "0x1000".into()));
        assert_eq!(spell(&[0x1000, 0x5000, 0x1004]), (7, "0x1000,0x5000,0x1004".into()));
    }
}
