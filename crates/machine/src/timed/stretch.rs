//! The loop over a stretch of a trace, block by block.

use super::{Timed, blocks::PLAIN_MOST, port::Port};
use crate::{Ended, Machine, story::Watch};
use mmulab_trace::{Batch, Item, Ref};

/// Most instructions that a fetch and the word after it are taken to have; more are idle ones.
const PLAIN_INSTRUCTIONS: u64 = 4096;

impl Machine {
    /// Runs up to the next event; where that is.
    pub(crate) fn stretch_in_time<W: Watch>(
        &mut self,
        batch: &Batch,
        from: usize,
        watch: &mut W,
    ) -> Result<usize, Ended> {
        let cpu = usize::from(self.who.cpu);
        let (Some(mut timed), Some(mut common)) = (self.cores[cpu].timed.take(), self.timed.take()) else {
            unreachable!("the caller asked")
        };
        let mut at = from;
        let result = loop {
            let Some(&word) = batch.refs.get(at) else { break Ok(()) };
            let mut weight = 1;
            let Timed { core, brought, sampling, neighbour } = &mut *timed;
            if let Some(sampling) = sampling {
                let instructions = self.cores[cpu].instructions;
                if !sampling.in_time(instructions, core) {
                    let now = sampling.time(instructions, core);
                    self.cores[cpu].clock.follow(now);
                    if let Some(neighbour) = neighbour {
                        neighbour.pass(&mut self.cores[cpu], now, watch);
                    }
                    match word.item() {
                        Item::Event(_) => break Ok(()),
                        Item::Retire(count) => {
                            at += 1;
                            self.cores[cpu].instructions += count;
                        }
                        Item::Code(_) => at += 1,
                        Item::Access(..) => {
                            let mut port = Port::new(self, batch, at, (brought, &mut common), watch);
                            let passed = port.pass(now);
                            at = port.at();
                            if passed.is_err() {
                                break passed;
                            }
                        }
                    }
                    continue;
                }
                weight = if sampling.measures() { sampling.weight() } else { 0 };
            }
            let known = match word.item() {
                Item::Event(_) => break Ok(()),
                Item::Retire(count) => {
                    // Instructions of which nothing else is known.
                    at += 1;
                    self.cores[cpu].instructions += count;
                    common.blocks.idle(count);
                    core.idle(count);
                    continue;
                }
                Item::Code(index) => {
                    at += 1;
                    Some(common.blocks.of(&batch.code[index]))
                }
                Item::Access(..) => None,
            };
            let block = known.unwrap_or_else(|| {
                let (instructions, accesses, stores) = plain(&batch.refs[at..]);
                common.blocks.plain(instructions, accesses, stores)
            });
            let start = batch.refs.get(at).map_or(0, |word| word.va().raw());
            self.cores[cpu].clock.follow(core.now());
            if let Some(neighbour) = neighbour {
                neighbour.pass(&mut self.cores[cpu], core.now(), watch);
            }
            let mut port = Port::new(self, batch, at, (brought, &mut common), watch);
            port.weight = weight;
            let ran = core.run(&block, start, &mut port);
            at = port.at();
            if ran.is_err() {
                break ran;
            }
        };
        let instructions = self.cores[cpu].instructions;
        let now = timed.sampling.as_ref().map_or(timed.core.now(), |s| s.time(instructions, &timed.core));
        self.cores[cpu].clock.follow(now);
        self.cores[cpu].timed = Some(timed);
        self.timed = Some(common);
        result.map(|()| at)
    }
}

/// What the words up to the next fetch or control word are, of which no code is known: instructions, accesses, and
/// which of these store.
fn plain(words: &[Ref]) -> (u32, u32, u64) {
    let (mut instructions, mut accesses, mut stores) = (0, 0, 0);
    for (index, word) in words.iter().enumerate() {
        // A block longer than a fetch word can say.
        if let (1, Item::Retire(more @ ..=PLAIN_INSTRUCTIONS)) = (index, word.item())
            && words[0].is_fetch()
        {
            instructions += more as u32;
            continue;
        }
        if word.is_control() || word.is_fetch() && index > 0 && (word.instructions() > 0 || accesses > 0) {
            break;
        }
        if word.is_fetch() {
            instructions += word.instructions();
        } else {
            if accesses as usize == PLAIN_MOST {
                break;
            }
            stores |= u64::from(word.is_write()) << accesses;
            accesses += 1;
        }
    }
    (instructions, accesses, stores)
}
