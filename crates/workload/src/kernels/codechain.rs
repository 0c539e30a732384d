use super::Describe;
use crate::{
    kernel::Kernel,
    layout::Layout,
    memory::{Array, Chain, Memory, Setup},
    query::{between, within},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Functions that call one another in turn, each in a superpage of its own.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodeChainDesc {
    /// Functions, from 1 to 4096. Default 16.
    functions: u64,
    /// From one function's page to the next: a power of two from 4K to 1G. Default 2M.
    spacing: String,
    /// How much further into its page each function begins than the one before: a multiple of 16. Default 64, so that they
    /// fit in the first cache together.
    offset: u64,
    /// Times that all functions are called. Default 10k.
    rounds: u64,
}

impl Default for CodeChainDesc {
    fn default() -> Self {
        Self { functions: 16, spacing: "2M".into(), offset: 64, rounds: 10_000 }
    }
}

impl Describe for CodeChainDesc {
    const NAME: &str = "code-chain";
    type Kernel = CodeChain;

    fn kernel(&self) -> Result<CodeChain, String> {
        let functions = between("functions", self.functions, 1, 4096)?;
        let spacing = within("spacing", &self.spacing, 4096, 1 << 30)?;
        if !spacing.is_power_of_two() {
            return Err(format!("spacing is '{}': give a power of two", self.spacing));
        }
        if !self.offset.is_multiple_of(16) {
            return Err(format!("offset is {}: give a multiple of 16", self.offset));
        }
        Ok(CodeChain::new(functions, spacing, self.offset, self.rounds))
    }
}

/// The microbenchmark of the paper on instruction address translation, section V-A: trivial functions that do nothing but
/// increment a local variable and go on to the next one, mapped into different but back-to-back superpages, at incrementally
/// higher offsets, so that the cache holds them all and the TLB may not. Offsets begin anew where a page ends.
#[derive(Clone)]
pub struct CodeChain {
    layout: Layout,
    chain: Chain,
    local: Array<u64>,
    rounds: u64,
}

impl CodeChain {
    /// `functions`, `spacing` bytes apart and `offset` more.
    pub fn new(functions: u64, spacing: u64, offset: u64, rounds: u64) -> Self {
        let mut layout = Layout::default();
        let local = layout.array(1);
        let base = layout.code(functions * spacing);
        Self { layout, chain: Chain { base, functions, spacing, offset }, local, rounds }
    }
}

impl Kernel for CodeChain {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.rounds)
    }

    fn instructions_before(&self, round: u64) -> Option<u64> {
        round.checked_mul(self.chain.functions * Chain::INSTRUCTIONS)
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.local, |_| 0);
        setup.code(&self.chain);
    }

    fn seek(&mut self, _round: u64) -> bool {
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        m.call(&self.chain, self.local);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model;

    #[test]
    fn each_function_is_in_a_superpage_of_its_own_and_all_of_them_fit_in_the_cache() {
        let k = CodeChain::new(9, 2 << 20, 64, 1);
        let at: Vec<u64> = (0..9).map(|i| k.chain.at(i)).collect();
        assert!(at.windows(2).all(|w| w[1] - w[0] == (2 << 20) + 64));
        assert!(at[0].is_multiple_of(2 << 20));
        // A cache of 64 sets of 64 bytes has each in a set of its own.
        let sets: std::collections::BTreeSet<_> = at.iter().map(|a| a / 64 % 64).collect();
        assert_eq!(sets.len(), 9);
        let mut found = model(CodeChain::new(9, 4096, 64, 10));
        assert_eq!(found.array(|k| k.local), [90]);
        let last = CodeChain::new(4096, 4096, 64, 1).chain;
        assert!((0..4096).all(|i| last.at(i) % 4096 + 16 <= 4096), "none crosses a page");
    }
}
