//! Guessing the size of a page before it is looked up, by the instruction that asks (Papadopoulou and others, HPCA
//! 2014; paper 4, section 5.1): a table of sizes, each the one that the last lookup from there came to.

use crate::{counts::PredictorCounts, desc::PredictorDesc};
use mmulab_addr::VirtAddr;

/// Most entries of a predictor's table: far above any proposed.
const MAX_ENTRIES: u32 = 1 << 16;

/// The table, and what became of its guesses.
pub struct Predictor {
    /// By the low bits of the hashed address: a size number.
    table: Vec<u8>,
    pub counts: PredictorCounts,
}

impl Predictor {
    /// A table that guesses the smallest size everywhere.
    ///
    /// # Errors
    /// Entries that no bits of an address number.
    pub fn new(desc: &PredictorDesc) -> Result<Self, String> {
        let n = desc.entries;
        if !(1..=MAX_ENTRIES).contains(&n) {
            return Err(format!("predictor.entries is {n}: give 1 to {MAX_ENTRIES}"));
        }
        if !n.is_power_of_two() {
            let bits = f64::from(n).log2();
            let (below, above) = (1u32 << n.ilog2(), n.next_power_of_two());
            return Err(format!(
                "predictor.entries is {n}: log2({n}) = {bits:.2} address bits would choose an entry; give {below} or \
                 {above}"
            ));
        }
        Ok(Self { table: vec![0; n as usize], counts: PredictorCounts::default() })
    }

    /// Instructions begin anywhere; the bits above fold into the index so that pages of code do not repeat it.
    #[inline]
    fn index(&self, code: VirtAddr) -> usize {
        let bits = self.table.len().trailing_zeros();
        let folded = code.raw() ^ (code.raw() >> bits.max(1)) ^ (code.raw() >> (2 * bits.max(1)));
        folded as usize & (self.table.len() - 1)
    }

    /// The size number guessed for a lookup by the code at `code`.
    #[inline]
    pub fn guess(&mut self, code: VirtAddr) -> usize {
        self.counts.guesses += 1;
        usize::from(self.table[self.index(code)])
    }

    /// A lookup by the code at `code` found size number `found`, having guessed `guessed`.
    #[inline]
    pub fn found(&mut self, code: VirtAddr, guessed: usize, found: usize) {
        if guessed == found {
            self.counts.right += 1;
        } else {
            self.counts.wrong += 1;
        }
        self.learn(code, found);
    }

    /// The page that the code at `code` wanted is of size number `size`.
    #[inline]
    pub fn learn(&mut self, code: VirtAddr, size: usize) {
        let at = self.index(code);
        self.counts.updates += u64::from(self.table[at] != size as u8);
        self.table[at] = size as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_guesses_what_the_code_last_found() {
        let mut p = Predictor::new(&PredictorDesc { entries: 4, cycles: 0 }).unwrap();
        let code = VirtAddr::new(0x40_1002);
        assert_eq!(p.guess(code), 0);
        p.found(code, 0, 2);
        assert_eq!(p.guess(code), 2);
        p.found(code, 2, 2);
        assert_eq!(p.counts, PredictorCounts { guesses: 2, right: 1, wrong: 1, updates: 1 });
    }

    #[test]
    fn three_entries_are_refused_with_the_arithmetic() {
        let error = Predictor::new(&PredictorDesc { entries: 3, cycles: 0 }).err().unwrap();
        assert!(error.contains("log2(3) = 1.58") && error.contains("give 2 or 4"), "{error}");
    }
}
