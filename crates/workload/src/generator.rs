use mmulab_addr::{Prot, VirtAddr};
use mmulab_trace::{Backing, Batch, Event, Isa, MapFlags, Source, TraceError, TraceInfo};

/// Where every generator's data lie: aligned to 1 GiB, so that pages of any size fit.
pub const DATA: VirtAddr = VirtAddr::new(0x10_0000_0000);
/// Where every generator's loop lies: one page of code.
const CODE: VirtAddr = VirtAddr::new(0x40_0000);
/// Bytes of an element.
pub const WORD: u64 = 8;

/// One round of a loop: the block that runs, and what it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// What is loaded.
    pub read: Option<VirtAddr>,
    /// What is stored to, after the load.
    pub write: Option<VirtAddr>,
}

/// An algorithm, as the rounds of its loop.
pub trait Rounds: Send {
    /// Bytes of its data.
    fn footprint(&self) -> u64;
    /// Rounds in all.
    fn rounds(&self) -> u64;
    /// Instructions of one round.
    fn instructions(&self) -> u32;
    /// The next round.
    fn next(&mut self) -> Round;
}

/// A [`Source`] of an algorithm's rounds.
pub struct Generator<R> {
    info: TraceInfo,
    rounds: R,
    done: u64,
    mapped: bool,
}

impl<R: Rounds> Generator<R> {
    /// The references of `rounds`, which the user calls `name`; `identity` is the same for all names of the same.
    pub fn new(name: String, identity: String, rounds: R) -> Self {
        let instructions = rounds.rounds() * u64::from(rounds.instructions());
        let info = TraceInfo {
            hash: Some(format!("{identity} version {}", env!("CARGO_PKG_VERSION"))),
            program: name.clone(),
            name,
            format: "generator".into(),
            isa: Isa::X86_64,
            instructions: Some(instructions),
            has_address_space: true,
            ..TraceInfo::default()
        };
        Self { info, rounds, done: 0, mapped: false }
    }

    fn map(&mut self, batch: &mut Batch) {
        let file = Backing::File { path: self.info.program.as_str().into(), offset: 0 };
        let code = (CODE, 4096, Prot::RX, file);
        let data = (DATA, self.rounds.footprint(), Prot::RW, Backing::Anon);
        for (addr, len, prot, backing) in [code, data] {
            batch.push_event(Event::Mmap { addr, len, prot, flags: MapFlags::default(), backing });
        }
        self.mapped = true;
    }
}

impl<R: Rounds> Source for Generator<R> {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        if self.done == self.rounds.rounds() {
            return Ok(false);
        }
        if !self.mapped {
            self.map(batch);
        }
        let instructions = self.rounds.instructions();
        let left = self.rounds.rounds() - self.done;
        // At most three words a round.
        let now = left.min((Batch::TARGET / 3) as u64);
        for _ in 0..now {
            let round = self.rounds.next();
            batch.push_block(CODE, 64, instructions);
            if let Some(va) = round.read {
                batch.push_data(va, WORD, false);
            }
            if let Some(va) = round.write {
                batch.push_data(va, WORD, true);
            }
        }
        self.done += now;
        Ok(true)
    }

    fn progress(&self) -> Option<f64> {
        Some(self.done as f64 / self.rounds.rounds().max(1) as f64)
    }
}
