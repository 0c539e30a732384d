//! Anonymous memory objects: what reservations belong to.

use super::cache::ObjectId;
use rustc_hash::FxHashMap;

/// Numbers of objects with this bit are those of files and of shared memory.
const SHOWN: u32 = 1 << 31;

/// The object of a mapping, and which of its pages the mapping begins with.
///
/// Pages are counted so that a page's number and its frame's agree within a reservation. An object has a *colour*,
/// which is added to the page's place in it (`VM_RESERV_INDEX` in sys/vm/vm_reserv.c). For anonymous memory the sum is
/// the virtual page number at which the page was first mapped (`vm_object_color` in `vm_fault_allocate`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Anon {
    /// The object.
    pub object: u32,
    /// The coloured number of the mapping's first page.
    pub at: u64,
}

/// An anonymous object.
#[derive(Clone, Copy, Debug)]
struct Object {
    /// The coloured number of its first page: its colour.
    start: u64,
    /// Address spaces it was given to, by fork, that still live.
    sharers: u32,
}

/// All anonymous objects, and the colours of shared memory.
#[derive(Debug, Default)]
pub struct Objects {
    /// By number; 0 stands for none.
    anon: Vec<Object>,
    colours: FxHashMap<ObjectId, u64>,
}

impl Objects {
    /// A new object whose first page has the coloured number `start`.
    pub fn make(&mut self, start: u64) -> u32 {
        if self.anon.is_empty() {
            self.anon.push(Object { start: 0, sharers: 0 });
        }
        self.anon.push(Object { start, sharers: 1 });
        self.anon.len() as u32 - 1
    }

    /// The coloured number of an object's first page.
    pub fn start(&self, object: u32) -> u64 {
        self.anon[object as usize].start
    }

    /// Whether another address space has it, so that new pages belong to a shadow object (`vm_object_shadow`).
    pub fn is_shared(&self, object: u32) -> bool {
        self.anon[object as usize].sharers > 1
    }

    /// A child has it too.
    pub fn share(&mut self, object: u32) {
        self.anon[object as usize].sharers += 1;
    }

    /// An address space that had it is gone.
    pub fn drop_one(&mut self, object: u32) {
        let object = &mut self.anon[object as usize];
        object.sharers = object.sharers.saturating_sub(1);
    }

    /// The number of a file or of shared memory among objects.
    pub fn shown(id: ObjectId) -> u32 {
        SHOWN | id.0
    }

    /// Whether a number is that of a file or of shared memory.
    pub fn is_shown(object: u32) -> bool {
        object & SHOWN != 0
    }

    /// The colour of shared memory: that of the place where its first page was touched.
    pub fn colour(&mut self, id: ObjectId, page: u64, vpn: u64) -> u64 {
        *self
            .colours
            .entry(id)
            .or_insert_with(|| vpn.wrapping_sub(page) & ((1 << super::reservations::LEVEL_MAX.get()) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_shared_while_two_address_spaces_have_it() {
        let mut objects = Objects::default();
        let object = objects.make(700);
        assert_eq!((object, objects.start(object), objects.is_shared(object)), (1, 700, false));
        objects.share(object);
        assert!(objects.is_shared(object));
        objects.drop_one(object);
        assert!(!objects.is_shared(object));
        // Shared memory keeps the colour of its first touch.
        assert_eq!(objects.colour(ObjectId(3), 2, 1000), 998);
        assert_eq!(objects.colour(ObjectId(3), 9, 77), 998);
    }
}
