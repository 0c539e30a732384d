//! Generator `streamcluster`: clustering of points, with a pass over all points for each proposed centre. Each
//! distance reads the coordinates of a point and of the centre in sequence. Most accesses therefore stream through the
//! coordinate array.

use super::Describe;
use crate::{
    algorithm::{Algorithm, Sharing},
    flow::{FREE, flow, from, to},
    layout::Layout,
    memory::{Array, Kept, Memory, Setup},
    seed::{below, mix, nth},
};
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Online clustering: what a new centre would gain is found in passes over all points.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamClusterDesc {
    /// Points of a chunk; 8 bytes of each are kept in memory. PARSEC's largest input has 200000. Default
    /// 2000.
    #[schemars(range(min = 2, max = 1u64 << 32))]
    points: u64,
    /// Coordinates of a point, 4 bytes each. Default 128, as PARSEC's largest input.
    #[schemars(range(min = 1, max = 4096))]
    dimensions: u64,
    /// Centres proposed, each by a pass. Default 10.
    #[schemars(range(min = 1, max = 1 << 30))]
    passes: u64,
    /// Seed. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for StreamClusterDesc {
    fn default() -> Self {
        Self { points: 2_000, dimensions: 128, passes: 10, seed: 1 }
    }
}

impl Describe for StreamClusterDesc {
    const NAME: &str = "streamcluster";
    type Algorithm = StreamCluster;

    fn algorithm(&self) -> Result<StreamCluster, String> {
        Ok(StreamCluster::new(self.points, self.dimensions, self.passes, self.seed))
    }
}

/// `pgain` of PARSEC's streamcluster (Bienia et al., "The PARSEC benchmark suite", PACT 2008), on one thread. It takes
/// the distance of every point to a random one. Points nearer to it than to their centre are counted for it, others for
/// what their centre would lose. When that pays for a new centre, a second pass assigns the points anew. A point is a
/// record of weight, a pointer to its coordinates, its centre and its cost.
///
/// No centre is closed again: what is counted for closing is stored, and not used. Costs are sums of products of whole
/// numbers, so that they do not depend on the order of additions.
#[derive(Clone)]
pub struct StreamCluster {
    layout: Layout,
    coordinates: Array<f32>,
    coordinates_at: Array<u64>,
    weight: Array<f32>,
    assign: Kept<u32>,
    cost: Kept<f32>,
    /// Whether a point is a centre, and which.
    is_center: Kept<u8>,
    center_table: Array<i32>,
    lower: Array<f64>,
    switches: Kept<u8>,
    points: u64,
    dimensions: u64,
    passes: u64,
    key: u64,
    pass: u64,
    phase: Phase,
    at: u64,
    proposed: u64,
    gain: f64,
    /// Centres opened, and a centre's price.
    pub opened: u64,
    price: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Gain,
    Assign,
}

const POINT_BYTES: u64 = 32;
const WEIGHT: u64 = 0;
const COORDINATES: u64 = 8;
const ASSIGN: u64 = 16;
const COST: u64 = 24;
/// Coordinates are whole numbers below it.
const RANGE: u64 = 16;

impl StreamCluster {
    /// `passes` over `points`, each of `dimensions` numbers.
    pub fn new(points: u64, dimensions: u64, passes: u64, seed: u64) -> Self {
        let mut layout = Layout::default();
        let records = layout.records(points, POINT_BYTES);
        let coordinates = layout.array(points * dimensions);
        let is_center = layout.array(points);
        let center_table = layout.array(points);
        let lower = layout.array(points);
        let switches = layout.array(points);
        let (assign, cost) = (layout.keep(records.field(ASSIGN)), layout.keep(records.field(COST)));
        let (is_center, switches) = (layout.keep(is_center), layout.keep(switches));
        // Two centres are worth as much as what a point far away costs with one.
        let price = (points * dimensions * RANGE) as f64;
        Self {
            layout,
            coordinates,
            coordinates_at: records.field(COORDINATES),
            weight: records.field(WEIGHT),
            assign,
            cost,
            is_center,
            center_table,
            lower,
            switches,
            points,
            dimensions,
            passes,
            key: mix(seed),
            pass: 0,
            phase: Phase::Gain,
            at: 0,
            proposed: 0,
            gain: 0.0,
            opened: 1,
            price,
        }
    }

    /// Sixteen coordinates come of one random number.
    #[inline(always)]
    fn coordinate(&self, at: u64) -> f32 {
        ((nth(self.key, at / 16) >> (4 * (at % 16))) % RANGE) as f32
    }

    /// The square of the distance.
    #[inline(always)]
    fn distance(&self, m: &mut impl Memory, a: u64, b: u64) -> f32 {
        m.block(1, 6);
        let from = m.load(self.coordinates_at, a, || a * self.dimensions);
        let to = m.load(self.coordinates_at, b, || b * self.dimensions);
        let mut sum = 0.0;
        for i in 0..self.dimensions {
            m.block(2, 7);
            let one = m.load(self.coordinates, from + i, || self.coordinate(from + i));
            let other = m.load(self.coordinates, to + i, || self.coordinate(to + i));
            sum += (one - other) * (one - other);
        }
        sum
    }

    #[inline(always)]
    fn gain(&mut self, m: &mut impl Memory) {
        let i = self.at;
        if i == 0 {
            self.proposed = below(nth(!self.key, self.pass), self.points);
            self.gain = -self.price;
        }
        let distance = self.distance(m, i, self.proposed);
        m.block(3, 9);
        let weight = m.load(self.weight, i, || 1.0);
        let cost = m.get(self.cost, i);
        if distance * weight < cost {
            m.block(4, 6);
            m.put(self.switches, i, 1);
            self.gain += f64::from(cost - distance * weight);
        } else {
            // What the point would cost more if its centre were closed and the new one took its points.
            m.block(5, 12);
            m.put(self.switches, i, 0);
            let center = u64::from(m.get(self.assign, i));
            let row = m.load(self.center_table, center, || center as i32) as u64;
            let before = m.load(self.lower, row, || 0.0);
            m.store(self.lower, row, || before + f64::from(distance * weight - cost));
        }
        self.at += 1;
        if self.at == self.points {
            self.at = 0;
            if self.gain > 0.0 {
                self.phase = Phase::Assign;
                self.opened += 1;
            } else {
                self.pass += 1;
            }
        }
    }

    #[inline(always)]
    fn assign(&mut self, m: &mut impl Memory) {
        let i = self.at;
        m.block(6, 6);
        if m.get(self.switches, i) != 0 {
            let distance = self.distance(m, i, self.proposed);
            m.block(7, 7);
            let weight = m.load(self.weight, i, || 1.0);
            m.put(self.cost, i, distance * weight);
            m.put(self.assign, i, self.proposed as u32);
        }
        self.at += 1;
        if self.at == self.points {
            m.block(8, 3);
            m.put(self.is_center, self.proposed, 1);
            (self.phase, self.at) = (Phase::Gain, 0);
            self.pass += 1;
        }
    }
}

impl Algorithm for StreamCluster {
    fn loads(&self) -> Option<Loads> {
        // Points come in order. Their coordinates lie where they say, and what is known of a centre waits for the
        // point's assignment and for the centre's row.
        const ONE: u8 = 1;
        const OTHER: u8 = 2;
        const CENTRE: u8 = 3;
        const ROW: u8 = 4;
        flow(&[
            (1, &[to(ONE, FREE), to(OTHER, FREE)]),
            (2, &[from(ONE), from(OTHER)]),
            (5, &[FREE, to(CENTRE, FREE), to(ROW, from(CENTRE)), from(ROW), from(ROW)]),
        ])
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        None
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.coordinates, |at| self.coordinate(at));
        setup.fill(self.center_table, |point| point as i32);
        setup.fill(self.lower, |_| 0.0);
        // The first point is the first centre.
        setup.fill_kept(self.is_center, |i| u8::from(i == 0));
        setup.rows(self.points, |i| {
            let from =
                |point: u64| (point * self.dimensions..(point + 1) * self.dimensions).map(|at| self.coordinate(at));
            let distance: f32 = from(i).zip(from(0)).map(|(a, b)| (a - b) * (a - b)).sum();
            [
                self.weight.cell(i, 1.0),
                self.coordinates_at.cell(i, i * self.dimensions),
                self.assign.cell(i, 0),
                self.cost.cell(i, distance),
            ]
        });
    }

    fn sharing(&self) -> Sharing {
        Sharing::Turns
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        if self.pass == self.passes {
            return false;
        }
        match self.phase {
            Phase::Gain => self.gain(m),
            Phase::Assign => self.assign(m),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model;

    #[test]
    fn every_point_is_with_the_nearest_centre_opened() {
        let mut new = StreamCluster::new(200, 8, 30, 1);
        new.price = 500.0;
        let mut found = model(new);
        assert!(found.algorithm.opened > 2, "{}", found.algorithm.opened);
        let centers: Vec<u64> =
            (0..).zip(found.array(|k| k.is_center.array())).filter(|c| c.1 == 1).map(|c| c.0).collect();
        assert_eq!(centers.len() as u64, found.algorithm.opened);
        let costs = found.array(|k| k.cost.array());
        let assign = found.array(|k| k.assign.array());
        let k = &found.algorithm;
        let far =
            |a: u64, b: u64| (0..8).map(|i| (k.coordinate(a * 8 + i) - k.coordinate(b * 8 + i)).powi(2)).sum::<f32>();
        for i in 0..200 {
            let nearest = centers.iter().map(|&c| far(i, c)).fold(f32::INFINITY, f32::min);
            assert_eq!(costs[i as usize], nearest);
            assert_eq!(far(i, assign[i as usize].into()), nearest);
        }
    }
}
