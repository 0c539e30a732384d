//! A binary heap in an algorithm's memory, the smallest key first (Knuth, TAOCP vol. 3, section 5.2.3).

use crate::{
    layout::Layout,
    memory::{Kept, Memory},
};

/// Entries of a key and a value, side by side.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    keys: Kept<u64>,
    values: Kept<u64>,
    len: u64,
    /// The first of its blocks of code; it has three.
    site: u64,
}

const ENTRY_BYTES: u64 = 16;

impl Heap {
    /// For up to `capacity` entries.
    pub fn new(layout: &mut Layout, capacity: u64, site: u64) -> Self {
        let entries = layout.records(capacity, ENTRY_BYTES);
        let (keys, values) = (layout.keep(entries.field(0)), layout.keep(entries.field(8)));
        Self { keys, values, len: 0, site }
    }

    /// Entries in it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    #[inline(always)]
    fn put(&self, m: &mut impl Memory, at: u64, (key, value): (u64, u64)) {
        m.put(self.keys, at, key);
        m.put(self.values, at, value);
    }

    /// Puts an entry in; the caller sees to it that there is room.
    #[inline(always)]
    pub fn push(&mut self, m: &mut impl Memory, key: u64, value: u64) {
        let mut at = self.len;
        self.len += 1;
        m.block(self.site, 8);
        while at > 0 {
            let parent = (at - 1) / 2;
            m.block(self.site + 1, 9);
            let above = m.get(self.keys, parent);
            if above <= key {
                break;
            }
            let value = m.get(self.values, parent);
            self.put(m, at, (above, value));
            at = parent;
        }
        self.put(m, at, (key, value));
    }

    /// Takes the entry with the smallest key out.
    #[inline(always)]
    pub fn pop(&mut self, m: &mut impl Memory) -> Option<(u64, u64)> {
        self.len = self.len.checked_sub(1)?;
        m.block(self.site, 8);
        let first = (m.get(self.keys, 0), m.get(self.values, 0));
        let last = (m.get(self.keys, self.len), m.get(self.values, self.len));
        let mut at = 0;
        loop {
            let mut child = 2 * at + 1;
            m.block(self.site + 2, 12);
            if child >= self.len {
                break;
            }
            let mut key = m.get(self.keys, child);
            if child + 1 < self.len {
                let right = m.get(self.keys, child + 1);
                if right < key {
                    (child, key) = (child + 1, right);
                }
            }
            if last.0 <= key {
                break;
            }
            let value = m.get(self.values, child);
            self.put(m, at, (key, value));
            at = child;
        }
        self.put(m, at, last);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{emit::Emit, memory::Contents, seed::nth};

    #[test]
    fn entries_come_out_in_order() {
        let mut layout = Layout::default();
        let mut heap = Heap::new(&mut layout, 1000, 0);
        let (mut refs, mut contents) = (Vec::new(), Contents::new(layout.kept_bytes() as usize));
        let mut m = Emit::new(&mut refs, &mut contents);
        let mut model = std::collections::BinaryHeap::new();
        for i in 0..1000u64 {
            heap.push(&mut m, nth(1, i) % 500, i);
            model.push(std::cmp::Reverse(nth(1, i) % 500));
            if i % 3 == 0 {
                assert_eq!(heap.pop(&mut m).map(|e| e.0), model.pop().map(|r| r.0));
            }
        }
        while let Some(std::cmp::Reverse(key)) = model.pop() {
            let (found, value) = heap.pop(&mut m).unwrap();
            assert_eq!((found, nth(1, value) % 500), (key, key));
        }
        assert_eq!((heap.pop(&mut m), heap.len()), (None, 0));
    }
}
