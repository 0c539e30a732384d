//! First-level entries that instructions in flight hold (paper 2, section V-A): a fetch that hits the second level
//! waits if the entry that it must replace is held.
//!
//! ```text
//!   instructions, oldest first   | A A A A | B B | C C C C |            window of 8: A's last two are in flight,
//!                                      '---- in flight ---'            so A's entry is held, as are B's and C's
//! ```

use super::recent::NO_PAGE;
use crate::{ArrayDesc, HoldDesc, key::GLOBAL, pages::Gone};

/// The pages of the instructions in flight, and which arrays they hold entries of.
pub(super) struct InFlight {
    /// By array.
    holds: Vec<Option<HoldDesc>>,
    /// The largest window.
    most: u64,
    /// Instructions that began so far, and that had when the last fetch looked its page up.
    begun: u64,
    asked: u64,
    /// The page that instructions come from.
    page: u64,
    /// The pages that they came from before, each with the number of the last one; in that order.
    left: Vec<(u64, u64)>,
    /// Cycles that the current fetch waits.
    wait: u32,
}

impl InFlight {
    /// Of arrays, if any of them has entries that are held.
    pub fn new(desc: &[ArrayDesc]) -> Option<Box<Self>> {
        let holds: Vec<Option<HoldDesc>> = desc.iter().map(|d| d.hold.clone()).collect();
        let most = holds.iter().flatten().map(|hold| u64::from(hold.instructions)).max()?;
        Some(Box::new(Self { holds, most, begun: 0, asked: 0, page: NO_PAGE, left: Vec::new(), wait: 0 }))
    }

    /// Whether entries of array `index` are held.
    pub fn concerns(&self, index: usize) -> bool {
        self.holds[index].is_some()
    }

    /// `count` instructions more began, on the page fetched last.
    #[inline(always)]
    pub fn begin(&mut self, count: u64) {
        self.begun += count;
    }

    /// Instructions come from `page` now.
    pub fn turn(&mut self, page: u64) {
        self.asked = self.begun;
        if page == self.page {
            return;
        }
        let last = std::mem::replace(&mut self.page, page);
        if last == NO_PAGE {
            return;
        }
        let (begun, most) = (self.begun, self.most);
        self.left.retain(|&(left, at)| left != last && begun - at < most);
        // No more pages than instructions: some traces have fetches without any.
        if self.left.len() as u64 == most {
            self.left.remove(0);
        }
        self.left.push((last, begun));
    }

    /// A reference missed the first level. If the second level has its page, it waits for what that replaces.
    pub fn replacing(&mut self) {
        self.wait = 0;
    }

    /// The fetch waits so long if the second level has its page: another first level, searched for this one, said so.
    pub fn told(&mut self, wait: u32) {
        self.wait = wait;
    }

    /// An entry of array `index` was replaced. A walk may have brought what replaces it: then nobody waits, and the
    /// wait is still that of a fetch whose page the second level has.
    pub fn evicted(&mut self, index: usize, gone: &Gone) {
        let Some(hold) = &self.holds[index] else { return };
        let (first, pages, tag) = (gone.vpn().0, gone.order.base_pages(), gone.asid());
        let is_its = |page: u64| {
            let (vpn, asid) = (page >> 16, page as u16);
            (vpn >= first && vpn - first < pages) && (tag == GLOBAL || tag.0 == asid)
        };
        let in_flight = |&(page, at): &(u64, u64)| self.asked - at < u64::from(hold.instructions) && is_its(page);
        if self.left.iter().any(in_flight) {
            self.wait = hold.cycles;
        }
    }

    /// Cycles that the fetch waits.
    pub fn wait(&self) -> u32 {
        self.wait
    }
}
