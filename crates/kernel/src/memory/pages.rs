//! The kernel's data of each frame in use: the number of its users, and its use.

use super::per_frame::PerFrame;
use crate::report::region::RegionId;
use mmulab_addr::{PageOrder, Pfn};

/// Use of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Use {
    /// Nothing the kernel maps.
    #[default]
    None,
    /// A page of a process's own, copied on write when shared.
    Anon,
    /// A page of a file or of shared memory.
    Cache,
}

/// One frame, as Linux's `struct page`.
#[derive(Clone, Copy, Default, Debug)]
pub struct Page {
    /// Users: mappings, and the page cache. Of a compound page only the first frame's counts.
    pub refs: u32,
    /// The order of the compound page this is the first frame of; 0 for a base page.
    pub order: u8,
    /// The order of the compound page that it was allocated in, once that is counted page by page.
    pub folio: u8,
    /// Its use.
    pub used: Use,
    /// Taken from the hugetlb pool.
    pub pooled: bool,
    /// A cache page with contents its file does not have yet.
    pub dirty: bool,
    /// With reservations: the object it was taken for; 0 for none.
    pub object: u32,
    /// The region it is resident for.
    pub region: RegionId,
}

/// All frames.
pub struct Pages(PerFrame<Page>);

impl Pages {
    /// For a memory of this number of frames.
    pub fn new(frames: u64) -> Self {
        Self(PerFrame::new(frames))
    }

    /// Data of a frame.
    #[inline]
    pub fn get(&self, pfn: Pfn) -> Page {
        self.0.get(pfn)
    }

    /// The same, to be changed. The frame is one the allocator handed out.
    #[inline]
    pub fn get_mut(&mut self, pfn: Pfn) -> &mut Page {
        self.0.get_mut(pfn)
    }

    /// Whether `pfn` begins a compound page of `order`, or is a base page.
    pub fn is_whole(&self, pfn: Pfn, order: PageOrder) -> bool {
        self.get(pfn).order == order.get()
    }

    /// One more user of the `order` frames from `pfn`.
    pub fn share(&mut self, pfn: Pfn, order: PageOrder) {
        if self.is_whole(pfn, order) {
            self.get_mut(pfn).refs += 1;
        } else {
            for i in 0..order.base_pages() {
                self.get_mut(Pfn(pfn.0 + i)).refs += 1;
            }
        }
    }

    /// Whether the `order` frames from `pfn` have one user only.
    pub fn is_exclusive(&self, pfn: Pfn, order: PageOrder) -> bool {
        if self.is_whole(pfn, order) {
            self.get(pfn).refs == 1
        } else {
            (0..order.base_pages()).all(|i| self.get(Pfn(pfn.0 + i)).refs == 1)
        }
    }

    /// Counts each frame of a compound page by itself from now on, so that parts of it can go.
    pub fn break_up(&mut self, pfn: Pfn, order: PageOrder) {
        if order == PageOrder::P4K || !self.is_whole(pfn, order) {
            return;
        }
        let page = Page { order: 0, folio: order.get(), ..self.get(pfn) };
        for i in 0..order.base_pages() {
            *self.get_mut(Pfn(pfn.0 + i)) = page;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_compound_page_keeps_its_users_frame_by_frame() {
        let mut pages = Pages::new(4096);
        let (head, huge) = (Pfn(512), PageOrder::P2M);
        *pages.get_mut(head) = Page { refs: 1, order: 9, used: Use::Anon, ..Page::default() };
        pages.share(head, huge);
        assert!(!pages.is_exclusive(head, huge));
        pages.break_up(head, huge);
        assert_eq!(pages.get(Pfn(1023)).refs, 2);
        for i in 512..1024 {
            pages.get_mut(Pfn(i)).refs -= 1;
        }
        assert!(pages.is_exclusive(head, huge) && pages.is_exclusive(Pfn(700), PageOrder::P4K));
        pages.share(Pfn(513), PageOrder::P4K);
        assert!(!pages.is_exclusive(head, huge));
    }
}
