//! The pages of code that a program ran and the blocks of data that it accessed, by windows of its instructions. They
//! show the working set that TLBs must hold, and how it changes. They depend on the trace alone, so one set of windows
//! serves every machine.
//!
//! A run is divided into at most 128 windows. How long it is shows only at its end: whenever the windows are used up,
//! each two of them become one.
//!
//! ```text
//!                     window 0   1   2   3 ..            after 128 windows: two become one
//! page 0x401          1          1   0   0               1   0
//! page 0x402          0          1   0   1        -->    1   1
//! pages per window    1          2   0   1               2   1
//! ```
//!
//! Code is kept by pages of 4 KB. Data are kept by blocks of 2 MB. A program has so few of them that nearly every
//! access finds its block marked. So an access takes a comparison, and a look-up only if the comparison fails.

use mmulab_addr::{Pid, Vpn};
use mmulab_trace::{Batch, Event, Item};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Most windows of a run: the bits of what is kept for a page.
const WINDOWS: u32 = u128::BITS;
/// Instructions of a window at first. Doubled as often as the run needs.
const FIRST: u64 = 1 << 14;
/// log2 of the pages of a row of the report: 64 KB, FreeBSD's cluster of code.
const ROW_SHIFT: u32 = 4;
/// Most rows that are listed: 128 MB of code, in a few megabytes of JSON.
const ROWS: usize = 2048;
/// Pages fetched from lately. Code returns to a few pages again and again: those need no look-up.
const RECENT: usize = 64;
/// log2 of the pages of a block of data: 2 MB.
const BLOCK_SHIFT: u32 = 9;
/// Most blocks that are listed: 32 GB of data, in a megabyte of JSON.
const BLOCKS: usize = 16384;
/// Blocks accessed lately: without look-ups for 8 GB in a row.
const RECENT_BLOCKS: usize = 4096;

/// The windows of a run so far.
pub struct CodeWindows {
    /// By page: a bit for each window in which it ran.
    pages: FxHashMap<(Pid, Vpn), u128>,
    pid: Pid,
    /// References stand for a part that was left out.
    is_paused: bool,
    /// Instructions of a window.
    length: u64,
    /// The window that is filled, and its instructions so far.
    window: u32,
    instructions: u64,
    /// Pages that have the bit of this window, by their last bits.
    recent: [Vpn; RECENT],
    /// By block of data: a bit for each window in which it was accessed.
    blocks: FxHashMap<(Pid, u64), u128>,
    /// Blocks that have the bit of this window, by their last bits.
    recent_blocks: Box<[u64]>,
}

/// No page is that far up, and no block.
const NOWHERE: Vpn = Vpn(u64::MAX);

impl Default for CodeWindows {
    fn default() -> Self {
        Self {
            pages: FxHashMap::default(),
            pid: Pid(1),
            is_paused: false,
            length: FIRST,
            window: 0,
            instructions: 0,
            recent: [NOWHERE; RECENT],
            blocks: FxHashMap::default(),
            recent_blocks: vec![NOWHERE.0; RECENT_BLOCKS].into_boxed_slice(),
        }
    }
}

/// Pages of code and blocks of data by window, for a report.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WindowsReport {
    /// Instructions of a window; the last one may have fewer.
    pub instructions: u64,
    /// By window: pages of 4 KB in which it fetched.
    pub pages: Vec<u64>,
    /// Pages in which it ever fetched.
    pub total_pages: u64,
    /// 64 KB of code each, by process and address: those with the most pages in the most windows, if there are very
    /// many.
    pub rows: Vec<WindowsRow>,
    /// Blocks of 2 MB in which it ever accessed data.
    pub total_blocks: u64,
    /// 2 MB of data each, by process and address: those accessed in the most windows, if there are very many.
    pub blocks: Vec<WindowsBlock>,
}

/// 2 MB of a process's data.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WindowsBlock {
    /// The process.
    pub pid: Pid,
    /// The first address.
    pub addr: u64,
    /// The windows in which it was accessed, as a hexadecimal number: bit 0 is the first window's.
    pub windows: String,
}

/// 64 KB of a process's code.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WindowsRow {
    /// The process.
    pub pid: Pid,
    /// The first address.
    pub addr: u64,
    /// By window: its pages in which it fetched, of 16.
    pub pages: Vec<u8>,
}

impl CodeWindows {
    /// Takes in a part of the trace.
    pub fn take(&mut self, batch: &Batch) {
        for word in &batch.refs {
            if word.is_fetch() {
                let vpn = word.va().vpn();
                if self.recent[vpn.0 as usize % RECENT] != vpn && !self.is_paused {
                    self.mark(vpn);
                }
                self.retire(u64::from(word.instructions()));
            } else if word.is_control() {
                match word.item() {
                    Item::Retire(count) => self.retire(count),
                    Item::Event(index) => self.event(&batch.events[index]),
                    Item::Code(_) | Item::Access(..) => {}
                }
            } else {
                let block = word.va().vpn().0 >> BLOCK_SHIFT;
                if self.recent_blocks[block as usize % RECENT_BLOCKS] != block && !self.is_paused {
                    self.mark_block(block);
                }
            }
        }
    }

    fn mark(&mut self, vpn: Vpn) {
        *self.pages.entry((self.pid, vpn)).or_default() |= 1 << self.window;
        self.recent[vpn.0 as usize % RECENT] = vpn;
    }

    fn mark_block(&mut self, block: u64) {
        *self.blocks.entry((self.pid, block)).or_default() |= 1 << self.window;
        self.recent_blocks[block as usize % RECENT_BLOCKS] = block;
    }

    /// Nothing has the bit of the window that begins, or of another process.
    fn forget(&mut self) {
        self.recent = [NOWHERE; RECENT];
        self.recent_blocks.fill(NOWHERE.0);
    }

    #[inline]
    fn retire(&mut self, count: u64) {
        self.instructions = self.instructions.saturating_add(count);
        while self.instructions >= self.length {
            self.next();
        }
    }

    fn event(&mut self, event: &Event) {
        match *event {
            Event::Switch { pid, .. } if pid != self.pid => {
                self.pid = pid;
                self.forget();
            }
            // What ran before is no part of what is looked at.
            Event::Resume => *self = Self { pid: self.pid, ..Self::default() },
            Event::Pause => self.is_paused = true,
            Event::Continue { .. } => self.is_paused = false,
            _ => {}
        }
    }

    #[cold]
    fn next(&mut self) {
        self.instructions -= self.length;
        self.forget();
        self.window += 1;
        if self.window == WINDOWS {
            let all = self.pages.values_mut().chain(self.blocks.values_mut());
            all.for_each(|windows| *windows = halved(*windows));
            self.window /= 2;
            self.length *= 2;
        }
    }

    /// Pages that ran, window by window.
    pub fn report(&self) -> WindowsReport {
        let windows = (self.window + u32::from(self.instructions > 0)).max(1) as usize;
        let mut pages = vec![0u64; windows];
        let mut rows: BTreeMap<(Pid, u64), Vec<u8>> = BTreeMap::new();
        for (&(pid, vpn), &bits) in &self.pages {
            let row = rows.entry((pid, vpn.0 >> ROW_SHIFT)).or_insert_with(|| vec![0; windows]);
            for window in (0..windows).filter(|window| bits >> window & 1 != 0) {
                pages[window] += 1;
                row[window] += 1;
            }
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        let weight = |row: &[u8]| row.iter().map(|&pages| u64::from(pages)).sum::<u64>();
        rows.sort_by(|(a, x), (b, y)| weight(y).cmp(&weight(x)).then(a.cmp(b)));
        rows.truncate(ROWS);
        rows.sort_by_key(|&(place, _)| place);
        let row = |((pid, row), pages): ((Pid, u64), Vec<u8>)| {
            let addr = Vpn(row << ROW_SHIFT).addr().raw();
            WindowsRow { pid, addr, pages }
        };
        WindowsReport {
            instructions: self.length,
            pages,
            total_pages: self.pages.len() as u64,
            rows: rows.into_iter().map(row).collect(),
            total_blocks: self.blocks.len() as u64,
            blocks: self.listed_blocks(),
        }
    }

    fn listed_blocks(&self) -> Vec<WindowsBlock> {
        let mut found: Vec<_> = self.blocks.iter().map(|(&place, &windows)| (place, windows)).collect();
        found.sort_by(|(a, x), (b, y)| y.count_ones().cmp(&x.count_ones()).then(a.cmp(b)));
        found.truncate(BLOCKS);
        found.sort_by_key(|&(place, _)| place);
        let block = |((pid, block), windows): ((Pid, u64), u128)| WindowsBlock {
            pid,
            addr: Vpn(block << BLOCK_SHIFT).addr().raw(),
            windows: format!("{windows:x}"),
        };
        found.into_iter().map(block).collect()
    }
}

/// Bits 2n and 2n + 1 as bit n.
fn halved(windows: u128) -> u128 {
    (0..WINDOWS / 2).filter(|n| windows >> (2 * n) & 3 != 0).fold(0, |found, n| found | 1 << n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::{Tid, VirtAddr};
    use mmulab_trace::Ref;
    use proptest::prelude::*;

    fn of(words: impl IntoIterator<Item = Ref>) -> CodeWindows {
        let mut windows = CodeWindows::default();
        windows.take(&Batch { refs: words.into_iter().collect(), ..Batch::default() });
        windows
    }

    fn page(number: u64, instructions: u64) -> [Ref; 2] {
        [Ref::fetch(Vpn(number).addr(), 0), Ref::retire(instructions)]
    }

    #[test]
    fn each_window_has_the_pages_that_ran_in_it() {
        let found = of([page(1, FIRST), page(1, 5), page(2, FIRST), page(33, 7)].into_iter().flatten()).report();
        assert_eq!((found.instructions, found.pages.as_slice(), found.total_pages), (FIRST, &[1, 2, 1][..], 3));
        let rows: Vec<_> = found.rows.iter().map(|row| (row.addr, row.pages.clone())).collect();
        assert_eq!(rows, [(0, vec![1, 2, 0]), (32 << 12, vec![0, 0, 1])]);
    }

    #[test]
    fn processes_are_kept_apart_and_counts_begin_anew_where_a_cut_ends() {
        let mut batch = Batch::default();
        let fetch = Ref::fetch(VirtAddr::new(0x1000), 4);
        batch.refs.push(fetch);
        batch.push_event(Event::Switch { pid: Pid(2), tid: Tid(2) });
        batch.refs.push(fetch);
        let mut windows = CodeWindows::default();
        windows.take(&batch);
        assert_eq!(windows.report().total_pages, 2);
        batch.clear();
        batch.push_event(Event::Resume);
        batch.refs.push(fetch);
        windows.take(&batch);
        let found = windows.report();
        assert_eq!((found.total_pages, found.rows[0].pid), (1, Pid(2)));
    }

    #[test]
    fn data_are_kept_by_2_mb_and_window() {
        let (read, write) = (|addr| Ref::read(VirtAddr::new(addr)), |addr| Ref::write(VirtAddr::new(addr)));
        let first = [read(0x20_0000), write(0x3f_ffff), Ref::retire(FIRST)];
        let found = of(first.into_iter().chain([write(0x20_0000), read(0x40_0000), Ref::retire(1)])).report();
        let blocks: Vec<_> = found.blocks.iter().map(|s| (s.addr, s.windows.as_str())).collect();
        assert_eq!(blocks, [(0x20_0000, "3"), (0x40_0000, "2")]);
        assert_eq!((found.total_blocks, found.total_pages), (2, 0));
    }

    proptest! {
        /// However often windows were merged: a page is in a window if and only if it ran in those instructions.
        #[test]
        fn windows_are_those_that_counting_finds(steps in prop::collection::vec((0u64..80, 1u64..9 * FIRST), 1..99)) {
            let found = of(steps.iter().flat_map(|&(number, count)| page(number, count))).report();
            let total: u64 = steps.iter().map(|step| step.1).sum();
            prop_assert_eq!(found.pages.len() as u64, total.div_ceil(found.instructions));
            let mut ran = vec![std::collections::BTreeSet::new(); found.pages.len()];
            let mut at = 0;
            for (number, count) in steps {
                // A page is fetched once, and what it retires counts from there.
                ran[(at / found.instructions) as usize].insert(number);
                at += count;
            }
            prop_assert_eq!(found.pages, ran.iter().map(|pages| pages.len() as u64).collect::<Vec<_>>());
        }
    }
}
