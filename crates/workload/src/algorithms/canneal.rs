//! Generator `canneal`: simulated annealing of a netlist, one proposed swap of two random elements per round. A
//! proposal loads the locations of all elements on the nets of both, so accesses spread over the whole footprint. Only
//! the location of each element is kept. The nets are computed from permutations.

use super::Describe;
use crate::{
    algorithm::{Algorithm, Sharing},
    flow::{FREE, flow, from, to},
    layout::Layout,
    memory::{Array, Kept, Memory, Setup},
    seed::{Shuffle, below, mix, nth, unit},
};
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Simulated annealing of a chip's placement: elements of a netlist are swapped.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CannealDesc {
    /// Elements; each takes 176 bytes, 4 of which are kept in memory. The largest input of
    /// PARSEC has 2500000. Default 16384.
    #[schemars(range(min = 64, max = 1u64 << 32))]
    #[schemars(extend("x-power-of-two" = true))]
    elements: u64,
    /// Nets into an element, and out of it. Default 5.
    #[schemars(range(min = 1, max = 8))]
    nets: u64,
    /// Steps of falling temperature. Default 10; the paper on PTE coalescing has 6000.
    #[schemars(range(min = 1, max = 1 << 30))]
    temperatures: u64,
    /// Swaps tried at a temperature. Default 1000; the paper has 15000.
    #[schemars(range(min = 1, max = 1 << 30))]
    swaps: u64,
    /// Temperature at the beginning. Default 2000, as PARSEC has it.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    temperature: u64,
    /// Seed. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for CannealDesc {
    fn default() -> Self {
        Self { elements: 16_384, nets: 5, temperatures: 10, swaps: 1_000, temperature: 2_000, seed: 1 }
    }
}

impl Describe for CannealDesc {
    const NAME: &str = "canneal";
    type Algorithm = Canneal;

    fn algorithm(&self) -> Result<Canneal, String> {
        let start = self.temperature as f64;
        Ok(Canneal::new(self.elements, self.nets, self.temperatures, self.swaps, start, self.seed))
    }
}

/// Canneal of PARSEC (Bienia et al., "The PARSEC benchmark suite", PACT 2008; `annealer_thread.cpp`, one thread). It
/// takes two random elements, and the cost of their nets at their own places and at each other's, by Manhattan
/// distance. Better swaps are made, and worse ones while it is hot. An element holds vectors of pointers to those it
/// has nets with, a pointer to its location, and its name; a location is two numbers.
///
/// Nets are permutations of the elements, so that each has as many in as out, and where they come from can be told.
#[derive(Clone)]
pub struct Canneal {
    layout: Layout,
    /// Where an element's pointers to others are.
    fan: [Array<u64>; 2],
    /// The pointers: first in, then out.
    others: Array<u64>,
    /// Which location an element has.
    location: Kept<u32>,
    x: Array<i32>,
    y: Array<i32>,
    wires: Vec<Shuffle>,
    /// Locations in a row of the square are 2 to the power of it.
    width: u32,
    elements: u64,
    nets: u64,
    steps: u64,
    swaps: u64,
    start: f64,
    temperature: f64,
    key: u64,
    at: u64,
    /// Swaps made.
    pub accepted: u64,
}

/// Two vectors of three pointers, the location's, and a string of 32 bytes.
const ELEMENT_BYTES: u64 = 88;
const FANIN: u64 = 0;
const FANOUT: u64 = 24;
const LOCATION: u64 = 48;
const LOCATION_BYTES: u64 = 8;
/// What a step multiplies the temperature by (`annealer_thread::Run`).
const COOLING: f64 = 1.5;

impl Canneal {
    /// `elements` with `nets` in and out; `swaps` at each of `steps` temperatures, from `start` on.
    pub fn new(elements: u64, nets: u64, steps: u64, swaps: u64, start: f64, seed: u64) -> Self {
        let mut layout = Layout::default();
        let records = layout.records(elements, ELEMENT_BYTES);
        let others = layout.array(elements * 2 * nets);
        let places = layout.records(elements, LOCATION_BYTES);
        let location = layout.keep(records.field(LOCATION));
        Self {
            fan: [records.field(FANIN), records.field(FANOUT)],
            others,
            location,
            x: places.field(0),
            y: places.field(4),
            layout,
            wires: (0..nets).map(|net| Shuffle::new(elements, seed ^ mix(net))).collect(),
            width: elements.ilog2() / 2,
            elements,
            nets,
            steps,
            swaps,
            start,
            temperature: start,
            key: mix(seed),
            at: 0,
            accepted: 0,
        }
    }

    /// Locations are a square, or half of one.
    #[inline(always)]
    fn place(&self, location: u64) -> (i32, i32) {
        ((location & ((1 << self.width) - 1)) as i32, (location >> self.width) as i32)
    }

    /// The element at the other end of a pointer: net `net` into `element`, or out of it.
    #[inline(always)]
    fn other(&self, element: u64, side: usize, net: u64) -> u64 {
        let wire = &self.wires[net as usize];
        if side == 0 { wire.back(element) } else { wire.forth(element) }
    }

    /// The two elements that swap `at` is about, and what else is random of it.
    #[inline(always)]
    fn drawn(&self, at: u64) -> (u64, u64, u64) {
        let random = nth(self.key, at);
        let again = mix(random);
        (below(random, self.elements), below(again, self.elements), mix(again))
    }

    /// Software prefetches of what will be looked up of `element`.
    #[inline(always)]
    fn prefetch_hint(&self, m: &mut impl Memory, element: u64) {
        m.prefetch_hint(self.location, || element);
        for side in 0..2 {
            (0..self.nets).for_each(|net| m.prefetch_hint(self.location, || self.other(element, side, net)));
        }
    }

    #[inline(always)]
    fn coordinates(&self, m: &mut impl Memory, location: u64) -> (i32, i32) {
        let (x, y) = self.place(location);
        (m.load(self.x, location, || x), m.load(self.y, location, || y))
    }

    /// What the nets of `element` would cost more at location `there` than at `here` (`netlist_elem::swap_cost`).
    #[inline(always)]
    fn cost(&self, m: &mut impl Memory, element: u64, here: u64, there: u64) -> i64 {
        m.block(1, 14);
        let (now, then) = (self.coordinates(m, here), self.coordinates(m, there));
        let mut more = 0;
        for side in 0..2 {
            let first = element * 2 * self.nets + side as u64 * self.nets;
            let first = m.load(self.fan[side], element, || first);
            for net in 0..self.nets {
                m.block(2, 22);
                let other = m.load(self.others, first + net, || self.other(element, side, net));
                let location = m.get(self.location, other).into();
                let (x, y) = self.coordinates(m, location);
                let far = |(a, b): (i32, i32)| i64::from(a.abs_diff(x)) + i64::from(b.abs_diff(y));
                more += far(then) - far(now);
            }
        }
        more
    }
}

impl Algorithm for Canneal {
    fn loads(&self) -> Option<Loads> {
        // Elements are random numbers. An element's nets lie where it says; each gives an element, this its location,
        // and this the coordinates. Nets do not wait for each other, nor do swaps. The last net of one side is
        // followed by where those of the other lie.
        const HERE: u8 = 1;
        const THERE: u8 = 2;
        const NETS: u8 = 3;
        const OTHER: u8 = 4;
        const LOCATION_OF: u8 = 5;
        flow(&[
            (0, &[to(HERE, FREE), to(THERE, FREE)]),
            (1, &[from(HERE), from(HERE), from(THERE), from(THERE), to(NETS, FREE)]),
            (
                2,
                &[
                    to(OTHER, from(NETS)),
                    to(LOCATION_OF, from(OTHER)),
                    from(LOCATION_OF),
                    from(LOCATION_OF),
                    to(NETS, FREE),
                ],
            ),
        ])
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        self.steps.checked_mul(self.swaps)
    }

    fn prepare(&self, setup: &mut impl Setup) {
        // Locations, then elements and their nets as the file has them, then where each element is.
        setup.rows(self.elements, |location| {
            let (x, y) = self.place(location);
            [self.x.cell(location, x), self.y.cell(location, y)]
        });
        let [fan_in, fan_out] = self.fan;
        setup.rows(self.elements, |element| {
            let first = element * 2 * self.nets;
            [fan_in.cell(element, first), fan_out.cell(element, first + self.nets)]
        });
        setup.fill(self.others, |at| {
            let (element, pointer) = (at / (2 * self.nets), at % (2 * self.nets));
            self.other(element, (pointer / self.nets) as usize, pointer % self.nets)
        });
        // Random places at first.
        let places = Shuffle::new(self.elements, self.key);
        setup.fill_kept(self.location, |element| places.forth(element) as u32);
    }

    fn sharing(&self) -> Sharing {
        Sharing::Turns
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        m.block(0, 45);
        let (a, b, random) = self.drawn(self.at);
        if self.at.is_multiple_of(self.swaps) {
            self.temperature = self.start / COOLING.powf((self.at / self.swaps) as f64);
        }
        self.at += 1;
        let (next, after, _) = self.drawn(self.at);
        self.prefetch_hint(m, next);
        self.prefetch_hint(m, after);
        if a == b {
            return true;
        }
        let (here, there) = (m.get(self.location, a).into(), m.get(self.location, b).into());
        let more = self.cost(m, a, here, there) + self.cost(m, b, there, here);
        m.block(3, 16);
        if more < 0 || (-(more as f64) / self.temperature).exp() > unit(random) {
            m.block(4, 8);
            m.put(self.location, a, there as u32);
            m.put(self.location, b, here as u32);
            self.accepted += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Model, model, ready};

    /// The length of all nets.
    fn length(found: &mut Model<Canneal>) -> i64 {
        let location = found.array(|k| k.location.array());
        let k = &found.algorithm;
        let at = |element: u64| k.place(location[element as usize].into());
        let ends = (0..k.elements).flat_map(|e| (0..k.nets).map(move |net| (e, k.wires[net as usize].forth(e))));
        ends.map(|(a, b)| (at(a), at(b)))
            .map(|(a, b)| i64::from(a.0.abs_diff(b.0)) + i64::from(a.1.abs_diff(b.1)))
            .sum()
    }

    #[test]
    fn annealing_shortens_the_nets_and_loses_no_place() {
        let new = || Canneal::new(1 << 8, 2, 40, 500, 100.0, 1);
        let (mut before, mut after) = (ready(new()), model(new()));
        let (long, short) = (length(&mut before), length(&mut after));
        assert!(short * 4 < long * 3, "{long} to {short}");
        let mut places = after.array(|k| k.location.array());
        places.sort_unstable();
        assert_eq!(places, (0..256).collect::<Vec<_>>());
        assert!(after.algorithm.accepted > 100);
    }
}
