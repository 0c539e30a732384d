//! Batches: the unit in which a trace source hands decoded references to the simulator. One packed word per reference
//! keeps the main loop fast. Rare data lie in side arrays, and control words hold an index into them.
//!
//! ```text
//! refs      | code 0 | fetch | read | event 0 | fetch | write | ...
//!               |                       |
//! code      | 0: Code |                 |
//! events    | 0: Event | <--------------'
//! ```

use crate::{Code, Event, Item, Ref};
use mmulab_addr::{Access, BASE_BYTES, VirtAddr};
use std::sync::Arc;

/// An interval of a trace, decoded: one word per reference, events beside them.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    /// References and control words, in order.
    pub refs: Vec<Ref>,
    /// Events that control words point at.
    pub events: Vec<Event>,
    /// Code that control words point at, if its source was asked for it: see [`crate::Source::tell_code`].
    pub code: Vec<Arc<Code>>,
}

impl Batch {
    /// References a source aims to put in one batch. These are 128 KiB of words, which stay in a core's second-level
    /// cache while several machines run over them.
    pub const TARGET: usize = 16 * 1024;

    /// Empties it, keeping the memory.
    pub fn clear(&mut self) {
        self.refs.clear();
        self.events.clear();
        self.code.clear();
    }

    /// Whether a source should hand it over.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.refs.len() >= Self::TARGET
    }

    /// Instructions and references in it.
    pub fn counts(&self) -> (u64, u64) {
        self.refs.iter().fold((0u64, 0), |(instructions, references), word| match word.item() {
            Item::Access(_, _, n) => (instructions.wrapping_add(u64::from(n)), references + 1),
            Item::Retire(n) => (instructions.wrapping_add(n), references),
            Item::Event(_) | Item::Code(_) => (instructions, references),
        })
    }

    /// The block that the thread of word `at` ran before; none if its turn, its program or this batch begins with that
    /// word. Looks at words from there back to that block's.
    pub fn block_before(&self, at: usize) -> Option<VirtAddr> {
        for word in self.refs[..at].iter().rev() {
            if word.is_fetch() {
                return Some(word.va());
            }
            if let Item::Event(index) = word.item()
                && matches!(self.events[index], Event::Switch { .. } | Event::Exec { .. })
            {
                return None;
            }
        }
        None
    }

    /// Appends an event.
    pub fn push_event(&mut self, event: Event) {
        self.refs.push(Ref::event(self.events.len()));
        self.events.push(event);
    }

    /// Says that what follows executes `code`.
    pub fn push_code(&mut self, code: &Arc<Code>) {
        self.refs.push(Ref::code(self.code.len()));
        self.code.push(Arc::clone(code));
    }

    /// As [`Batch::push_code`], for a maker that executes the same code many times: `place` is where it put `code`
    /// last, in this batch or in another. So a batch holds each block of its maker once.
    #[inline]
    pub fn push_code_again(&mut self, code: &Arc<Code>, place: &mut u32) {
        if !self.code.get(*place as usize).is_some_and(|there| Arc::ptr_eq(there, code)) {
            *place = self.code.len() as u32;
            self.code.push(Arc::clone(code));
        }
        self.refs.push(Ref::code(*place as usize));
    }

    /// Appends the execution of a block of `bytes` code bytes: one fetch per page it touches.
    #[inline]
    pub fn push_block(&mut self, va: VirtAddr, bytes: u64, instructions: u32) {
        self.refs.push(Ref::fetch(va, instructions.min(Ref::MAX_BLOCK)));
        if instructions > Ref::MAX_BLOCK {
            self.refs.push(Ref::retire(u64::from(instructions - Ref::MAX_BLOCK)));
        }
        self.cross(va, bytes, |va| Ref::fetch(va, 0));
    }

    /// Appends a load or store of `bytes`: one reference per page it touches.
    #[inline]
    pub fn push_data(&mut self, va: VirtAddr, bytes: u64, write: bool) {
        let make = if write { Ref::write } else { Ref::read };
        self.refs.push(make(va));
        self.cross(va, bytes, make);
    }

    /// Appends one reference, which retires no instruction: it stands for uses of a page that were left out.
    pub fn push_use(&mut self, va: VirtAddr, access: Access) {
        self.refs.push(match access {
            Access::Fetch => Ref::fetch(va, 0),
            Access::Read => Ref::read(va),
            Access::Write => Ref::write(va),
        });
    }

    #[inline(always)]
    fn cross(&mut self, va: VirtAddr, bytes: u64, make: impl Fn(VirtAddr) -> Ref) {
        let mut left = BASE_BYTES - (va.raw() & (BASE_BYTES - 1));
        while bytes > left {
            self.refs.push(make(va.add(left)));
            left += BASE_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_across_a_page_boundary_is_two_references() {
        let mut b = Batch::default();
        b.push_data(VirtAddr::new(0x1ffe), 4, true);
        b.push_data(VirtAddr::new(0x1ffc), 4, false);
        b.push_block(VirtAddr::new(0x2ff0), 0x20, 40);
        let vas: Vec<_> = b.refs.iter().map(|r| r.item()).collect();
        assert_eq!(vas.len(), 6);
        assert!(matches!(vas[1], Item::Access(_, va, _) if va.raw() == 0x2000));
        assert_eq!(vas[4], Item::Retire(9));
        assert!(matches!(vas[5], Item::Access(_, va, 0) if va.raw() == 0x3000));
    }

    #[test]
    fn code_that_is_executed_again_is_held_once() {
        let [one, other] = [1, 2].map(|n| Arc::new(Code::new(crate::Body::Unknown, 4, n, [])));
        let (mut b, mut places) = (Batch::default(), [0; 2]);
        for (code, place) in [(&one, 0), (&other, 1), (&one, 0), (&other, 1)] {
            b.push_code_again(code, &mut places[place]);
        }
        let told: Vec<_> = b.refs.iter().map(|r| r.item()).collect();
        assert_eq!(told, [0, 1, 0, 1].map(Item::Code));
        assert_eq!(b.code, [one, Arc::clone(&other)]);
        // In the next batch its place is another one.
        b.clear();
        b.push_code_again(&other, &mut places[1]);
        assert_eq!((b.refs[0].item(), places), (Item::Code(0), [0, 0]));
    }

    #[test]
    fn the_block_before_is_the_same_threads() {
        let mut b = Batch::default();
        b.push_block(VirtAddr::new(0x1000), 8, 40);
        b.push_data(VirtAddr::new(0x9000), 4, true);
        b.push_event(Event::Munmap { addr: VirtAddr::new(0), len: 1 });
        b.push_block(VirtAddr::new(0x2ffc), 8, 2);
        b.push_event(Event::Switch { pid: mmulab_addr::Pid(1), tid: mmulab_addr::Tid(2) });
        b.push_block(VirtAddr::new(0x4000), 8, 2);
        let before: Vec<_> = (0..b.refs.len())
            .filter(|&at| b.refs[at].is_fetch())
            .map(|at| b.block_before(at).map(VirtAddr::raw))
            .collect();
        assert_eq!(before, [None, Some(0x1000), Some(0x2ffc), None]);
    }
}
