//! Entries that must go, or change, for another reason than a fill: invalidations, dirty bits, and what another
//! hardware thread displaces.

use super::Hierarchy;
use crate::Observer;
use mmulab_addr::{Asid, PageOrder, Side, VirtAddr, VirtRange};
use mmulab_pagetable::Invalidate;

impl Hierarchy {
    /// The walker has set the dirty bit of the page that holds `va`: the entries that stores use say so.
    pub fn set_dirty(&mut self, asid: Asid, va: VirtAddr) {
        self.flush_all_recent();
        if let Some(trail) = &mut self.trail {
            trail.dirtied(asid, va);
        }
        for array in self.arrays.iter_mut().filter(|a| a.placement.serves(Side::Data)) {
            array.set_dirty(asid, va.vpn());
        }
    }

    /// Forgets what must not be used any more.
    pub fn invalidate<O: Observer>(&mut self, what: &Invalidate, obs: &mut O) {
        self.flush_all_recent();
        if let Some(trail) = &mut self.trail {
            trail.dropped(what);
        }
        for (index, array) in self.arrays.iter_mut().enumerate() {
            match *what {
                Invalidate::Page { asid, va, order } => {
                    array.drop_range(asid, va.vpn().align_down(order), order.base_pages(), |e| {
                        obs.invalidated(index, e)
                    });
                }
                Invalidate::Range { asid, range, .. } if !range.is_empty() => {
                    let VirtRange { start, .. } = range;
                    let pages = (range.bytes() + start.offset_in(PageOrder::P4K)).div_ceil(mmulab_addr::BASE_BYTES);
                    array.drop_range(asid, start.vpn(), pages, |e| obs.invalidated(index, e));
                }
                Invalidate::Range { .. } => {}
                Invalidate::Asid(asid) => array.drop_space(Some(asid), |e| obs.invalidated(index, e)),
                Invalidate::All => array.drop_space(None, |e| obs.invalidated(index, e)),
            }
        }
    }

    /// A program of which nothing else is known takes places of array `index`: its entries go of which `lose` says so.
    pub fn displace<O: Observer>(&mut self, index: usize, lose: impl FnMut() -> bool, obs: &mut O) {
        self.flush_all_recent();
        self.arrays[index].displace(lose, |entry| obs.evicted(index, entry));
    }
}
