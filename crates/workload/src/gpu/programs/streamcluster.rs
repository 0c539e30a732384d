//! GPU generator `gpu-streamcluster`: one launch per candidate centre, with one thread per point. Coordinates lie
//! dimension by dimension, so the lanes of a warp load neighbouring words. The savings table has a row per point, so
//! lanes access words about one row apart.

use super::prelude::*;
use crate::seed::{mix, nth};

/// Rodinia's streamcluster: what opening a centre at a point would save, asked of all points for one candidate after
/// another (streamcluster_cuda.cu, kernel_compute_cost).
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GpuStreamclusterDesc {
    /// Points. Default 65536, Rodinia's.
    #[schemars(range(min = BLOCK, max = 1u64 << 34))]
    points: u64,
    /// Coordinates of a point. Default 256, Rodinia's.
    #[schemars(range(min = 1, max = 1 << 16))]
    dimensions: u64,
    /// Centres there are. Default 20.
    #[schemars(range(min = 1, max = 1 << 16))]
    centres: u64,
    /// Candidates, a launch each. Default 4.
    #[schemars(range(min = 1, max = 1u64 << 32))]
    candidates: u64,
    /// Share of the points that a candidate would take over. Default 0.05: assumed.
    #[schemars(range(min = 0.0, max = 1.0))]
    switching: f64,
    /// Which points those are, and who belongs to whom. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for GpuStreamclusterDesc {
    fn default() -> Self {
        Self { points: 65_536, dimensions: 256, centres: 20, candidates: 4, switching: 0.05, seed: 1 }
    }
}

const BLOCK: u64 = 512;
/// Bytes of a point: weight, address of its coordinates, centre, cost.
const POINT_BYTES: u64 = 32;

impl Describe for GpuStreamclusterDesc {
    const NAME: &str = "gpu-streamcluster";
    type Grid = Streamcluster;

    fn grid(&self) -> Result<Streamcluster, String> {
        let mut layout = Layout::default();
        let records = layout.records(self.points, POINT_BYTES);
        Ok(Streamcluster {
            points: self.points,
            dimensions: self.dimensions,
            centres: self.centres,
            candidates: self.candidates,
            switching: (self.switching * (1u64 << 32) as f64) as u64,
            key: mix(self.seed),
            weight: records.field(0),
            centre: records.field(16),
            cost: records.field(24),
            coordinates: layout.array(self.points.saturating_mul(self.dimensions)),
            // (K + 1) a point: what each centre would lose, and the candidate gain.
            savings: layout.array(self.points.saturating_mul(self.centres + 1)),
            numbers: layout.array(self.points),
            switches: layout.array(self.points),
            layout,
        })
    }
}

pub struct Streamcluster {
    layout: Layout,
    points: u64,
    dimensions: u64,
    centres: u64,
    candidates: u64,
    /// Of 2^32.
    switching: u64,
    key: u64,
    weight: Array<f32>,
    centre: Array<u64>,
    cost: Array<f32>,
    coordinates: Array<f32>,
    savings: Array<f32>,
    numbers: Array<i32>,
    switches: Array<u8>,
}

impl Grid for Streamcluster {
    type Notes = ();

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn launch(&self, n: u64) -> Option<Launch> {
        (n < self.candidates).then(|| Launch { blocks: self.points.div_ceil(BLOCK), threads: BLOCK })
    }

    fn step(&self, warp: Warp, step: u64, (): &mut (), lanes: &mut Lanes) -> bool {
        let all = warp.threads(BLOCK);
        let point = |t: u64| Some(warp.block * BLOCK + t).filter(|&p| p < self.points);
        let candidate = nth(self.key, warp.launch) % self.points;
        // Each thread brings the candidate's coordinates of its number, and of those BLOCK further on.
        let brought = self.dimensions.div_ceil(BLOCK);
        if step < brought {
            let mine = |t: u64| Some(step * BLOCK + t).filter(|&d| d < self.dimensions);
            return lanes.load(0).each(self.coordinates, all, |t| Some(mine(t)? * self.points + candidate));
        }
        let step = step - brought;
        if step < self.dimensions {
            return lanes.load(1).each(self.coordinates, all, |t| Some(step * self.points + point(t)?));
        }
        let draw = |t| Some((point(t)?, nth(self.key ^ candidate, point(t)?)));
        let switching = |t| draw(t).filter(|(_, n)| n >> 32 < self.switching).map(|(p, _)| p);
        let staying = |t| draw(t).filter(|(_, n)| n >> 32 >= self.switching).map(|(p, _)| p);
        let centre_of = |p: u64| nth(!self.key, p) % self.centres;
        let row = |p: u64| p * (self.centres + 1);
        let at_centre = |t| staying(t).map(|p| row(p) + centre_of(p));
        match step - self.dimensions {
            0 => lanes.load(2).each(self.weight, all, point),
            1 => lanes.load(3).each(self.cost, all, point),
            2 => lanes.store(4).each(self.switches, all, switching),
            3 => lanes.load(5).each(self.savings, all, |t| switching(t).map(|p| row(p) + self.centres)),
            4 => lanes.store(6).each(self.savings, all, |t| switching(t).map(|p| row(p) + self.centres)),
            5 => lanes.load(7).each(self.centre, all, staying),
            // A point's centre is itself a point, whose number among the centres is looked up.
            6 => lanes.load(8).each(self.numbers, all, |t| {
                staying(t).map(|p| nth(self.key.rotate_left(1), centre_of(p)) % self.points)
            }),
            7 => lanes.load(9).each(self.savings, all, at_centre),
            8 => lanes.store(10).each(self.savings, all, at_centre),
            _ => false,
        }
    }
}
