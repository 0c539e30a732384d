//! Hashed tables as text, read out of their bytes as hardware reads them.

use super::layout::{FIRST_WALK_TABLE, LINE_BITS, SIZE_BITS, SIZES, TABLES, WALK_TABLE_BITS, order_of};
use super::line::{Kind, WORDS};
use super::registers::Registers;
use super::sections;
use crate::{Leaf, leaf_bits::Bits, x86};
use mmulab_addr::{PhysAddr, VirtAddr};
use mmulab_frames::PhysMem;
use std::fmt::Write;

/// Draws the tables whose registers are at `root`: a line for each line of theirs that is something, by address.
pub fn draw(root: PhysAddr, mem: &PhysMem) -> String {
    let mut text = format!("registers at {:#x}\n", root.0);
    for table in 0..TABLES {
        let Some(registers) = Registers::load(mem, root, table) else { continue };
        let (size, level) = (table % SIZES, table as u8 + 1);
        let what = if level < FIRST_WALK_TABLE { "pages" } else { "walk table of" };
        let _ = write!(
            text,
            "level {level}, {what} {}: {} x {} lines",
            order_of(size),
            registers.ways,
            1u64 << registers.now.slots
        );
        if let Some(next) = registers.next {
            let moved = registers.moved[..usize::from(registers.ways)].iter().map(u64::to_string).collect::<Vec<_>>();
            let _ = write!(text, ", becoming {}, moved {}", 1u64 << next.slots, moved.join(" "));
        }
        text.push('\n');
        let kind = if level < FIRST_WALK_TABLE { Kind::Pages } else { Kind::Sections };
        let mut lines = Vec::new();
        for next in [false, true] {
            let Some(shape) = (if next { registers.next } else { Some(registers.now) }) else { continue };
            for way in 0..usize::from(registers.ways) {
                for slot in 0..1u64 << shape.slots {
                    let at = registers.slot(mem, next, way, slot);
                    let line = *mem.line(at);
                    if kind.is_used(&line) {
                        lines.push((kind.key(&line), way, slot, next, at, line));
                    }
                }
            }
        }
        lines.sort_unstable_by_key(|&(key, ..)| key);
        for (key, way, slot, next, at, line) in lines {
            let of = if next { " of the new" } else { "" };
            let _ = writeln!(text, "  way {way} slot {slot}{of} at {:#x}:", at.0);
            match kind {
                Kind::Pages => pages(&mut text, size, key, &line),
                Kind::Sections => walk_table(&mut text, size, key, &line),
            }
        }
    }
    text
}

fn pages(text: &mut String, size: usize, key: u64, line: &[u64; WORDS]) {
    let leaf = |at: usize| x86::decode_leaf(line[at], size as u8 + 1);
    let mut at = 0;
    while at < WORDS {
        let Some(first) = leaf(at) else {
            at += 1;
            continue;
        };
        let follows = |n: usize, next: Leaf| {
            let bits = |leaf: Leaf| (leaf.prot, leaf.accessed, leaf.dirty);
            bits(next) == bits(first) && next.pfn.0 == first.pfn.0 + n as u64 * first.order.base_pages()
        };
        let run = (1..WORDS - at).take_while(|&n| leaf(at + n).is_some_and(|next| follows(n, next))).count() + 1;
        let va = VirtAddr::new(((key << LINE_BITS) + at as u64) << (SIZE_BITS * size as u8 + 12)).raw();
        let times = if run == 1 { String::new() } else { format!("{run} x ") };
        let _ =
            writeln!(text, "    [{at}] {va:#x}: {times}{} {} at {:#x}", first.order, Bits(first), first.pfn.addr().0);
        at += run;
    }
}

fn walk_table(text: &mut String, size: usize, key: u64, line: &[u64; WORDS]) {
    for n in 0..1u64 << WALK_TABLE_BITS {
        let byte = sections::byte(line, n);
        let sizes: Vec<String> =
            (0..=size).filter(|&s| sections::has(byte, s)).map(|s| order_of(s).to_string()).collect();
        if sizes.is_empty() {
            continue;
        }
        let section = (key << WALK_TABLE_BITS) + n;
        let va = VirtAddr::new(section << (SIZE_BITS * size as u8 + LINE_BITS + 12)).raw();
        let own = sections::has(byte, size).then(|| format!(", {} in way {}", order_of(size), sections::way(byte)));
        let _ = writeln!(text, "    [{n}] {va:#x}: {}{}", sizes.join(" "), own.unwrap_or_default());
    }
}
