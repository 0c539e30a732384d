//! Generator `code-chain`: a microbenchmark for instruction TLBs, with a chain of tiny functions. By default,
//! functions are 2 MB plus 64 bytes apart, each in a superpage of its own. The cache can hold all functions, while the
//! TLB may be too small for their translations.

use super::Describe;
use crate::{
    algorithm::Algorithm,
    layout::Layout,
    memory::{Array, Chain, Memory, Setup},
};
use mmulab_addr::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Functions that call one another in turn, each in a superpage of its own.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodeChainDesc {
    /// Functions. Default 16.
    #[schemars(range(min = 1, max = 4096))]
    functions: u64,
    /// From one function's page to the next. Default 2M.
    #[schemars(extend("x-least" = "4K", "x-most" = "1G", "x-power-of-two" = true))]
    spacing: Bytes,
    /// How much further into its page each function begins than the one before: a multiple of 16. Default 64, so that
    /// they fit in the first cache together.
    #[schemars(range(min = 0, max = 1 << 30))]
    offset: u64,
    /// Times that all functions are called. Default 10k.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    rounds: u64,
}

impl Default for CodeChainDesc {
    fn default() -> Self {
        Self { functions: 16, spacing: Bytes(2 << 20), offset: 64, rounds: 10_000 }
    }
}

impl Describe for CodeChainDesc {
    const NAME: &str = "code-chain";
    type Algorithm = CodeChain;

    fn algorithm(&self) -> Result<CodeChain, String> {
        if !self.offset.is_multiple_of(16) {
            return Err(format!("offset is {}: give a multiple of 16", self.offset));
        }
        Ok(CodeChain::new(self.functions, self.spacing.0, self.offset, self.rounds))
    }
}

/// The microbenchmark of the paper on instruction address translation, section V-A. Trivial functions increment a local
/// variable and go on to the next function. They lie in different but back-to-back superpages, at incrementally higher
/// offsets, so that the cache holds them all and the TLB may not. Offsets begin anew where a page ends.
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

impl Algorithm for CodeChain {
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
