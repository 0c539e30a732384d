//! Which frame each page lies in, told when it is first seen there.
//!
//! A small table keeps translations as a TLB does. It drops them when the guest drops its own, on a load of CR3 or CR4
//! and on INVLPG. So it is wrong about a page's frame only where real hardware might be.

use super::ram::Extent;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Translations remembered; a power of two.
const PLACES: usize = 8192;
/// Bits of a place that say in which generation it was filled; the rest are the page's number, of 45 bits.
const GENERATION_BITS: u32 = 19;

/// Orders of pages larger than a base page: 64 KiB, 2 MiB, 32 MiB and 1 GiB.
const LARGE: [u8; 4] = [4, 9, 13, 18];

static REMEMBERED: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
static GENERATION: AtomicU64 = AtomicU64::new(1);

fn place(address: u64) -> (&'static AtomicU64, u64) {
    let page = address >> 12;
    let place = &REMEMBERED[page as usize % PLACES];
    (place, page << GENERATION_BITS | GENERATION.load(Ordering::Relaxed))
}

/// Whether the page's frame is known and was told.
#[inline(always)]
pub fn is_known(address: u64) -> bool {
    let (place, wanted) = place(address);
    place.load(Ordering::Relaxed) == wanted
}

/// It is, from here on.
pub fn remember(address: u64) {
    let (place, wanted) = place(address);
    place.store(wanted, Ordering::Relaxed);
}

/// The guest dropped translations.
pub fn forget() {
    let next = (GENERATION.load(Ordering::Relaxed) + 1) % (1 << GENERATION_BITS);
    if next == 0 {
        REMEMBERED.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    }
    GENERATION.store(next.max(1), Ordering::Relaxed);
}

/// The frames of an address space that the trace has: by base page, the frame and the size.
#[derive(Clone, Default)]
pub struct SeenFrames(FxHashMap<u64, (u64, u8)>);

impl SeenFrames {
    /// Notes that the page of `order` at base page `page` lies in frame `pfn`; whether that is news.
    pub fn note(&mut self, page: u64, pfn: u64, order: u8) -> bool {
        if self.0.get(&page) == Some(&(pfn, order)) {
            return false;
        }
        self.0.insert(page, (pfn, order));
        if order > 0 {
            // Its base pages may come back one day, at the same place.
            for i in 1..1u64 << order {
                self.0.remove(&(page + i));
            }
        }
        for large in LARGE.into_iter().filter(|&large| large > order) {
            let first = page >> large << large;
            if first != page && self.0.get(&first).is_some_and(|&(_, order)| order == large) {
                self.0.remove(&first);
            }
        }
        true
    }

    /// Of what is mapped, what was not told; noted as told.
    pub fn news(&mut self, mapped: &[Extent]) -> Vec<Extent> {
        let mut out: Vec<Extent> = Vec::new();
        for extent in mapped {
            let pages = 1u64 << extent.order;
            let mut before = false;
            for i in 0..extent.count {
                let (page, pfn) = ((extent.address >> 12) + i * pages, extent.pfn + i * pages);
                let is_new = self.note(page, pfn, extent.order);
                match out.last_mut().filter(|_| before && is_new) {
                    Some(last) => last.count += 1,
                    None if is_new => out.push(Extent { address: page << 12, pfn, order: extent.order, count: 1 }),
                    None => {}
                }
                before = is_new;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_told_once_and_again_when_it_moved() {
        let mut told = SeenFrames::default();
        assert!(told.note(0x200, 7, 0) && !told.note(0x200, 7, 0) && told.note(0x200, 8, 0));
        assert!(told.note(0x201, 9, 0));
        assert!(told.note(0x200, 0x400, 9), "collapsed");
        assert!(told.note(0x201, 9, 0), "split again");
        assert!(told.note(0x200, 0x400, 9), "and collapsed again");
        assert!(
            told.note(0x400, 0x40, 4) && told.note(0x403, 0x43, 0) && told.note(0x400, 0x40, 4),
            "as one, split, as one"
        );
        let mapped = Extent { address: 0x1000, pfn: 1, order: 0, count: 4 };
        told.note(2, 2, 0);
        let [a, b] = told.news(&[mapped])[..] else { panic!("before and after the one that was told") };
        assert_eq!((a.address, a.count, b.address, b.pfn, b.count), (0x1000, 1, 0x3000, 3, 2));
    }

    #[test]
    fn what_is_remembered_is_forgotten_when_translations_are_dropped() {
        let address = 0xffff_8880_1234_5678;
        assert!(!is_known(address));
        remember(address);
        assert!(is_known(address) && !is_known(address + 4096));
        forget();
        assert!(!is_known(address));
    }
}
