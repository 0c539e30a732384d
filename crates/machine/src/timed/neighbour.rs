//! A program on another hardware thread of the core: it displaces entries of TLBs and walk caches, at random and all
//! the time. Nothing else is known of it, and nothing else of it is modelled here. Its share of the caches is in
//! `mmulab_walker`, and its share of the window and of units is in `core.timing`.

use crate::{cpu::Cpu, describe::MachineDesc, observe::Observe};
use mmulab_walker::chance;

/// Looks at each structure in the time that it keeps 1/e of its entries for.
const LOOKS: u64 = 8;

/// What it displaces, and when next.
pub(super) struct Neighbour {
    displaced: Vec<Displaced>,
    /// The earliest look.
    next: u64,
    /// Numbers drawn so far.
    drawn: u64,
}

struct Displaced {
    what: Structure,
    every: u64,
    next: u64,
}

#[derive(Clone, Copy)]
enum Structure {
    /// A TLB array, by its place in the description.
    Array(usize),
    /// A walk cache, likewise.
    WalkCache(usize),
}

impl Neighbour {
    /// The neighbour of a core; None where nothing is displaced.
    pub fn new(desc: &MachineDesc) -> Option<Self> {
        let arrays = desc.tlb.iter().map(|array| array.retention_cycles);
        let caches = desc.walker.cache.iter().map(|cache| cache.retention_cycles);
        let arrays = arrays.enumerate().map(|(at, cycles)| (Structure::Array(at), cycles));
        let all = arrays.chain(caches.enumerate().map(|(at, cycles)| (Structure::WalkCache(at), cycles)));
        let displaced: Vec<Displaced> = all
            .filter_map(|(what, cycles)| {
                let every = (cycles? / LOOKS).max(1);
                Some(Displaced { what, every, next: every })
            })
            .collect();
        (!displaced.is_empty()).then_some(Self { displaced, next: 0, drawn: 0 })
    }

    /// Entries go that were displaced up to `now`, if it is time to look.
    #[inline(always)]
    pub fn pass<O: Observe>(&mut self, cpu: &mut Cpu, now: u64, obs: &mut O) {
        if self.next <= now {
            self.displace(cpu, now, obs);
        }
    }

    #[cold]
    fn displace<O: Observe>(&mut self, cpu: &mut Cpu, now: u64, obs: &mut O) {
        for displaced in self.displaced.iter_mut().filter(|displaced| displaced.next <= now) {
            // A core may have been idle, or another one's time may have passed.
            let looks = (now - displaced.next) / displaced.every + 1;
            displaced.next += looks * displaced.every;
            let left = (-(looks as f64) / LOOKS as f64).exp();
            let goes = ((1.0 - left) * f64::from(u32::MAX)) as u32;
            let drawn = &mut self.drawn;
            let lose = || {
                *drawn += 1;
                chance(*drawn, 0) < goes
            };
            match displaced.what {
                Structure::Array(at) => cpu.tlbs.displace(at, lose, obs),
                Structure::WalkCache(at) => cpu.walker.displace(at, lose),
            }
        }
        self.next = self.displaced.iter().map(|displaced| displaced.next).min().unwrap_or(u64::MAX);
    }
}
