//! The loop over references in time, block by block.

use super::{
    blocks::PLAIN_MOST,
    cpu::{Common, CpuInTime},
    port::Port,
    timeline::{InTime, Kept},
};
use crate::{
    ended::Ended,
    engine::{Below, Engine},
    observe::Observe,
};
use mmulab_trace::{Batch, Item, Ref};

/// Most instructions that a fetch and the word after it are taken to have; more are idle ones.
const PLAIN_INSTRUCTIONS: u64 = 4096;

/// Runs up to the next event; returns where that is.
pub(super) fn run_references<B: Below, O: Observe>(
    engine: &mut Engine<B, InTime>,
    batch: &Batch,
    from: usize,
    obs: &mut O,
) -> Result<usize, Ended> {
    let Some(mut kept) = engine.execution.kept.take() else { unreachable!("put back whenever references end") };
    let ran = run_blocks(engine, &mut kept, batch, from, obs);
    engine.execution.kept = Some(kept);
    ran
}

fn run_blocks<B: Below, O: Observe>(
    engine: &mut Engine<B, InTime>,
    kept: &mut Kept,
    batch: &Batch,
    from: usize,
    obs: &mut O,
) -> Result<usize, Ended> {
    let cpu = engine.state.acting.cpu();
    let Kept { cpus, common: Common { blocks, memory } } = kept;
    let CpuInTime { core, prefetch, sampling, neighbour } = &mut cpus[cpu];
    let mut at = from;
    let result = loop {
        let Some(&word) = batch.refs.get(at) else { break Ok(()) };
        let mut weight = 1;
        if let Some(sampling) = sampling {
            let record = &mut engine.state.hardware.cpus[cpu];
            if !sampling.in_time(record.instructions, core) {
                let now = sampling.time(record.instructions, core);
                record.clock.follow(now);
                if let Some(neighbour) = neighbour {
                    neighbour.pass(record, now, obs);
                }
                match word.item() {
                    Item::Event(_) => break Ok(()),
                    Item::Retire(count) => {
                        at += 1;
                        record.begin(count);
                    }
                    Item::Code(index) => {
                        at += 1;
                        if core.follows_branches() {
                            let start = batch.refs.get(at).map_or(0, |word| word.va().raw());
                            core.pass(blocks.seen(index, &batch.code), start);
                        }
                    }
                    Item::Access(..) => {
                        let mut port = Port::new(engine, batch, at, prefetch, memory, obs);
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
        let block = match word.item() {
            Item::Event(_) => break Ok(()),
            Item::Retire(count) => {
                // Instructions of which nothing else is known.
                at += 1;
                engine.state.hardware.cpus[cpu].begin(count);
                blocks.idle(count);
                core.idle(count);
                continue;
            }
            Item::Code(index) => {
                at += 1;
                blocks.of(index, &batch.code)
            }
            Item::Access(..) => {
                let Words { instructions, accesses, stores } = plain(&batch.refs[at..]);
                let start = Some(word).filter(|word| word.is_fetch()).map(|word| word.va().raw());
                blocks.plain(start, instructions, accesses, stores)
            }
        };
        let start = batch.refs.get(at).map_or(0, |word| word.va().raw());
        let record = &mut engine.state.hardware.cpus[cpu];
        record.clock.follow(core.now());
        if let Some(neighbour) = neighbour {
            neighbour.pass(record, core.now(), obs);
        }
        let mut port = Port::new(engine, batch, at, prefetch, memory, obs);
        port.weight = weight;
        let ran = core.run(block, start, &mut port);
        at = port.at();
        if ran.is_err() {
            break ran;
        }
    };
    let record = &mut engine.state.hardware.cpus[cpu];
    let now = sampling.as_ref().map_or(core.now(), |sampling| sampling.time(record.instructions, core));
    record.clock.follow(now);
    result.map(|()| at)
}

/// What is known of words without code.
struct Words {
    instructions: u32,
    accesses: u32,
    /// Bit n: access n stores.
    stores: u64,
}

/// The words up to the next fetch or control word, of which no code is known.
fn plain(words: &[Ref]) -> Words {
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
    Words { instructions, accesses, stores }
}
