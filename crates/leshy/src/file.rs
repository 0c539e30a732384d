//! Profile files: samples by page, with the mappings they lie in. A line of JSON, then a line of five numbers for each
//! page: process, mapping, address (hexadecimal), samples, cycles.

use crate::{
    bins::Entry,
    goal::Budget,
    hints::{Hint, Mapping},
    profile::{Page, Profile},
};
use mmulab_addr::{PageOrder, Pid, VirtAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io::{self, BufRead, Write},
};

/// The name of the format, as files contain it.
const FORMAT: &str = "mmulab-misses";
/// The version of the format that is written and read.
const VERSION: u32 = 1;
/// Bits of the number of a 4 KiB page in one address space: those of 57-bit addresses. The number of the space stands
/// above them.
const PAGE_BITS: u32 = 45;

/// A mapping that samples lie in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfiledMapping {
    /// Its number in this file.
    pub id: u64,
    /// Its kind.
    pub mapping: Mapping,
    /// The address at which it was first mapped: offsets of hints count from there.
    pub first: VirtAddr,
    /// The lowest address it had.
    pub start: VirtAddr,
    /// The address after the highest it had.
    pub end: VirtAddr,
}

/// The first line of a profile file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileHead {
    /// `mmulab-misses`.
    pub format: String,
    /// The version of the format: 1.
    pub version: u32,
    /// What ran.
    pub trace: String,
    /// The machine it ran on.
    pub machine: String,
    /// Under which page policy.
    pub policy: String,
    /// Kind of the samples: `misses`, or `accessed` for epochs in which the accessed bit was set.
    pub sampler: String,
    /// One of this number of misses was sampled.
    pub period: u64,
    /// Simulated milliseconds of an epoch, where accessed bits were sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_ms: Option<f64>,
    /// References that walked.
    pub walked: u64,
    /// Samples.
    pub samples: u64,
    /// The last level of the machine's TLB for data.
    pub tlb: Vec<Budget>,
    /// The mappings that samples lie in.
    pub mappings: Vec<ProfiledMapping>,
}

impl Default for ProfileHead {
    fn default() -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            trace: String::new(),
            machine: String::new(),
            policy: String::new(),
            sampler: String::new(),
            period: 1,
            epoch_ms: None,
            walked: 0,
            samples: 0,
            tlb: Vec::new(),
            mappings: Vec::new(),
        }
    }
}

/// The samples of one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The process.
    pub pid: Pid,
    /// The number of the mapping; one that the head does not have for none.
    pub mapping: u64,
    /// The page's address.
    pub addr: VirtAddr,
    /// Samples.
    pub misses: u64,
    /// Cycles of their walks.
    pub cycles: u64,
}

/// A profile with what it is of.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProfileFile {
    /// What it is of.
    pub head: ProfileHead,
    /// Its pages.
    pub rows: Vec<Row>,
}

/// The samples of an aligned piece of memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Heat {
    /// The process.
    pub pid: Pid,
    /// The first address.
    pub start: u64,
    /// Samples.
    pub misses: u64,
    /// Cycles of their walks.
    pub cycles: u64,
}

impl ProfileFile {
    /// Writes the file.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *to, &self.head)?;
        writeln!(to)?;
        for Row { pid, mapping, addr, misses, cycles } in &self.rows {
            writeln!(to, "{} {mapping} {:x} {misses} {cycles}", pid.0, addr.raw())?;
        }
        Ok(())
    }

    /// Reads a file called `name`.
    ///
    /// # Errors
    /// It cannot be read, or is not a profile; with the line.
    pub fn read(name: &str, mut from: impl BufRead) -> Result<Self, String> {
        let mut line = String::new();
        let mut number = 0u64;
        let mut next = |line: &mut String| {
            line.clear();
            number += 1;
            from.read_line(line).map(|bytes| (bytes > 0, number)).map_err(|e| format!("{name}:{number}: {e}"))
        };
        next(&mut line)?;
        let head: ProfileHead = serde_json::from_str(&line)
            .map_err(|e| format!("{name}:1: not the head of a profile ({e}); `mmulab leshy --save FILE` writes one"))?;
        if head.format != FORMAT || head.version != VERSION {
            let (format, version) = (head.format, head.version);
            return Err(format!(
                "{name}:1: {format:?} version {version}; this mmulab reads {FORMAT:?} version {VERSION}"
            ));
        }
        let mut rows = Vec::new();
        while let (true, number) = next(&mut line)? {
            let text = line.trim();
            if !text.is_empty() {
                rows.push(row(text).ok_or_else(|| {
                    let shown: String = text.chars().take(40).collect();
                    format!(
                        "{name}:{number}: {shown:?}: give five numbers: process, mapping, address (hex), samples, \
                             cycles"
                    )
                })?);
            }
        }
        rows.sort_unstable_by_key(|row: &Row| (row.pid, row.addr, row.mapping));
        Ok(Self { head, rows })
    }

    /// The processes, in order: an address space is known by its place here.
    fn spaces(&self) -> Vec<Pid> {
        let mut pids: Vec<Pid> = self.rows.iter().map(|row| row.pid).collect();
        pids.dedup();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Its samples.
    pub fn profile(&self) -> Profile {
        let spaces: BTreeMap<Pid, u64> = self.spaces().into_iter().zip(0..).collect();
        Profile::new(self.rows.iter().map(|row| Page {
            number: spaces[&row.pid] << PAGE_BITS | row.addr.vpn().0,
            misses: row.misses,
            cycles: row.cycles,
        }))
    }

    /// What entries above `smallest` are as hints, in their order.
    pub fn hints(&self, entries: &[Entry], smallest: PageOrder) -> Vec<Hint> {
        let spaces = self.spaces();
        let by_id: BTreeMap<u64, &ProfiledMapping> = self.head.mappings.iter().map(|m| (m.id, m)).collect();
        let hint = |entry: &Entry| {
            let pid = spaces[(entry.bin.first_page >> PAGE_BITS) as usize];
            let start = (entry.bin.first_page & ((1 << PAGE_BITS) - 1)) << PageOrder::P4K.shift();
            let end = start + entry.order.bytes();
            let first = self.rows.partition_point(|row| (row.pid, row.addr.raw()) < (pid, start));
            let inside = self.rows[first..].iter().take_while(|row| row.pid == pid && row.addr.raw() < end);
            let mut by_mapping: BTreeMap<u64, u64> = BTreeMap::new();
            inside.for_each(|row| *by_mapping.entry(row.mapping).or_default() += row.misses);
            let most = by_mapping.iter().max_by_key(|&(&id, &misses)| (misses, std::cmp::Reverse(id)));
            let (mapping, base) = match most.and_then(|(id, _)| by_id.get(id)) {
                Some(found) => (found.mapping.clone(), found.first.raw()),
                None => (Mapping::none(), 0),
            };
            Hint {
                size: entry.order,
                mapping,
                offset: start.wrapping_sub(base) as i64,
                pid,
                start: VirtAddr::new(start),
                misses: entry.bin.misses,
                cycles: entry.bin.cycles,
            }
        };
        entries.iter().filter(|entry| entry.order > smallest).map(hint).collect()
    }

    /// The samples by aligned pieces of memory, by address.
    pub fn heat(&self, order: PageOrder) -> Vec<Heat> {
        let mut found: Vec<Heat> = Vec::new();
        for row in &self.rows {
            let start = row.addr.raw() & !(order.bytes() - 1);
            match found.last_mut() {
                Some(heat) if (heat.pid, heat.start) == (row.pid, start) => {
                    heat.misses += row.misses;
                    heat.cycles += row.cycles;
                }
                _ => found.push(Heat { pid: row.pid, start, misses: row.misses, cycles: row.cycles }),
            }
        }
        found
    }
}

fn row(text: &str) -> Option<Row> {
    let mut parts = text.split_ascii_whitespace();
    let mut part = || parts.next();
    let pid = Pid(part()?.parse().ok()?);
    let mapping = part()?.parse().ok()?;
    let addr = u64::from_str_radix(part()?.trim_start_matches("0x"), 16).ok()?;
    let (misses, cycles) = (part()?.parse().ok()?, part()?.parse().ok()?);
    // A canonical address of user space, so that pages of several spaces have different numbers.
    (part().is_none() && addr >> (PAGE_BITS + PageOrder::P4K.shift()) == 0).then(|| Row {
        pid,
        mapping,
        addr: VirtAddr::new(addr & !(PageOrder::P4K.bytes() - 1)),
        misses,
        cycles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bins, Goal, Weight, paper};

    fn file() -> ProfileFile {
        let mapping = Mapping { program: "/bin/a".into(), name: "anon".into(), prot: "rw-".into(), nth: 1 };
        let (start, end) = (VirtAddr::new(0x1_0010_0000), VirtAddr::new(0x1_0100_0000));
        let budget = Budget { sizes: vec![PageOrder::P4K, PageOrder::P2M], entries: 2 };
        let head = ProfileHead {
            sampler: "misses".into(),
            tlb: vec![budget],
            mappings: vec![ProfiledMapping { id: 4, mapping, first: start, start, end }],
            ..ProfileHead::default()
        };
        let row = |pid, mapping, addr, misses| Row {
            pid: Pid(pid),
            mapping,
            addr: VirtAddr::new(addr),
            misses,
            cycles: misses * 10,
        };
        let rows = vec![
            row(1, 4, 0x1_0010_0000, 5),
            row(1, 4, 0x1_0011_0000, 4),
            row(1, 4, 0x1_001f_f000, 3),
            row(2, 9, 0x1_0010_0000, 1),
        ];
        ProfileFile { head, rows }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let mut text = Vec::new();
        file().write(&mut text).expect("written");
        assert_eq!(ProfileFile::read("f", text.as_slice()), Ok(file()));
        // Rows may come in any order.
        let mut lines: Vec<&str> = std::str::from_utf8(&text).expect("text").lines().collect();
        lines[1..].reverse();
        assert_eq!(ProfileFile::read("f", lines.join("\n").as_bytes()), Ok(file()));
    }

    #[test]
    fn damaged_files_are_refused_with_the_line() {
        let mut text = Vec::new();
        file().write(&mut text).expect("written");
        let text = String::from_utf8(text).expect("text");
        let refused = |text: &str| ProfileFile::read("f", text.as_bytes()).expect_err("refused");
        assert!(refused("").starts_with("f:1: not the head"));
        assert!(refused(&text.replace("\"version\":1", "\"version\":2")).contains("version 2; this mmulab reads"));
        for bad in ["1 2 3 4", "1 2 3 4 5 6", "1 2 g 4 5", "1 2 ffff800000000000 4 5", "-1 2 3 4 5"] {
            assert!(refused(&format!("{text}{bad}\n")).starts_with("f:6: "), "{bad}");
        }
    }

    #[test]
    fn hints_say_where_in_their_mapping_they_lie() {
        let file = file();
        let sizes = [PageOrder::P4K, PageOrder::P2M];
        let bins = Bins::new(&file.profile(), &sizes, Weight::Misses).expect("bins");
        let goal = Goal { target: 100_000, budgets: file.head.tlb.clone(), slack: 100, weight: Weight::Misses };
        let made = paper(&bins, &goal).expect("in reach");
        // The other process's one page stays as it is, and pages of two processes share no bin.
        let hints = file.hints(&made.entries, PageOrder::P4K);
        assert_eq!(made.entries.len(), 2);
        let [hint] = hints.as_slice() else { panic!("{hints:?}") };
        assert_eq!((hint.size, hint.start.raw(), hint.misses), (PageOrder::P2M, 0x1_0000_0000, 12));
        assert_eq!((hint.offset, hint.mapping.nth), (-0x10_0000, 1));
        assert_eq!(
            file.heat(PageOrder::P2M).iter().map(|h| (h.pid.0, h.misses)).collect::<Vec<_>>(),
            [(1, 12), (2, 1)]
        );
    }
}
