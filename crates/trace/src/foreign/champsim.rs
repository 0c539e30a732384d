//! ChampSim traces: reader and writer of 64-byte records, one per instruction. The records contain no mappings,
//! threads or access sizes, so the writer reports the content that was left out or made up.
//!
//! ```text
//! byte  0        8       9      10         12          16          32         64
//!       address  branch  taken  2 dest.    4 source    2 stores    4 loads    next record
//!                               registers  registers   (8 bytes    (8 bytes
//!                                                      each)       each)
//! ```

use super::line_reader::unpacking_error;
use crate::{Batch, Item, Source, TraceError, TraceErrorKind, TraceInfo, full_read::read_up_to};
use mmulab_addr::{Access, VirtAddr};
use std::io::{self, BufRead, Write};

/// Bytes of a record: `input_instr` of ChampSim's inc/trace_instruction.h, little-endian. The fields are the
/// instruction's address (8 bytes), is_branch and branch_taken (1 each), and 2 destination and 4 source registers (1
/// each). Then follow 2 destination and 4 source memory addresses (8 each, 0 for none).
const RECORD: usize = 64;
const STORES: usize = 2;
const LOADS: usize = 4;
const STORES_AT: usize = 16;
const LOADS_AT: usize = STORES_AT + 8 * STORES;

/// Reads ChampSim's traces: a fetch for each instruction, then its loads, then its stores. The records contain no
/// access sizes, so every access lies within one page.
pub struct ChampSimReader<R> {
    input: R,
    info: TraceInfo,
    at: u64,
    ended: bool,
}

impl<R: BufRead + Send> ChampSimReader<R> {
    /// Reads `input`, called `name` in errors.
    pub fn new(input: R, name: String) -> Self {
        let info = TraceInfo { name, format: "champsim".into(), ..TraceInfo::default() };
        Self { input, info, at: 0, ended: false }
    }

    fn error(&self, kind: TraceErrorKind) -> TraceError {
        TraceError::new(&self.info.name, format!("byte {}", self.at), kind)
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let mut record = [0; RECORD];
        while !batch.is_full() {
            let got = read_up_to(&mut self.input, &mut record)
                .map_err(|e| unpacking_error(&self.info.name, format!("byte {}", self.at), e))?;
            if got == 0 {
                return Ok(false);
            }
            if got < RECORD {
                let what = format!("{got} bytes are left for the last record, which has {RECORD}");
                return Err(self.error(TraceErrorKind::Cut(what)));
            }
            if let Some(what) = implausible(&record) {
                return Err(self.error(TraceErrorKind::Damaged(what)));
            }
            batch.push_block(VirtAddr::new(address(&record, 0)), 1, 1);
            for (at, count, write) in [(LOADS_AT, LOADS, false), (STORES_AT, STORES, true)] {
                for i in 0..count {
                    match address(&record, at + 8 * i) {
                        0 => {}
                        raw => batch.push_data(VirtAddr::new(raw), 1, write),
                    }
                }
            }
            self.at += RECORD as u64;
        }
        Ok(true)
    }
}

fn address(record: &[u8; RECORD], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&record[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Why the record cannot be ChampSim's.
fn implausible(record: &[u8; RECORD]) -> Option<String> {
    if record[8] > 1 || record[9] > 1 {
        return Some(format!("is_branch is {}, branch_taken {}: 0 and 1 can be", record[8], record[9]));
    }
    let mut addresses = [0].into_iter().chain((STORES_AT..RECORD).step_by(8)).map(|at| address(record, at));
    let strange = addresses.find(|&raw| VirtAddr::new(raw).raw() != raw);
    strange.map(|raw| format!("{raw:#x} is not a canonical address of 57 bits"))
}

/// Whether `start`, the first bytes of a file, could be records. There is no magic number; that random bytes pass has
/// a chance of 2^-60 for each record.
pub(crate) fn looks_like(start: &[u8]) -> bool {
    let (records, _) = start.as_chunks::<RECORD>();
    !records.is_empty() && records.iter().all(|r| implausible(r).is_none() && address(r, 0) != 0)
}

impl<R: BufRead + Send> Source for ChampSimReader<R> {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        if self.ended {
            return Ok(false);
        }
        let more = self.fill(batch);
        self.ended = !matches!(more, Ok(true));
        Ok(more? || !batch.refs.is_empty())
    }
}

/// Most instructions without references written for one count of them.
const MAX_IDLE: u64 = 1 << 16;

/// Writes ChampSim's traces, and counts what they cannot hold.
///
/// A block of several instructions becomes as many records at addresses one byte apart, its accesses spread over them
/// in order. Registers and branches are not known and stay 0.
pub struct ChampSimWriter<W> {
    out: W,
    block: Block,
    lost: Lost,
}

/// A fetch and what follows it.
#[derive(Default)]
struct Block {
    start: Option<VirtAddr>,
    instructions: u64,
    /// The page boundary its last instruction crosses.
    second: Option<VirtAddr>,
    accesses: Vec<(VirtAddr, bool)>,
}

#[derive(Default)]
struct Lost {
    events: u64,
    switches: u64,
    blocks: u64,
    added: u64,
    idle: u64,
    null: u64,
    crossings: u64,
}

impl<W: Write> ChampSimWriter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out, block: Block::default(), lost: Lost::default() }
    }

    /// Appends all of a batch.
    ///
    /// # Errors
    /// The writer's.
    pub fn push_batch(&mut self, batch: &Batch) -> io::Result<()> {
        self.push_from(batch, 0)
    }

    /// The same from word `first` on.
    pub(crate) fn push_from(&mut self, batch: &Batch, first: usize) -> io::Result<()> {
        for word in &batch.refs[first..] {
            match word.item() {
                // The second page of the block before.
                Item::Access(Access::Fetch, va, 0) if self.block.accesses.is_empty() && self.block.instructions > 1 => {
                    self.block.second = Some(va);
                }
                Item::Access(Access::Fetch, _, 0) => self.lost.crossings += 1,
                Item::Access(Access::Fetch, va, n) => {
                    self.flush()?;
                    (self.block.start, self.block.instructions) = (Some(va), u64::from(n));
                }
                Item::Access(access, va, _) if va.raw() != 0 => {
                    self.block.accesses.push((va, access == Access::Write));
                }
                Item::Access(..) => self.lost.null += 1,
                Item::Retire(n) => {
                    let written = n.min(MAX_IDLE);
                    self.block.instructions += written;
                    self.lost.idle += n - written;
                }
                Item::Code(_) => {}
                Item::Event(i) => {
                    let switch = matches!(batch.events.get(i), Some(crate::Event::Switch { .. }));
                    *(if switch { &mut self.lost.switches } else { &mut self.lost.events }) += 1;
                }
            }
        }
        Ok(())
    }

    /// Writes the records of the block gathered so far.
    fn flush(&mut self) -> io::Result<()> {
        let block = &mut self.block;
        let count = block.instructions.max(u64::from(!block.accesses.is_empty()));
        self.lost.added += count - block.instructions;
        let start = block.start.map_or(0, VirtAddr::raw);
        let accesses = block.accesses.len() as u64;
        let mut next = 0;
        let mut i = 0;
        // Records that accesses need beyond the block's own instructions come last.
        while i < count || next < block.accesses.len() {
            let mut record = [0; RECORD];
            let page_end = start | (mmulab_addr::BASE_BYTES - 1);
            let here = match block.second {
                Some(second) if i + 1 >= count => second.raw(),
                _ => start.saturating_add(i).min(page_end),
            };
            record[..8].copy_from_slice(&here.to_le_bytes());
            let (mut loads, mut stores) = (0, 0);
            // The share of the accesses that falls to this instruction and those before it, rounded up.
            let due = ((i + 1) * accesses).div_ceil(count);
            while let Some(&(va, write)) = block.accesses.get(next).filter(|_| (next as u64) < due) {
                let (at, used, room) =
                    if write { (STORES_AT, &mut stores, STORES) } else { (LOADS_AT, &mut loads, LOADS) };
                if *used == room {
                    break;
                }
                record[at + 8 * *used..][..8].copy_from_slice(&va.raw().to_le_bytes());
                *used += 1;
                next += 1;
            }
            self.out.write_all(&record)?;
            i += 1;
        }
        self.lost.added += i - count;
        self.lost.blocks += u64::from(count > 1);
        *block = Block { accesses: std::mem::take(&mut block.accesses), ..Block::default() };
        block.accesses.clear();
        Ok(())
    }

    /// Writes what is left; the writer, and what the format could not hold.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(mut self) -> io::Result<(W, Vec<String>)> {
        self.flush()?;
        self.out.flush()?;
        Ok((self.out, self.lost.told()))
    }
}

impl Lost {
    fn told(&self) -> Vec<String> {
        let counted = [
            (self.events, "left out", "events of the address space, processes and threads"),
            (self.switches, "left out", "switches between threads: all are one stream"),
            (self.idle, "left out", "instructions without references"),
            (self.null, "left out", "accesses to address 0, which means none"),
            (self.crossings, "left out", "second pages of single instructions"),
            (self.added, "added", "instructions, to hold accesses beyond 4 loads and 2 stores each"),
            (self.blocks, "made up", "blocks of several instructions: addresses within them are one byte apart"),
        ];
        let counted = counted.iter().filter(|(n, ..)| *n > 0).map(|(n, how, what)| format!("{how}: {n} {what}"));
        counted.chain(["left out: registers, branches and sizes of accesses".to_owned()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Ref};

    fn record(ip: u64, stores: [u64; 2], loads: [u64; 4]) -> Vec<u8> {
        let mut out = ip.to_le_bytes().to_vec();
        out.extend([1, 0, 6, 25, 6, 26, 0, 0]);
        stores.iter().chain(&loads).for_each(|a| out.extend(a.to_le_bytes()));
        out
    }

    fn read(bytes: &[u8]) -> (Vec<Ref>, Option<TraceError>) {
        let (mut batch, mut refs) = (Batch::default(), Vec::new());
        let mut reader = ChampSimReader::new(bytes, "t".into());
        loop {
            let read = reader.next_batch(&mut batch);
            refs.append(&mut batch.refs);
            match read {
                Ok(true) => {}
                Ok(false) => return (refs, None),
                Err(error) => return (refs, Some(error)),
            }
        }
    }

    #[test]
    fn records_become_references_and_back() {
        let bytes =
            [record(0x40_1000, [0x7fff_0000, 0], [0, 0x1000, 0, 0x2000]), record(0x40_1003, [0; 2], [0; 4])].concat();
        let (refs, error) = read(&bytes);
        assert!(error.is_none());
        let va = VirtAddr::new;
        let expected = [
            Ref::fetch(va(0x40_1000), 1),
            Ref::read(va(0x1000)),
            Ref::read(va(0x2000)),
            Ref::write(va(0x7fff_0000)),
            Ref::fetch(va(0x40_1003), 1),
        ];
        assert_eq!(refs, expected);
        let mut writer = ChampSimWriter::new(Vec::new());
        writer.push_batch(&Batch { refs: refs.clone(), ..Batch::default() }).unwrap();
        let (written, lost) = writer.finish().unwrap();
        assert_eq!(lost.len(), 1);
        assert_eq!(written.len(), bytes.len());
        assert_eq!(read(&written).0, refs);
    }

    #[test]
    fn blocks_are_spread_and_what_does_not_fit_is_counted() {
        let mut batch = Batch::default();
        batch.push_event(Event::Tick);
        batch.push_block(VirtAddr::new(0x1ffd), 8, 3);
        (0..9).for_each(|i| batch.push_data(VirtAddr::new(0x9000 + i * 64), 1, true));
        batch.push_data(VirtAddr::new(0), 1, false);
        batch.refs.push(Ref::retire(MAX_IDLE + 5));
        batch.push_block(VirtAddr::new(0x3000), 1, 1);
        let mut writer = ChampSimWriter::new(Vec::new());
        writer.push_batch(&batch).unwrap();
        let (written, lost) = writer.finish().unwrap();
        assert!(looks_like(&written));
        let (refs, error) = read(&written);
        assert!(error.is_none());
        assert_eq!(refs.iter().filter(|r| r.is_write()).count(), 9);
        assert_eq!(refs.iter().filter(|r| r.is_fetch()).count() as u64, 3 + MAX_IDLE + 1);
        assert!(refs.contains(&Ref::fetch(VirtAddr::new(0x2000), 1)), "the second page");
        let lost = lost.join("\n");
        for what in ["1 events", "5 instructions without", "1 accesses to address 0", "1 blocks"] {
            assert!(lost.contains(what), "{what}: {lost}");
        }
    }

    #[test]
    fn cut_and_damaged_records_have_their_byte() {
        let mut bytes = [record(0x40_1000, [0; 2], [0; 4]), record(0x40_1003, [0; 2], [0; 4])].concat();
        let (refs, error) = read(&bytes[..100]);
        assert_eq!(refs.len(), 1);
        assert!(error.unwrap().to_string().contains("byte 64: cut short: 36 bytes"));
        bytes[64 + 8] = 7;
        assert!(!looks_like(&bytes) && looks_like(&bytes[..64]));
        assert!(read(&bytes).1.unwrap().to_string().contains("byte 64: damaged: is_branch is 7"));
        assert!(!looks_like(&[0; 128]) && !looks_like(b"short"));
    }
}
