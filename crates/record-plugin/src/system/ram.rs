//! The guest's memory, which is a part of QEMU's, and the guest's page tables. Intel SDM volume 3, 4.5, has four
//! levels: the launcher turns five off. The Arm Architecture Reference Manual, D8, has base pages of 4, 16 or 64 KB.
//! Four, four and three levels are for addresses of 48 bits; with 16 KB, three are for 47.

use super::arch::Arch;
use mmulab_addr::PageOrder;

/// The memory file that the launcher has QEMU make, as it is named in QEMU's own memory map.
const NAME: &str = "memory-backend-memfd";
/// QEMU's PC (hw/i386/pc_piix.c, pc_init1) has memory up to this address, or, if there is more than that ...
const LOW_WHOLE: u64 = 0xe000_0000;
/// ... up to this one, and the rest from 4 GiB on.
const LOW_SPLIT: u64 = 0xc000_0000;
const HIGH: u64 = 1 << 32;
/// Its Arm board has all of it from here on (hw/arm/virt.c, VIRT_MEM).
const ARM_BASE: u64 = 1 << 30;

const PAGE: u64 = 4096;
const PRESENT: u64 = 1;
/// On x86-64: a page above the last level. On Arm, at any level: no block, but a table or a page.
const LARGE: u64 = 1 << 7;
const NO_BLOCK: u64 = 1 << 1;
/// On Arm: one of several neighbours that lie together, aligned, and may be kept as one.
const CONTIGUOUS: u64 = 1 << 52;
const X86_ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const ARM_ADDRESS: u64 = 0x0000_ffff_ffff_f000;
/// Of a register that holds a root: a table at the top may be smaller than a page. The lowest bit is another field's.
const ARM_ROOT: u64 = 0x0000_ffff_ffff_fffe;
/// Of the root's 512 entries on x86-64, those of user addresses.
const USER_ENTRIES: u64 = 256;
/// Bits of an address that are translated, most often.
const ADDRESS_BITS: u32 = 48;
/// The same of a Linux with base pages of 16 KiB that was built for 52 bits, on a processor without these (VA_BITS_MIN
/// in arch/arm64/include/asm/memory.h).
const FEWER_ADDRESS_BITS: u32 = 47;

/// The shape of page tables, by the size of a base page, which is that of a table.
#[derive(Clone, Copy)]
struct Shape {
    /// log2 of the bytes of a base page.
    shift: u32,
    /// log2 of the entries of a table.
    bits: u32,
    levels: u32,
    address_bits: u32,
    /// By level, log2 of the entries that can be kept as one: of pages, of the blocks above them, and of others.
    together: [u8; 3],
}

impl Shape {
    fn of(base: PageOrder, address_bits: u32) -> Self {
        let (shift, bits) = (base.shift(), base.shift() - 3);
        let together = match base {
            PageOrder::P16K => [7, 5, 0],
            PageOrder::P64K => [5, 5, 0],
            _ => [4, 4, 4],
        };
        Self { shift, bits, levels: (address_bits - shift).div_ceil(bits), address_bits, together }
    }

    /// log2 of what an entry of this level maps.
    fn shift_at(self, level: u32) -> u32 {
        self.shift + self.bits * level
    }

    /// Entries of a table of this level.
    fn entries(self, level: u32) -> u64 {
        1 << self.bits.min(self.address_bits - self.shift_at(level))
    }

    /// Where the entry for an address is in a table.
    fn index(self, address: u64, level: u32) -> u64 {
        address >> self.shift_at(level) & (self.entries(level) - 1)
    }
}

/// The guest's memory.
pub struct Ram {
    arch: Arch,
    shape: Shape,
    base: *const u8,
    bytes: u64,
    low: u64,
    /// The root of the tables of the kernel's half, where it has its own.
    pub kernel_root: u64,
}

/// What an entry of a page table says.
enum Entry {
    Table(u64),
    /// A page's address and order.
    Page(u64, u8),
}

// SAFETY: it is memory that QEMU shares among all of its threads; every read of it is volatile.
unsafe impl Send for Ram {}

/// Pages that lie one after the other in both memories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
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
    /// Finds it in this process; `base` is the size of the kernel's base pages.
    pub fn find(arch: Arch, base: PageOrder) -> Option<Self> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let (mut start, mut end) = (u64::MAX, 0);
        for line in maps.lines().filter(|line| line.contains(NAME)) {
            let (from, to) = line.split(' ').next()?.split_once('-')?;
            start = start.min(u64::from_str_radix(from, 16).ok()?);
            end = end.max(u64::from_str_radix(to, 16).ok()?);
        }
        let bytes = end.checked_sub(start)?;
        let low = if bytes >= LOW_WHOLE { LOW_SPLIT } else { bytes };
        let shape = Shape::of(base, ADDRESS_BITS);
        Some(Self { arch, shape, base: start as *const u8, bytes, low, kernel_root: 0 })
    }

    /// Takes the tables to be of fewer address bits, if that is how they map an address that is known to be mapped.
    pub fn fit(&mut self, base: PageOrder, root: u64, mapped: u64) {
        if base == PageOrder::P16K && self.translate(root, mapped).is_none() {
            self.shape = Shape::of(base, FEWER_ADDRESS_BITS);
        }
    }

    /// The number at a physical address.
    fn number(&self, physical: u64) -> Option<u64> {
        let at = match physical {
            _ if self.arch == Arch::Arm64 => physical.checked_sub(ARM_BASE)?,
            _ if physical < self.low => physical,
            _ if physical >= HIGH => physical - HIGH + self.low,
            _ => return None,
        };
        // SAFETY: aligned as page-table entries are, or read where the caller knows a number; inside the memory.
        (at + 8 <= self.bytes).then(|| unsafe { self.base.add(at as usize).cast::<u64>().read_unaligned() })
    }

    /// What the entry at a physical address says, in a table of this level (0: of base pages).
    fn entry(&self, at: u64, level: u32) -> Option<Entry> {
        let bits = self.number(at).filter(|e| e & PRESENT != 0)?;
        let order = (self.shape.shift_at(level) - PageOrder::P4K.shift()) as u8;
        let (address, is_table, together) = match self.arch {
            Arch::X86 => (bits & X86_ADDRESS, level > 0 && (level == 3 || bits & LARGE == 0), 0),
            Arch::Arm64 if level == 0 && bits & NO_BLOCK == 0 => return None,
            Arch::Arm64 => {
                let together = if bits & CONTIGUOUS == 0 { 0 } else { self.shape.together[level.min(2) as usize] };
                (bits & ARM_ADDRESS, level > 0 && bits & NO_BLOCK != 0, together)
            }
        };
        Some(if is_table {
            Entry::Table(address)
        } else {
            Entry::Page(address & !((PAGE << order) - 1), order + together)
        })
    }

    /// Where `address` lies under `root`: its physical address, and the order of its page.
    pub fn translate(&self, root: u64, address: u64) -> Option<(u64, u8)> {
        let mut table = self.top(self.root(root, address));
        for level in (0..self.shape.levels).rev() {
            match self.entry(table + self.shape.index(address, level) * 8, level)? {
                Entry::Table(below) => table = below,
                Entry::Page(page, order) => {
                    return Some((page | address & ((1 << self.shape.shift_at(level)) - 1), order));
                }
            }
        }
        None
    }

    /// The root that an address is translated by.
    fn root(&self, root: u64, address: u64) -> u64 {
        if self.arch == Arch::Arm64 && address >> 63 == 1 { self.kernel_root } else { root }
    }

    /// Where the table at the top is, from the register that holds the root.
    fn top(&self, root: u64) -> u64 {
        root & if self.arch == Arch::Arm64 { ARM_ROOT } else { X86_ADDRESS }
    }

    /// The number of the level at the top.
    fn top_level(&self) -> u32 {
        self.shape.levels - 1
    }

    /// Whether nothing at all is mapped under `root`: Arm's kernel loads such a one while it changes to another.
    pub fn is_empty(&self, root: u64) -> bool {
        let entries = self.shape.entries(self.top_level());
        (0..entries).all(|entry| self.number(self.top(root) + entry * 8) == Some(0))
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
    pub fn mapped(&self, root: u64) -> Vec<Extent> {
        let mut out = Vec::new();
        let level = self.top_level();
        let entries = if self.arch == Arch::X86 { USER_ENTRIES } else { self.shape.entries(level) };
        for entry in 0..entries {
            self.below(self.top(root), level, entry, 0, &mut out);
        }
        out
    }

    fn below(&self, table: u64, level: u32, index: u64, base: u64, out: &mut Vec<Extent>) {
        let address = base | index << self.shape.shift_at(level);
        let (page, order) = match self.entry(table + index * 8, level) {
            None => return,
            Some(Entry::Table(below)) => {
                let entries = self.shape.entries(level - 1);
                (0..entries).for_each(|i| self.below(below, level - 1, i, address, out));
                return;
            }
            Some(Entry::Page(page, order)) => (page, order),
        };
        let bytes = PAGE << order;
        if !address.is_multiple_of(bytes) {
            // One of several that are one page, told with the first.
            return;
        }
        let (pfn, pages) = (page >> 12, 1u64 << order);
        if let Some(last) = out.last_mut()
            && last.order == order
            && last.address + last.count * bytes == address
            && last.pfn + last.count * pages == pfn
        {
            last.count += 1;
        } else {
            out.push(Extent { address, pfn, order, count: 1 });
        }
    }
}

impl Extent {
    /// Its pages' size.
    pub fn size(&self) -> PageOrder {
        PageOrder::new(self.order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory with a root at 0x1000 under which two pages at 0x40_0000 lie in frames 8 and 9, and one of 2 MB at
    /// 0x60_0000.
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
        let (base, bytes) = (words.as_ptr().cast(), words.len() as u64 * 8);
        let shape = Shape::of(PageOrder::P4K, ADDRESS_BITS);
        let ram = Ram { arch: Arch::X86, shape, base, bytes, low: u64::MAX, kernel_root: 0 };
        assert_eq!(ram.translate(0x1000, 0x40_1234), Some((0x9234, 0)));
        assert_eq!(ram.translate(0x1000, 0x7f_fff0), Some((0x5f_fff0, 9)));
        assert_eq!(ram.translate(0x1000, 0x40_2000), None);
        assert_eq!(ram.text(0x1000, 0x40_0ffe).as_deref(), Some("ghijk"));
        let [small, large] = ram.mapped(0x1000)[..] else { panic!("two extents") };
        assert_eq!(small, Extent { address: 0x40_0000, pfn: 8, order: 0, count: 2 });
        assert_eq!(large, Extent { address: 0x60_0000, pfn: 0x400, order: 9, count: 1 });
    }

    /// Sixteen pages at 0x1_0000 that lie together from frame 0x40020 on, one at 0x2_0000, one that cannot be read, and
    /// a block of 2 MB. The kernel's half has a root of its own.
    #[test]
    fn arm_tables_tell_of_pages_that_are_kept_as_one() {
        const TABLE: u64 = PRESENT | NO_BLOCK;
        let mut words = vec![0u64; 8 * 512];
        let mut set = |table: u64, index: usize, entry: u64| words[table as usize / 8 + index] = entry;
        set(0x1000, 0, (ARM_BASE + 0x2000) | TABLE);
        set(0x2000, 0, (ARM_BASE + 0x3000) | TABLE);
        set(0x3000, 0, (ARM_BASE + 0x4000) | TABLE);
        set(0x3000, 1, 0x8020_0000 | PRESENT);
        for i in 0..16 {
            set(0x4000, 16 + i, CONTIGUOUS | (0x4002_0000 + i as u64 * PAGE) | TABLE);
        }
        set(0x4000, 32, 0x4005_5000 | TABLE);
        set(0x4000, 33, 0x4005_6000 | PRESENT);
        set(0x5000, 511, (ARM_BASE + 0x2000) | TABLE);
        let (base, bytes) = (words.as_ptr().cast(), words.len() as u64 * 8);
        let shape = Shape::of(PageOrder::P4K, ADDRESS_BITS);
        let ram = Ram { arch: Arch::Arm64, shape, base, bytes, low: bytes, kernel_root: ARM_BASE + 0x5000 };
        let root = ARM_BASE + 0x1000;
        assert_eq!(ram.translate(root, 0x1_2345), Some((0x4002_2345, 4)));
        assert_eq!(ram.translate(root, 0x2_0001), Some((0x4005_5001, 0)));
        assert_eq!(ram.translate(root, 0x2_1000), None);
        assert_eq!(ram.translate(root, 0xffff_ff80_0020_0008), Some((0x8020_0008, 9)));
        let [together, one, block] = ram.mapped(root)[..] else { panic!("three extents") };
        assert_eq!(together, Extent { address: 0x1_0000, pfn: 0x4_0020, order: 4, count: 1 });
        assert_eq!((one.address, one.order, block.pfn, block.order), (0x2_0000, 0, 0x8_0200, 9));
        assert!(!ram.is_empty(root) && ram.is_empty(ARM_BASE + 0x6000));
    }

    /// Base pages of 16 KiB. A page is at 0x1_4000, a block of 32 MB at 0x200_0000. The root has two entries in the
    /// middle of a page, beside another one.
    #[test]
    fn arm_tables_of_larger_pages_have_fewer_entries_at_the_top() {
        const TABLE: u64 = PRESENT | NO_BLOCK;
        let mut words = vec![0u64; 4 * 2048];
        let mut set = |table: u64, index: usize, entry: u64| words[table as usize / 8 + index] = entry;
        let (root, other) = (0x40, 0x50);
        set(root, 0, (ARM_BASE + 0x4000) | TABLE);
        set(0x4000, 0, (ARM_BASE + 0x8000) | TABLE);
        set(0x8000, 0, (ARM_BASE + 0xc000) | TABLE);
        set(0x8000, 1, 0x8200_0000 | PRESENT);
        set(0xc000, 5, 0x4005_4000 | TABLE);
        let (base, bytes) = (words.as_ptr().cast(), words.len() as u64 * 8);
        let shape = Shape::of(PageOrder::P16K, ADDRESS_BITS);
        let levels = [Shape::of(PageOrder::P16K, FEWER_ADDRESS_BITS), Shape::of(PageOrder::P64K, ADDRESS_BITS)];
        assert_eq!((shape.levels, shape.entries(3), levels.map(|shape| shape.levels)), (4, 2, [3, 3]));
        let mut ram = Ram { arch: Arch::Arm64, shape, base, bytes, low: bytes, kernel_root: 0 };
        let root = ARM_BASE + root;
        assert_eq!(ram.translate(root, 0x1_5678), Some((0x4005_5678, 2)));
        assert_eq!(ram.translate(root, 0x300_0001), Some((0x8300_0001, 13)));
        let [page, block] = ram.mapped(root)[..] else { panic!("two extents") };
        assert_eq!(page, Extent { address: 0x1_4000, pfn: 0x4_0054, order: 2, count: 1 });
        assert_eq!(block, Extent { address: 0x200_0000, pfn: 0x8_2000, order: 13, count: 1 });
        assert!(!ram.is_empty(root) && ram.is_empty(ARM_BASE + other));
        // The same tables below a root of 2,048 entries.
        let root = ARM_BASE + 0x4000;
        ram.fit(PageOrder::P16K, root, 0x1_5678);
        assert_eq!((ram.shape.levels, ram.translate(root, 0x1_5678)), (3, Some((0x4005_5678, 2))));
    }
}
