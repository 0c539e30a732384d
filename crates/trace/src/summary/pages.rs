//! Touched-page bitmaps of a trace summary: distinct pages are counted in memory that grows with the pages touched,
//! not with the length of the trace.
//!
//! ```text
//! bitmaps of one span of 512 pages     fetched (code)    loaded or stored (data)
//! since the page was last mapped       0                 1
//! ever                                 2                 3
//! ```

use mmulab_addr::Vpn;
use rustc_hash::FxHashMap;

/// Pages of one bitmap: as many as one page table holds.
const SPAN: u64 = 512;
type Bits = [u64; (SPAN / 64) as usize];

/// For each page, four bits: fetched from, or loaded from or stored to, ever and since it was last mapped.
#[derive(Default)]
pub(super) struct Pages {
    spans: FxHashMap<u64, [Bits; 4]>,
}

/// Numbers of pages.
#[derive(Clone, Copy, Default)]
pub(super) struct Distinct {
    pub code: u64,
    pub data: u64,
    pub either: u64,
}

const EVER: usize = 2;

impl Pages {
    /// Marks a page as touched; true if it had not been since it was last mapped.
    pub fn touch(&mut self, vpn: Vpn, code: bool) -> bool {
        let span = self.spans.entry(vpn.0 / SPAN).or_default();
        let (word, bit) = ((vpn.0 % SPAN / 64) as usize, 1u64 << (vpn.0 % 64));
        let side = usize::from(!code);
        span[EVER + side][word] |= bit;
        let new = span[side][word] & bit == 0;
        span[side][word] |= bit;
        new
    }

    /// Blocks of [`SPAN`] pages of which any was touched.
    pub fn blocks(&self) -> usize {
        self.spans.len()
    }

    /// The pages from `start` up to `end` are mapped anew.
    pub fn forget(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let spans = start / SPAN..=(end - 1) / SPAN;
        let clear = |number: u64, span: &mut [Bits; 4]| {
            let first = number * SPAN;
            for page in start.max(first)..end.min(first + SPAN) {
                let keep = !(1u64 << (page % 64));
                let word = (page % SPAN / 64) as usize;
                span[0][word] &= keep;
                span[1][word] &= keep;
            }
        };
        // Whichever is less: the spans of the range, or those there are.
        if spans.end() - spans.start() < self.spans.len() as u64 {
            for number in spans {
                self.spans.get_mut(&number).into_iter().for_each(|span| clear(number, span));
            }
        } else {
            self.spans.iter_mut().filter(|(n, _)| spans.contains(n)).for_each(|(&n, span)| clear(n, span));
        }
    }

    /// The pages touched since they were last mapped.
    pub fn in_use(&self) -> u64 {
        let count = |[code, data, ..]: &[Bits; 4]| {
            code.iter().zip(data).map(|(code, data)| u64::from((code | data).count_ones())).sum::<u64>()
        };
        self.spans.values().map(count).sum()
    }

    /// The pages ever touched.
    pub fn distinct(&self) -> Distinct {
        let mut all = Distinct::default();
        for [_, _, code, data] in self.spans.values() {
            for (code, data) in code.iter().zip(data) {
                all.code += u64::from(code.count_ones());
                all.data += u64::from(data.count_ones());
                all.either += u64::from((code | data).count_ones());
            }
        }
        all
    }
}
