//! A tree of tables as text, read out of its bytes as hardware reads it.

use crate::{Format, Leaf, Next, Rights, Root, Step, hashed, leaf_bits::Bits};
use mmulab_addr::{PageOrder, PhysAddr, VirtAddr};
use mmulab_frames::PhysMem;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Entries in a frame of 4 KiB.
const FRAME_ENTRIES: u64 = 512;

/// A table or node to be drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Node {
    at: PhysAddr,
    level: u8,
    entries: u64,
    /// The first address it translates.
    va: VirtAddr,
}

/// Kind of a run of neighbouring entries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    /// Pages that lie one after another.
    Leaves(Leaf),
    /// A table or a node, which all of them point to, and the bits they do so by if it is a node.
    Below(Node, Option<u64>),
}

struct Drawing<'a> {
    format: Format,
    mem: &'a PhysMem,
    drawn: BTreeSet<u64>,
    text: String,
}

/// Draws what is at `root`: a line for each table, and for each run of pages that lie one after another. Of hashed
/// tables, the lines.
pub fn draw(format: Format, root: Root, mem: &PhysMem) -> String {
    if format.is_searched() {
        return hashed::draw(root.lower, mem);
    }
    let mut drawing = Drawing { format, mem, drawn: BTreeSet::new(), text: String::new() };
    for va in format.trees() {
        let step = format.start(root, va);
        let skipped = format.levels() - step.level;
        let entries = format.entries(step.level).pow(u32::from(skipped) + 1);
        let node = Node { at: step.entry, level: step.level, entries, va };
        // Few have anything among the upper addresses.
        if va == VirtAddr::default() || (0..entries).any(|index| drawing.entry(node, index).is_some()) {
            drawing.node(node, 0);
        }
    }
    drawing.text
}

impl Drawing<'_> {
    fn node(&mut self, node: Node, depth: usize) {
        let indent = "  ".repeat(depth);
        let entries = self.format.entries(node.level);
        let name = if node.entries == entries {
            format!("level {} table", node.level)
        } else {
            let upper = node.level + node.entries.ilog(entries) as u8;
            let levels: Vec<_> = (node.level..upper).rev().map(|level| level.to_string()).collect();
            format!("level {} node of {} entries", levels.join("+"), node.entries)
        };
        let again = if self.drawn.insert(node.at.0) { "" } else { ", drawn above" };
        let _ = writeln!(self.text, "{indent}{name} at {:#x}{again}", node.at.0);
        if !again.is_empty() {
            return;
        }
        let mut run: Option<(u64, u64, Run)> = None;
        let covers = self.format.covers(node.level);
        // Of nodes and large tables most frames may have nothing.
        let frames = (0..node.entries).step_by(FRAME_ENTRIES as usize);
        let written = frames.filter(|first| self.mem.holds(PhysAddr(node.at.0 + first * 8).pfn()));
        for index in written.flat_map(|first| first..node.entries.min(first + FRAME_ENTRIES)) {
            let what = self.entry(node, index);
            match (&mut run, what) {
                (Some((first, count, of)), Some(what))
                    if continues(*of, *count, *first + *count == index, what, covers) =>
                {
                    *count += 1;
                }
                (_, what) => {
                    let next = what.map(|what| (index, 1, what));
                    if let Some(done) = std::mem::replace(&mut run, next) {
                        self.run(node, done, depth + 1);
                    }
                }
            }
        }
        if let Some(done) = run {
            self.run(node, done, depth + 1);
        }
    }

    /// Kind of entry `index`, if it is present.
    fn entry(&self, node: Node, index: u64) -> Option<Run> {
        let (format, covers) = (self.format, self.format.covers(node.level));
        let va = node.va.add(index << covers.shift());
        let step = Step { level: node.level, covers, entry: PhysAddr(node.at.0 + index * 8), rights: Rights::ALL };
        let bits = self.mem.read(step.entry);
        match format.next(bits, step, va) {
            Next::NotPresent => None,
            Next::Leaf(leaf) => Some(Run::Leaves(leaf)),
            Next::Table(next) => {
                if next.level == node.level {
                    // It leads to the entry of its table that maps the page.
                    let leaf = format.next(self.mem.read(next.entry), next, va);
                    return if let Next::Leaf(leaf) = leaf { Some(Run::Leaves(leaf)) } else { None };
                }
                // As a walk cache keeps it: a pointer that is the same for many entries begins where the first does.
                let (bits, level) = format.kept(bits, node.level)?;
                let from = va.align_down(format.covers(level));
                let Next::Table(below) = format.next(bits, Step { level, ..step }, from) else { return None };
                let of_table = format.entries(below.level);
                let entries = of_table.pow(u32::from(level - below.level));
                let by = (entries > of_table).then(|| self.mem.read(step.entry));
                Some(Run::Below(Node { at: below.entry, level: below.level, entries, va: from }, by))
            }
        }
    }

    fn run(&mut self, node: Node, (first, count, of): (u64, u64, Run), depth: usize) {
        let covers = self.format.covers(node.level);
        let va = node.va.add(first << covers.shift()).raw();
        let indent = "  ".repeat(depth);
        let times = |n: u64| if n == 1 { String::new() } else { format!("{n} x ") };
        match of {
            Run::Below(below, marked) => {
                let _ = write!(self.text, "{indent}[{first}] {va:#x}: ");
                let bits = marked.map_or(String::new(), |bits| format!(" by {bits:#x}"));
                let _ = writeln!(self.text, "{}->{bits}", times(count));
                self.node(below, depth + 1);
            }
            Run::Leaves(leaf) => {
                // A page that takes several entries has them one after another.
                let entries = leaf.order.base_pages() / covers.base_pages();
                let copies = if entries > 1 { format!(" ({count} entries)") } else { String::new() };
                let pages = times((count / entries).max(1));
                let pa = leaf.pfn.addr().0;
                let _ = writeln!(
                    self.text,
                    "{indent}[{first}] {va:#x}: {pages}{} {} at {pa:#x}{copies}",
                    leaf.order,
                    Bits(leaf)
                );
            }
        }
    }
}

/// Whether an entry goes on with a run of `count` entries right before it: the same again, or the next page.
/// The next page of a size that takes several entries begins a run of its own.
fn continues(run: Run, count: u64, adjacent: bool, what: Run, covers: PageOrder) -> bool {
    match (run, what) {
        (Run::Leaves(a), Run::Leaves(b)) => {
            let same = (a.order, a.prot, a.accessed, a.dirty) == (b.order, b.prot, b.accessed, b.dirty);
            let is_next = a.order <= covers && b.pfn.0 == a.pfn.0 + count * a.order.base_pages();
            adjacent && same && (b.pfn == a.pfn || is_next)
        }
        (a, b) => adjacent && a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CompendiaDesc, Marks, Share, Table, TableDesc, TableFrames, TableKind};
    use mmulab_addr::{Pfn, Prot, Vpn};

    struct Bump(u64);

    impl TableFrames for Bump {
        fn take(&mut self) -> Option<Pfn> {
            self.0 += 1;
            Some(Pfn(self.0))
        }
        fn give_back(&mut self, _: Pfn) {}
        fn take_block(&mut self, order: PageOrder) -> Option<Pfn> {
            self.0 = (self.0 | (order.base_pages() - 1)) + order.base_pages();
            Some(Pfn(self.0 + 1 - order.base_pages()))
        }
    }

    fn drawn(desc: &TableDesc) -> String {
        let pages = [
            (0, PageOrder::P4K, 0x5000),
            (1, PageOrder::P4K, 0x5001),
            (512, PageOrder::P2M, 0x6000),
            (1024, PageOrder::P4K, 0x7000),
        ];
        drawn_of(desc, &pages)
    }

    fn drawn_of(desc: &TableDesc, pages: &[(u64, PageOrder, u64)]) -> String {
        let (mut mem, mut frames) = (PhysMem::new(1 << 32), Bump(0));
        let mut table = Table::new(desc, &mut mem, &mut frames).unwrap();
        let mut map = |page: u64, order, pfn| {
            let leaf =
                Leaf { pfn: Pfn(pfn), order, prot: Prot::RW, user: true, accessed: false, dirty: false, global: false };
            table.map(&mut mem, &mut frames, Vpn(page), leaf).unwrap().lazy("no TLB here");
        };
        for &(page, order, pfn) in pages {
            map(page, order, pfn);
        }
        draw(table.format(), table.root(), &mem)
    }

    #[test]
    fn a_radix_tree() {
        let expected = "\
level 4 table at 0x1000
  [0] 0x0: ->
    level 3 table at 0x2000
      [0] 0x0: ->
        level 2 table at 0x3000
          [0] 0x0: ->
            level 1 table at 0x4000
              [0] 0x0: 2 x 4K rw--- at 0x5000000
          [1] 0x200000: 2M rw--- at 0x6000000
          [2] 0x400000: ->
            level 1 table at 0x5000
              [0] 0x400000: 4K rw--- at 0x7000000
";
        assert_eq!(drawn(&TableDesc::default()), expected);
    }

    /// CHANGELOG number 30: the second lies sixteen such pages behind the first, as a seventeenth single page would.
    #[test]
    fn two_pages_of_sixteen_entries_each() {
        let table = TableDesc::new(TableKind::Arm, 4).unwrap();
        let drawn = drawn_of(
            &table,
            &[(0, PageOrder::P64K, 0x5000), (16, PageOrder::P64K, 0x5100), (32, PageOrder::P64K, 0x5200)],
        );
        let pages: Vec<&str> = drawn.lines().filter(|line| line.contains("64K")).map(str::trim).collect();
        assert_eq!(
            pages,
            [
                "[0] 0x0: 64K rw--- at 0x5000000 (16 entries)",
                "[16] 0x10000: 64K rw--- at 0x5100000 (16 entries)",
                "[32] 0x20000: 64K rw--- at 0x5200000 (16 entries)",
            ]
        );
    }

    #[test]
    fn a_merged_node() {
        let share = |n| Share::new(n, 512).unwrap();
        let desc = CompendiaDesc { merge: share(2), unmerge: share(1), ..CompendiaDesc::default() };
        let expected = "\
level 4 table at 0x1000
  [0] 0x0: ->
    level 3 table at 0x2000
      [0] 0x0: -> by 0x10000000200067
        level 2+1 node of 262144 entries at 0x200000
          [0] 0x0: 2 x 4K rw--- at 0x5000000
          [512] 0x200000: 2M rw--- at 0x6000000 (512 entries)
          [1024] 0x400000: 4K rw--- at 0x7000000
";
        assert_eq!(drawn(&TableDesc::of_compendia(4, desc.clone()).unwrap()), expected);
        let elsewhere = CompendiaDesc { marks: Marks::FrameIndex, ..desc };
        let expected = expected.replace("0x10000000200067", "0x2020e7");
        assert_eq!(drawn(&TableDesc::of_compendia(4, elsewhere).unwrap()), expected);
    }

    #[test]
    fn a_node_of_three_levels() {
        let share = |n| Share::new(n, 512).unwrap();
        let desc =
            CompendiaDesc { merge: share(1), unmerge: share(1), merge_three: Some(3), ..CompendiaDesc::default() };
        let expected = "\
level 4 table at 0x1000
  [0] 0x0: -> by 0x50000040000067
    level 3+2+1 node of 134217728 entries at 0x40000000
      [0] 0x0: 2 x 4K rw--- at 0x5000000
      [512] 0x200000: 2M rw--- at 0x6000000 (512 entries)
      [1024] 0x400000: 4K rw--- at 0x7000000
";
        assert_eq!(drawn(&TableDesc::of_compendia(4, desc).unwrap()), expected);
    }
}
