//! Building an array from its description: the checks that are the same for every design, then the design's own.

use super::{Array, Guessing};
use crate::classes::MAX_CLASSES;
use crate::{
    ArrayDesc, CoalescingCounts, GeometryError, Probe,
    design::{Built, Guesses, Plan, names},
    key::MAX_SIZES,
    predictor::Predictor,
};
use mmulab_assoc::geometry;

/// Most entries an array may have: far above any TLB built, and small enough that no description exhausts memory.
const MAX_ENTRIES: u32 = 1 << 16;
/// Longest latency: far above any, and small enough that no sum overflows.
const MAX_CYCLES: u32 = 10_000;

impl Array {
    /// The array that `desc` describes; `seed` is that of its random replacement.
    ///
    /// # Errors
    /// The description is impossible; the error states the remedy.
    pub fn new(desc: &ArrayDesc, seed: u64) -> Result<Self, GeometryError> {
        let bad = |what: String| Err(GeometryError { array: desc.name.clone(), what });
        if !(1..=MAX_ENTRIES).contains(&desc.entries) {
            return bad(format!("{} entries: give 1 to {MAX_ENTRIES}", desc.entries));
        }
        let (sets, ways) = match geometry(u64::from(desc.entries), desc.ways, desc.replacement) {
            Ok(shape) => shape,
            Err(what) => return bad(what),
        };
        if !matches!(desc.level, 1 | 2) {
            return bad(format!("level is {}: give 1 or 2", desc.level));
        }
        if desc.level == 1 && desc.hit_cycles != 0 {
            return bad("a first level answers within the pipeline: leave out hit_cycles".into());
        }
        if desc.level == 2 && desc.probe_cycles != 0 {
            return bad("each probe of a second level takes its hit_cycles: leave out probe_cycles".into());
        }
        let guess_cycles = desc.predictor.as_ref().map_or(0, |p| p.cycles);
        for (key, cycles) in
            [("hit_cycles", desc.hit_cycles), ("probe_cycles", desc.probe_cycles), ("predictor.cycles", guess_cycles)]
        {
            if cycles > MAX_CYCLES {
                return bad(format!("{key} is {cycles}: give 0 to {MAX_CYCLES}"));
            }
        }
        if desc.level == 1 && guess_cycles != 0 {
            return bad("a first level's predictor answers within the pipeline: leave out predictor.cycles".into());
        }
        let about = desc.design.about();
        if desc.mix.is_some() && !about.keys.mix {
            return bad(format!("mix is for design {}: leave it out", names(|about| about.keys.mix)));
        }
        if desc.predictor.is_some() && desc.probe != Probe::Serial && about.keys.predictor == Guesses::IfSerial {
            let always = names(|about| about.keys.predictor == Guesses::Always);
            return bad(format!(
                "a predictor says which size to search first: give probe = \"serial\" or design = \"{always}\""
            ));
        }
        let guessing = match desc.predictor.as_ref().map(Predictor::new).transpose() {
            Ok(predictor) => {
                predictor.map(|predictor| Box::new(Guessing { predictor, cycles: guess_cycles, probes: 0 }))
            }
            Err(what) => return bad(what),
        };
        if desc.sizes.is_empty() {
            return bad("sizes is empty: name at least one page size".into());
        }
        if desc.sizes.len() > MAX_SIZES {
            return bad(format!("{} sizes: give at most {MAX_SIZES}", desc.sizes.len()));
        }
        let mut sizes = desc.sizes.clone();
        sizes.sort_unstable();
        if let Some(twice) = sizes.windows(2).find(|w| w[0] == w[1]) {
            return bad(format!("sizes names {} twice: name it once", twice[0]));
        }
        let plan = Plan { desc, about, sizes: &sizes, sets, ways, seed };
        let built = about.check(&plan).and_then(|()| desc.design.build(&plan));
        let Built { kind, sizes, classes, group, looks } = match built {
            Ok(built) => built,
            Err(what) => return bad(what),
        };
        if let Some(part) = desc.smash_to
            && !desc.sizes.contains(&part)
        {
            return bad(format!("smash_to is {part}: name one of its sizes"));
        }
        let serial = desc.probe == Probe::Serial;
        // A guess that fails has all other ways searched together, where each size has ways of its own.
        let guesses_ways = guessing.is_some() && about.keys.predictor == Guesses::Always;
        let most_probes = match (serial, guesses_ways && sizes.len() > 1) {
            (true, _) => sizes.len() as u32,
            (_, true) => 2,
            _ => 1,
        };
        if desc.probe_cycles != 0 && most_probes == 1 {
            return bad("each lookup takes one probe, which the pipeline hides: leave out probe_cycles".into());
        }
        // Small pages and groups of them lie in the same set.
        let several = u32::from(classes.len() > sizes.len());
        let turns = std::array::from_fn(|class| (class as u32 + 1 - several).max(1));
        Ok(Self {
            name: desc.name.clone(),
            level: desc.level,
            shared: desc.shared,
            per_thread: desc.per_thread,
            placement: desc.side,
            smash_to: desc.smash_to,
            hit_cycles: turns.map(|turn| desc.hit_cycles * if serial { turn } else { 1 }),
            turns,
            miss_cycles: desc.hit_cycles * most_probes + guess_cycles,
            serial,
            probe_cycles: desc.hit_cycles,
            guessing,
            sizes,
            classes,
            hits: [0; MAX_CLASSES],
            reloads: [[[0; MAX_CLASSES]; 2]; 2],
            group,
            looks,
            coalescing: CoalescingCounts::default(),
            kind,
        })
    }
}
