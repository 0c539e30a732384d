//! Placement *scattered*: a hash of its process and address chooses the frame of a page, so that neighbouring pages lie
//! apart.
//!
//! No kernel does this. It is the worst case for TLBs that coalesce: beside `neighbour` and `coala`, it bounds what
//! placement can give them. In guests whose memory is fragmented, fresh frames lie nearly so: single frames, between
//! frames that others use.
//!
//! ```text
//! process, page --hash 0--> a frame, or a block of the page's size    free: take it
//!               --hash 1--> another one
//!               ..
//!               --hash 15-> the last try
//!                           else any frame
//! ```
//!
//! A frame depends on nothing that was touched before, so long as it is free. The hashes are not charged to the fault.

use crate::parts::part::{Part, Wrong};
use crate::parts::traits::Placement;
use crate::ranges::Span;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx};
use mmulab_addr::{BASE_SHIFT, PageOrder, Pfn, Pid};
use mmulab_pagetable::hash;

/// Frames tried before the allocator chooses. With nine frames of ten in use, four pages of five are still scattered.
const TRIES: usize = 16;

/// Frames by a hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scattered;

impl Part for Scattered {
    const NAME: &'static str = "scattered";
    const ABOUT: &'static str = "A free frame that a hash of the process and the address chooses, so that neighbouring \
         pages lie apart. No kernel does this: it is the worst case for TLBs that coalesce.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl Scattered {
    /// The block of `order` among `blocks` that a try chooses for a page of a process.
    fn target(pid: Pid, page: u64, attempt: usize, blocks: u64, order: PageOrder) -> Pfn {
        // Page numbers have at most 45 bits.
        let key = u64::from(pid.0).rotate_left(45) ^ page;
        Pfn((hash(key, attempt) % blocks) << order.get())
    }
}

impl Placement for Scattered {
    fn take(&self, space: &mut AddressSpace, cx: &mut Cx, _: &Span<Vma>, at: u64, order: PageOrder) -> Option<Pfn> {
        // At least one: a part is not asked for a page larger than memory.
        let blocks = (cx.memory.frames.total_frames() >> order.get()).max(1);
        let targets = (0..TRIES).map(|attempt| Self::target(space.pid, at >> BASE_SHIFT, attempt, blocks, order));
        for target in targets {
            if cx.memory.take_anon_at(target, order) {
                return Some(target);
            }
        }
        cx.memory.take_anon(order)
    }
}
