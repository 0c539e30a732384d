//! The guest's memory, which is a part of QEMU's, and what the guest's page tables say of it (Intel SDM volume 3, 4.5: four
//! levels; the launcher turns five off).

use mmulab_addr::PageOrder;

/// The memory file that the launcher has QEMU make, as it is named in QEMU's own memory map.
const NAME: &str = "memory-backend-memfd";
/// QEMU's PC (hw/i386/pc_piix.c, pc_init1) has memory up to this address, or, if there is more than that ...
const LOW_WHOLE: u64 = 0xe000_0000;
/// ... up to this one, and the rest from 4 GiB on.
const LOW_SPLIT: u64 = 0xc000_0000;
const HIGH: u64 = 1 << 32;

const PAGE: u64 = 4096;
const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// Of the root's 512 entries, those of user addresses.
const USER_ENTRIES: u64 = 256;

/// The guest's memory.
pub struct Ram {
    base: *const u8,
    bytes: u64,
    low: u64,
}

// SAFETY: it is memory that QEMU shares among all of its threads; every read of it is volatile.
unsafe impl Send for Ram {}

/// Pages that lie one after the other in both memories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Where in the address space.
    pub address: u64,
    /// The first frame.
    pub pfn: u64,
    /// Of each page.
    pub order: u8,
    /// Pages.
    pub count: u64,
}

impl Ram {
    /// Finds it in this process.
    pub fn find() -> Option<Self> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let (mut start, mut end) = (u64::MAX, 0);
        for line in maps.lines().filter(|line| line.contains(NAME)) {
            let (from, to) = line.split(' ').next()?.split_once('-')?;
            start = start.min(u64::from_str_radix(from, 16).ok()?);
            end = end.max(u64::from_str_radix(to, 16).ok()?);
        }
        let bytes = end.checked_sub(start)?;
        Some(Self { base: start as *const u8, bytes, low: if bytes >= LOW_WHOLE { LOW_SPLIT } else { bytes } })
    }

    /// The number at a physical address.
    fn number(&self, physical: u64) -> Option<u64> {
        let at = match physical {
            _ if physical < self.low => physical,
            _ if physical >= HIGH => physical - HIGH + self.low,
            _ => return None,
        };
        // SAFETY: aligned as page-table entries are, or read where the caller knows a number; inside the memory.
        (at + 8 <= self.bytes).then(|| unsafe { self.base.add(at as usize).cast::<u64>().read_unaligned() })
    }

    /// Where `address` lies under `root`: its physical address, and the order of its page.
    pub fn translate(&self, root: u64, address: u64) -> Option<(u64, u8)> {
        let mut table = root & ADDRESS;
        for level in (0..4u32).rev() {
            let shift = 12 + 9 * level;
            let entry = self.number(table + (address >> shift & 511) * 8).filter(|e| e & PRESENT != 0)?;
            if level == 0 || level < 3 && entry & LARGE != 0 {
                let inside = (1u64 << shift) - 1;
                return Some((entry & ADDRESS & !inside | address & inside, 9 * level as u8));
            }
            table = entry & ADDRESS;
        }
        None
    }

    /// Reads memory of an address space; how many bytes there are up to the first page that is not there.
    pub fn read(&self, root: u64, address: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len() {
            let here = address.wrapping_add(done as u64);
            let Some((physical, _)) = self.translate(root, here) else { break };
            let room = ((PAGE - here % PAGE) as usize).min(into.len() - done);
            for i in 0..room {
                let at = physical + i as u64;
                let Some(word) = self.number(at & !7) else { return done + i };
                into[done + i] = (word >> (8 * (at & 7))) as u8;
            }
            done += room;
        }
        done
    }

    /// The number at an address of an address space.
    pub fn u64(&self, root: u64, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read(root, address, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
    }

    /// The text at an address, up to its zero byte.
    pub fn text(&self, root: u64, address: u64) -> Option<String> {
        let mut bytes = vec![0; PAGE as usize];
        let got = self.read(root, address, &mut bytes);
        let end = bytes[..got].iter().position(|&b| b == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// All that user addresses translate to under `root`, in order.
    pub fn mapped(&self, root: u64) -> Vec<Stretch> {
        let mut out = Vec::new();
        for entry in 0..USER_ENTRIES {
            self.below(root & ADDRESS, 3, entry, 0, &mut out);
        }
        out
    }

    fn below(&self, table: u64, level: u32, index: u64, base: u64, out: &mut Vec<Stretch>) {
        let Some(entry) = self.number(table + index * 8).filter(|e| e & PRESENT != 0) else { return };
        let shift = 12 + 9 * level;
        let address = base | index << shift;
        if level > 0 && (level == 3 || entry & LARGE == 0) {
            (0..512).for_each(|i| self.below(entry & ADDRESS, level - 1, i, address, out));
            return;
        }
        let (pfn, order) = ((entry & ADDRESS & !((1 << shift) - 1)) >> 12, 9 * level as u8);
        let pages = 1u64 << order;
        if let Some(last) = out.last_mut()
            && last.order == order
            && last.address + last.count * pages * PAGE == address
            && last.pfn + last.count * pages == pfn
        {
            last.count += 1;
        } else {
            out.push(Stretch { address, pfn, order, count: 1 });
        }
    }
}

impl Stretch {
    /// Its pages' size.
    pub fn size(&self) -> PageOrder {
        PageOrder::new(self.order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory with a root at 0x1000 under which two pages at 0x40_0000 lie in frames 8 and 9, and one of 2 MB at 0x60_0000.
    fn memory() -> Vec<u64> {
        let mut words = vec![0u64; 16 * 512];
        let mut set = |table: u64, index: usize, entry: u64| words[table as usize / 8 + index] = entry | PRESENT;
        set(0x1000, 0, 0x2000);
        set(0x2000, 0, 0x3000);
        set(0x3000, 2, 0x4000);
        set(0x3000, 3, 0x40_0000 | LARGE);
        set(0x4000, 0, 0x8000);
        set(0x4000, 1, 0x9000);
        words[0x8ff8 / 8] = u64::from_le_bytes(*b"abcdefgh");
        words[0x9000 / 8] = u64::from_le_bytes(*b"ijk\0....");
        words
    }

    #[test]
    fn tables_are_walked_and_memory_read_through_them() {
        let words = memory();
        let ram = Ram { base: words.as_ptr().cast(), bytes: words.len() as u64 * 8, low: u64::MAX };
        assert_eq!(ram.translate(0x1000, 0x40_1234), Some((0x9234, 0)));
        assert_eq!(ram.translate(0x1000, 0x7f_fff0), Some((0x5f_fff0, 9)));
        assert_eq!(ram.translate(0x1000, 0x40_2000), None);
        assert_eq!(ram.text(0x1000, 0x40_0ffe).as_deref(), Some("ghijk"));
        let [small, large] = ram.mapped(0x1000)[..] else { panic!("two stretches") };
        assert_eq!(small, Stretch { address: 0x40_0000, pfn: 8, order: 0, count: 2 });
        assert_eq!(large, Stretch { address: 0x60_0000, pfn: 0x400, order: 9, count: 1 });
    }
}
