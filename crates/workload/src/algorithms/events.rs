//! Generator `events`: discrete-event simulation of a network, in the manner of omnetpp. Each event pops the earliest
//! message from a binary heap, updates a module, frees the message and sends a new one. Gates lead to random modules,
//! so successive events touch distant records.

use super::Describe;
use crate::{
    algorithm::Algorithm,
    heap::Heap,
    layout::Layout,
    memory::{Array, Kept, Memory, Setup},
    seed::{below, mix, nth},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Simulation of a network by discrete events: messages go from module to module.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EventsDesc {
    /// Modules, 256 bytes each. Default 10k.
    #[schemars(range(min = 2, max = 1u64 << 32))]
    modules: u64,
    /// Messages in flight at a time; each takes 192 bytes, of which 20 are kept in memory. Default 10k.
    #[schemars(range(min = 1, max = 1u64 << 32))]
    messages: u64,
    /// Gates of a module, each to a random other one. Default 4.
    #[schemars(range(min = 1, max = 16))]
    gates: u64,
    /// Events. Default 100k.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    events: u64,
    /// Seed. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for EventsDesc {
    fn default() -> Self {
        Self { modules: 10_000, messages: 10_000, gates: 4, events: 100_000, seed: 1 }
    }
}

impl Describe for EventsDesc {
    const NAME: &str = "events";
    type Algorithm = Events;

    fn algorithm(&self) -> Result<Events, String> {
        Ok(Events::new(self.modules, self.messages, self.gates, self.events, self.seed))
    }
}

/// A simulator like omnetpp of SPEC CPU (Varga and Hornig, "An overview of the OMNeT++ simulation environment", 2008).
/// The future events are a binary heap of messages by their time of arrival. The first is taken out, its module's state
/// changes, and the message is freed. A new one, from a list of free messages, goes through a gate of the module to the
/// next.
#[derive(Clone)]
pub struct Events {
    layout: Layout,
    heap: Heap,
    /// Of a message: the module it goes to, the next free one, and the rest of it.
    target: Kept<u32>,
    next_free: Kept<u32>,
    words: Array<u64>,
    /// Of a module: counters and what else a handler looks at.
    state: Array<u64>,
    gate: Array<u32>,
    modules: u64,
    messages: u64,
    gates: u64,
    events: u64,
    key: u64,
    at: u64,
    free: u64,
    /// Simulated time.
    pub now: u64,
}

const MESSAGE_BYTES: u64 = 192;
const MODULE_BYTES: u64 = 256;
/// Words of a message that are written when it is made: a quarter of it; of a module that a handler reads and changes.
const MESSAGE_WORDS: u64 = 6;
const STATE_WORDS: u64 = 3;
/// Messages take up to so long.
const DELAY_MAX: u64 = 1 << 20;

impl Events {
    /// `events` among `modules` with `messages` in flight.
    pub fn new(modules: u64, messages: u64, gates: u64, events: u64, seed: u64) -> Self {
        let mut layout = Layout::default();
        let heap = Heap::new(&mut layout, messages, 4);
        // One is being handled while its successor is made.
        let records = layout.records(messages + 1, MESSAGE_BYTES);
        let states = layout.records(modules, MODULE_BYTES);
        let gate = layout.array(modules * gates);
        let (target, next_free) = (layout.keep(records.field(0)), layout.keep(records.field(4)));
        Self {
            layout,
            heap,
            target,
            next_free,
            words: records.words(),
            state: states.words(),
            gate,
            modules,
            messages,
            gates,
            events,
            key: mix(seed),
            at: 0,
            free: 0,
            now: 0,
        }
    }

    #[inline(always)]
    fn peer(&self, gate: u64) -> u32 {
        below(nth(!self.key, gate), self.modules) as u32
    }

    /// Makes a message to `module` and puts it among the future events.
    #[inline(always)]
    fn send(&mut self, m: &mut impl Memory, module: u32, random: u64) {
        m.block(1, 40);
        let message = self.free;
        self.free = m.get(self.next_free, message).into();
        m.put(self.target, message, module);
        for word in 1..1 + MESSAGE_WORDS {
            m.store(self.words, message * (MESSAGE_BYTES / 8) + word, || random);
        }
        self.heap.push(m, self.now + 1 + random % DELAY_MAX, message);
    }
}

impl Algorithm for Events {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.messages + self.events)
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.words, |_| 0);
        setup.fill(self.state, |_| 0);
        setup.fill(self.gate, |gate| self.peer(gate));
        setup.rows(self.messages + 1, |i| [self.next_free.cell(i, (i + 1) as u32)]);
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        m.block(0, 25);
        let random = nth(self.key, self.at);
        self.at += 1;
        // At first every message is sent once.
        if self.at <= self.messages {
            self.send(m, below(mix(random), self.modules) as u32, random);
            return true;
        }
        let Some((time, message)) = self.heap.pop(m) else { return false };
        self.now = time;
        m.block(2, 60);
        let module = u64::from(m.get(self.target, message));
        m.load(self.words, message * (MESSAGE_BYTES / 8) + 1, || 0);
        for word in 0..STATE_WORDS {
            let at = module * (MODULE_BYTES / 8) + word * 8;
            let before = m.load(self.state, at, || 0);
            m.store(self.state, at, || before + 1);
        }
        let gate = module * self.gates + below(mix(random), self.gates);
        let next = m.load(self.gate, gate, || self.peer(gate));
        m.block(3, 20);
        m.put(self.next_free, message, self.free as u32);
        self.free = message;
        self.send(m, next, random);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{model, ready};

    #[test]
    fn time_never_goes_back_and_every_event_reaches_a_module() {
        let mut found = ready(Events::new(50, 40, 3, 500, 1));
        let mut last = 0;
        for _ in 0..540 {
            assert!(found.algorithm.round(&mut found.memory));
            assert!(found.algorithm.now >= last);
            last = found.algorithm.now;
        }
        assert_eq!(found.algorithm.heap.len(), 40, "as many in flight as at first");
        let states = found.array(|k| k.state);
        let counted: u64 = states.iter().step_by((MODULE_BYTES / 8) as usize).sum();
        assert_eq!(counted, 500);
        assert!(model(Events::new(50, 40, 3, 500, 1)).algorithm.now == last);
    }
}
