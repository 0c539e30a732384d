//! The latency of memory, which differs from load to load.
//!
//! A load waits longer where its DRAM bank is being refreshed, has another row open, or serves a neighbour. The mean
//! alone is not enough: a core whose window is full waits for the slowest of the loads in it. So loads that do not
//! wait for each other gain less by running at once than their mean latency says.
//!
//! ```text
//! share of loads   0 ......... 0.5 ........ 0.9 .. 0.99 .. 1
//! cycles          low         median                high   highest      linear between the points of `memory_spread`
//! ```
//!
//! If a load waits for its bank, the lines beside it wait, too. So lines of one page that are asked for while another
//! one is on its way take as long as that one. If each line of a stream had a latency of its own, the stream would wait
//! for the slowest line again and again.
//!
//! ```text
//! time         0         100        200        300
//! line 0       |--------- 200 --------|
//! line 1         |--------- 200 --------|                  asked for while line 0 was on its way
//! line 2                                  |--- 120 ---|    drawn anew
//! ```

use mmulab_addr::{BASE_BYTES, GOLDEN, LINE_BYTES, mix};

/// Lines of a page.
const LINES: u64 = BASE_BYTES / LINE_BYTES;
/// Pages whose lines on their way are known. Pages with the same number modulo this share an entry.
const PAGES: usize = 64;

/// Parts of equal chance that the distribution is divided into.
const PARTS: usize = 1024;
/// Bits of a drawn number that do not choose the part.
const REST: u32 = u64::BITS - PARTS.ilog2();

/// Latencies of memory, drawn one after the other.
#[derive(Clone, Debug)]
pub struct Latency {
    mean: u32,
    /// Latency of each part; empty where all loads take the mean.
    parts: Box<[u32]>,
    drawn: u64,
    pages: [Page; PAGES],
}

/// A page of which a line is on its way.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// Its number and 1; 0 for none.
    number: u64,
    /// When the line is there for which `cycles` were drawn.
    until: u64,
    cycles: u32,
}

impl Latency {
    /// Latencies whose mean is `mean` cycles, and whose quantiles are in the ratios of `spread`: see
    /// [`crate::CacheRules::memory_spread`].
    ///
    /// # Errors
    /// The mistake in `spread`, in words that follow its name.
    pub fn new(mean: u32, spread: &[[f64; 2]]) -> Result<Self, String> {
        let even = Self { mean, parts: Box::default(), drawn: 0, pages: [Page::default(); PAGES] };
        let (Some(first), Some(last)) = (spread.first(), spread.last()) else { return Ok(even) };
        if first[0] != 0.0 || last[0] != 1.0 {
            return Err(format!("goes from share {} to {}: it must go from 0 to 1", first[0], last[0]));
        }
        if let Some(pair) = spread.windows(2).find(|pair| pair[0][0] >= pair[1][0]) {
            return Err(format!("share {} is followed by {}: shares must rise", pair[0][0], pair[1][0]));
        }
        if let Some(pair) = spread.windows(2).find(|pair| pair[0][1] > pair[1][1]) {
            return Err(format!("latency {} is followed by {}: latencies must not fall", pair[0][1], pair[1][1]));
        }
        let ratios: Vec<f64> = (0..PARTS).map(|part| at(spread, (part as f64 + 0.5) / PARTS as f64)).collect();
        let sum = ratios.iter().sum::<f64>();
        if first[1] < 0.0 || sum <= 0.0 || !sum.is_finite() {
            return Err("has a latency below 0, or next to none above it".into());
        }
        let scale = f64::from(mean) * PARTS as f64 / sum;
        let parts = ratios.into_iter().map(|ratio| (ratio * scale).round() as u32).collect();
        Ok(Self { parts, ..even })
    }

    /// The latency of `line`, asked for at `now`, in cycles. At 0 there is no clock, and every line has its own.
    #[inline(always)]
    pub fn of(&mut self, line: u64, now: u64) -> u32 {
        if self.parts.is_empty() {
            return self.mean;
        }
        let number = line / LINES + 1;
        let page = &mut self.pages[number as usize % PAGES];
        if now > 0 && page.number == number && now < page.until {
            return page.cycles;
        }
        self.drawn += 1;
        let cycles = self.parts[(mix(self.drawn.wrapping_mul(GOLDEN)) >> REST) as usize];
        *page = Page { number, until: now + u64::from(cycles), cycles };
        cycles
    }
}

/// The latency that the share `wanted` of loads does not exceed, between 0 and 1.
fn at(spread: &[[f64; 2]], wanted: f64) -> f64 {
    let behind = spread.partition_point(|point| point[0] < wanted).clamp(1, spread.len() - 1);
    let ([from, low], [to, high]) = (spread[behind - 1], spread[behind]);
    low + (high - low) * (wanted - from) / (to - from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(mean: u32, spread: &[[f64; 2]]) -> Vec<u32> {
        let mut latency = Latency::new(mean, spread).unwrap();
        let mut all: Vec<u32> = (0..100_000).map(|page| latency.of(page * LINES, page * 1000)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn without_a_spread_every_load_takes_the_mean() {
        assert_eq!(drawn(300, &[]), vec![300; 100_000]);
    }

    #[test]
    fn latencies_have_the_mean_and_the_quantiles_asked_for() {
        // Nine of ten take 1, and the slowest one from 1 to 11: the mean is 1.5, which stands for 300 cycles.
        let all = drawn(300, &[[0.0, 1.0], [0.9, 1.0], [1.0, 11.0]]);
        let mean = all.iter().map(|&c| f64::from(c)).sum::<f64>() / all.len() as f64;
        assert!((mean - 300.0).abs() < 3.0, "{mean}");
        assert_eq!((all[0], all[89_000]), (200, 200));
        // Half of the last tenth is below 6.
        assert!((1_170..1_230).contains(&all[95_000]), "{}", all[95_000]);
        assert!((2_100..=2_200).contains(&all[99_999]), "{}", all[99_999]);
    }

    #[test]
    fn lines_of_a_page_that_are_on_their_way_together_take_as_long() {
        let mut latency = Latency::new(300, &[[0.0, 1.0], [1.0, 9.0]]).unwrap();
        let first = latency.of(64, 1000);
        assert_eq!([latency.of(65, 1001), latency.of(127, 999 + u64::from(first))], [first; 2]);
        let drawn = latency.drawn;
        // One of another page, and of the same page once the first has come.
        latency.of(128, 1001);
        latency.of(66, 1000 + u64::from(first));
        assert_eq!((drawn, latency.drawn), (1, 3));
        // Without a clock every line has its own.
        let own: Vec<u32> = (0..8).map(|line| latency.of(line, 0)).collect();
        assert!(own.windows(2).any(|pair| pair[0] != pair[1]) && latency.drawn == 11);
    }

    #[test]
    fn a_spread_that_cannot_be_is_refused() {
        let wrong = |spread: &[[f64; 2]]| Latency::new(100, spread).unwrap_err();
        assert_eq!(wrong(&[[0.1, 1.0], [1.0, 2.0]]), "goes from share 0.1 to 1: it must go from 0 to 1");
        assert_eq!(
            wrong(&[[0.0, 1.0], [0.5, 1.0], [0.5, 2.0], [1.0, 2.0]]),
            "share 0.5 is followed by 0.5: shares must rise"
        );
        assert_eq!(wrong(&[[0.0, 2.0], [1.0, 1.0]]), "latency 2 is followed by 1: latencies must not fall");
        assert_eq!(wrong(&[[0.0, 0.0], [1.0, 0.0]]), "has a latency below 0, or next to none above it");
        assert_eq!(wrong(&[[0.0, 1.0]]), "goes from share 0 to 0: it must go from 0 to 1");
    }
}
