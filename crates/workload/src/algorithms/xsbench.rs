//! Generator `xsbench`: lookups of cross sections in a large unionized energy grid. Each lookup is a binary search and
//! then, for every nuclide of a material, loads at distant gridpoints. Grid values are computed from their position,
//! so the generator stores no grid.
//!
//! ```text
//! random energy   --> energies: binary search --> place --+
//!                                                         +--> index --> two gridpoints of the nuclide
//! random material --> mats: its nuclides -----------------+
//! ```

use super::Describe;
use crate::{
    algorithm::{Algorithm, Sharing},
    emit::Emit,
    flow::{FREE, flow, from, from_both, to},
    layout::Layout,
    memory::{Array, Contents, Memory, Setup},
    query::hint,
    seed::{below, mix, nth},
};
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// XSBench: cross sections looked up in a unionized energy grid, particle by particle.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct XsBenchDesc {
    /// `small` (68 nuclides), `large` (355), `XL` or `XXL` (355, more gridpoints), as the benchmark names them: 0.24,
    /// 5.6, 119 and 251 GiB. Default small.
    size: String,
    /// Gridpoints of a nuclide; 0 takes the size's: 11303, of XL 238847, of XXL 501578. Default 0.
    #[schemars(range(min = 0, max = 1 << 30))]
    gridpoints: u64,
    /// Histories followed. Default 1000.
    #[schemars(range(min = 0, max = 1u64 << 40))]
    particles: u64,
    /// Lookups in a history. Default 34.
    #[schemars(range(min = 1, max = 1 << 20))]
    lookups: u64,
    /// Seed of the data; the benchmark's random numbers have theirs. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for XsBenchDesc {
    fn default() -> Self {
        Self { size: "small".into(), gridpoints: 0, particles: 1_000, lookups: 34, seed: 1 }
    }
}

impl Describe for XsBenchDesc {
    const NAME: &str = "xsbench";
    type Algorithm = XsBench;

    fn algorithm(&self) -> Result<XsBench, String> {
        let (nuclides, usual) = match self.size.as_str() {
            "small" => (68, 11_303),
            "large" => (355, 11_303),
            "XL" => (355, 238_847),
            "XXL" => (355, 501_578),
            other => {
                let known = ["small", "large", "XL", "XXL"];
                return Err(format!("size is '{other}'{}: give one of {}", hint(other, &known), known.join(", ")));
            }
        };
        let gridpoints = match self.gridpoints {
            0 => usual,
            few @ 1..3 => return Err(format!("gridpoints is {few}: give 0 or 3 to {}", 1 << 30)),
            given => given,
        };
        Ok(XsBench::new(nuclides, gridpoints, self.particles, self.lookups, self.seed))
    }
}

/// XSBench (Tramm et al., "XSBench: The development and verification of a performance abstraction for Monte Carlo
/// reactor analysis", PHYSOR 2014; version 20, `-m history -G unionized`). For a random energy and material, it makes a
/// binary search in the energies of all nuclides. Then, for each nuclide of the material, it reads its index there and
/// the two gridpoints around.
///
/// In the benchmark a nuclide's energies are random and sorted. Here one lies in each of as many equal intervals, at a
/// place within it that no other nuclide has. So every energy, and the union's, is known without sorting. The searches
/// and the spread of places over all arrays are the same; neighbours in a grid are a little more regular.
#[derive(Clone)]
pub struct XsBench {
    layout: Layout,
    num_nucs: Array<i32>,
    mats: Array<i32>,
    concs: Array<f64>,
    energies: Array<f64>,
    index: Array<i32>,
    /// The fields of gridpoints: energy, then five cross sections.
    fields: [Array<f64>; FIELDS],
    materials: Vec<Vec<i32>>,
    /// Numbers below `nuclides` that share no divisor with it: multiplying by one is a permutation.
    units: Vec<u64>,
    nuclides: u64,
    gridpoints: u64,
    particles: u64,
    lookups: u64,
    key: u64,
    at: u64,
    lcg: u64,
    energy: f64,
    material: u64,
    /// As the benchmark computes it: for each lookup, which channel is largest, from 1.
    pub verification: u64,
}

/// XSBench's `Simulation.c`, `LCG_random_double` and `STARTING_SEED`.
const LCG_MULTIPLIER: u64 = 2_806_196_910_506_780_709;
const LCG_INCREMENT: u64 = 1;
const LCG_MASK: u64 = (1 << 63) - 1;
const STARTING_SEED: u64 = 1070;
/// Numbers that a history may take from the sequence for each lookup: two, and up to five passed over.
const DRAWS: u64 = 2 * 5;
/// How probable the materials are (`pick_mat`), in the order of the nuclides' table.
const PROBABLE: [f64; 12] = [0.140, 0.052, 0.275, 0.134, 0.154, 0.064, 0.066, 0.055, 0.008, 0.015, 0.025, 0.013];
const POINT_BYTES: u64 = 48;

/// Which nuclides each of the twelve materials of the Hoogenboom-Martin reactor holds (XSBench's `Materials.c`).
fn materials(nuclides: u64) -> Vec<Vec<i32>> {
    let mut fuel: Vec<i32> =
        vec![58, 59, 60, 61, 40, 42, 43, 44, 45, 46, 1, 2, 3, 7, 8, 9, 10, 29, 57, 47, 48, 0, 62, 15];
    fuel.extend([33, 34, 52, 53, 54, 55, 56, 18, 23, 41]);
    if nuclides > 68 {
        fuel.extend(68..nuclides as i32);
    }
    let cladding: Vec<i32> = (63..68).collect();
    let water = vec![24, 41, 4, 5];
    let steel: Vec<i32> = (19..23).chain(35..40).collect();
    let chrome = [49, 50, 51, 11, 12, 13, 14];
    let vessel = [&steel[..], &[25, 27, 28, 29, 30, 31, 32, 26], &chrome, &[6, 16, 17]].concat();
    let reflector = [&water[..], &steel, &[25], &chrome].concat();
    let assembly = [&water[..], &cladding].concat();
    let mut all = vec![fuel, cladding, water.clone(), water, vessel];
    all.extend(std::iter::repeat_n(reflector, 5));
    all.extend([assembly.clone(), assembly]);
    all
}

const FIELDS: usize = 6;

impl XsBench {
    /// Of `nuclides` nuclides with `gridpoints` grid points each.
    pub fn new(nuclides: u64, gridpoints: u64, particles: u64, lookups: u64, seed: u64) -> Self {
        let materials = materials(nuclides);
        let most = materials.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let mut layout = Layout::default();
        let num_nucs = layout.array(12);
        let mats = layout.array(12 * most);
        let concs = layout.array(12 * most);
        let energies = layout.array(nuclides * gridpoints);
        let index = layout.array(nuclides * gridpoints * nuclides);
        let points = layout.records(nuclides * gridpoints, POINT_BYTES);
        let gcd = |mut a: u64, mut b: u64| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let mut found = Self {
            layout,
            num_nucs,
            mats,
            concs,
            energies,
            index,
            fields: [0, 8, 16, 24, 32, 40].map(|offset| points.field(offset)),
            materials,
            units: (1..nuclides).filter(|&a| gcd(a, nuclides) == 1).collect(),
            nuclides,
            gridpoints,
            particles,
            lookups,
            key: mix(seed),
            at: 0,
            lcg: 0,
            energy: 0.0,
            material: 0,
            verification: 0,
        };
        found.start_history();
        found
    }

    fn most(&self) -> u64 {
        self.mats.len() / 12
    }

    fn draw(&mut self) -> f64 {
        self.lcg = LCG_MULTIPLIER.wrapping_mul(self.lcg).wrapping_add(LCG_INCREMENT) & LCG_MASK;
        self.lcg as f64 / (1u64 << 63) as f64
    }

    /// As the benchmark does: its sums leave out the first material, which is taken when no other is.
    fn draw_material(&mut self) -> u64 {
        let roll = self.draw();
        let mut sum = 0.0;
        for (i, share) in PROBABLE.iter().enumerate().skip(1) {
            sum += share;
            if roll < sum {
                return i as u64;
            }
        }
        0
    }

    /// The sequence `by` numbers on: squarings of its step.
    fn forward(&mut self, by: u64) {
        let (mut scale, mut shift, mut left) = (LCG_MULTIPLIER, LCG_INCREMENT, by);
        while left > 0 {
            if left & 1 == 1 {
                self.lcg = self.lcg.wrapping_mul(scale).wrapping_add(shift);
            }
            shift = shift.wrapping_mul(scale.wrapping_add(1));
            scale = scale.wrapping_mul(scale);
            left >>= 1;
        }
        self.lcg &= LCG_MASK;
    }

    fn start_history(&mut self) {
        self.lcg = STARTING_SEED;
        self.forward((self.at / self.lookups).wrapping_mul(self.lookups * DRAWS));
        self.energy = self.draw();
        self.material = self.draw_material();
    }

    /// The places of nuclides within interval `g` are multiples of one number, from another on.
    #[inline(always)]
    fn interval(&self, g: u64) -> (u64, u64) {
        let random = nth(self.key, g);
        (self.units[below(random, self.units.len() as u64) as usize], random % self.nuclides)
    }

    #[inline(always)]
    fn place(&self, (scale, shift): (u64, u64), nuclide: u64) -> u64 {
        ((scale * nuclide + shift) as u32 % self.nuclides as u32).into()
    }

    /// The energy at a place of interval `g`, of 0 to 1.
    #[inline(always)]
    fn energy_at(&self, g: u64, place: u64) -> f64 {
        ((g * self.nuclides + place) as f64 + 0.5) / (self.nuclides * self.gridpoints) as f64
    }

    /// Field `field` of the gridpoint numbered `point` of all.
    #[inline(always)]
    fn field(&self, field: usize, point: u64) -> f64 {
        if field == 0 {
            let (nuclide, g) = (point / self.gridpoints, point % self.gridpoints);
            return self.energy_at(g, self.place(self.interval(g), nuclide));
        }
        // Five cross sections of 0 to 1 out of one random number.
        ((nth(!self.key, point) >> (12 * (field - 1))) & 0xfff) as f64 / 4096.0
    }

    /// For place `place` of interval `g`: the last gridpoint of `nuclide` at or below, but never its last one.
    #[inline(always)]
    fn low(&self, g: u64, place: u64, own: u64) -> i32 {
        (g as i32 - i32::from(own > place)).clamp(0, self.gridpoints as i32 - 2)
    }

    fn concentration(&self, at: u64) -> f64 {
        (nth(self.key ^ STARTING_SEED, at) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The place in the unionized grid at or below the energy (`grid_search`).
    #[inline(always)]
    fn search(&self, m: &mut impl Memory) -> u64 {
        let (mut low, mut length) = (0, self.energies.len() - 1);
        let mut high = length;
        m.block(0, 12);
        while length > 1 {
            let middle = low + length / 2;
            m.block(1, 9);
            let found = m.load(self.energies, middle, || self.energy_at(0, middle));
            if found > self.energy {
                high = middle;
            } else {
                low = middle;
            }
            length = high - low;
        }
        low
    }

    /// The macroscopic cross sections at the energy in the material (`calculate_macro_xs`).
    #[inline(always)]
    fn cross_sections(&self, m: &mut impl Memory) -> [f64; 5] {
        let union = self.search(m);
        let (g, place) = (union / self.nuclides, union % self.nuclides);
        let interval = self.interval(g);
        let material = &self.materials[self.material as usize];
        m.block(2, 10);
        let count = m.load(self.num_nucs, self.material, || material.len() as i32);
        let mut macroscopic = [0.0; 5];
        for j in 0..count.max(0) as u64 {
            m.block(3, 59);
            let at = self.material * self.most() + j;
            let nuclide = m.load(self.mats, at, || material[j as usize]) as u64;
            let conc = m.load(self.concs, at, || self.concentration(at));
            let own = || self.place(interval, nuclide);
            let low = m.load(self.index, union * self.nuclides + nuclide, || self.low(g, place, own()));
            let point = nuclide * self.gridpoints + low.max(0) as u64;
            let high = m.load(self.fields[0], point + 1, || self.field(0, point + 1));
            let below = m.load(self.fields[0], point, || self.field(0, point));
            let f = (high - self.energy) / (high - below);
            for (i, sum) in macroscopic.iter_mut().enumerate() {
                let high = m.load(self.fields[i + 1], point + 1, || self.field(i + 1, point + 1));
                let low = m.load(self.fields[i + 1], point, || self.field(i + 1, point));
                *sum += (high - f * (high - low)) * conc;
            }
        }
        macroscopic
    }
}

impl Algorithm for XsBench {
    fn loads(&self) -> Option<Loads> {
        // Each step of the search compares what it loaded, and that selects the next one. It does so without a branch,
        // or by one that goes either way as often. So it waits. With this wait a run was as long as that of a recording
        // with its mispredicted branches. It had 0.98 of its cycles, at a window of as many rounds. A nuclide's index
        // waits for the search and for its number, its gridpoints for the index; nuclides do not wait for each other.
        // The next energy is drawn by what the sums came to, so lookups do.
        const PLACE: u8 = 1;
        const ENERGY: u8 = 2;
        const NUCLIDE: u8 = 3;
        const POINT: u8 = 4;
        let mut nuclide = vec![to(NUCLIDE, FREE), FREE, to(POINT, from_both(PLACE, NUCLIDE))];
        nuclide.extend([from(POINT); 2 * FIELDS - 1]);
        nuclide.push(to(ENERGY, from(POINT)));
        flow(&[(1, &[to(PLACE, from_both(PLACE, ENERGY))]), (3, &nuclide)])
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        self.particles.checked_mul(self.lookups)
    }

    fn prepare(&self, setup: &mut impl Setup) {
        let most = self.most();
        let of = |at: u64| &self.materials[(at / most) as usize];
        setup.rows(self.fields[0].len(), |point| {
            std::array::from_fn::<_, FIELDS, _>(|i| self.fields[i].cell(point, self.field(i, point)))
        });
        setup.fill(self.energies, |i| self.energy_at(0, i));
        setup.fill(self.index, |i| {
            let (union, nuclide) = (i / self.nuclides, i % self.nuclides);
            let (g, place) = (union / self.nuclides, union % self.nuclides);
            self.low(g, place, self.place(self.interval(g), nuclide))
        });
        setup.fill(self.num_nucs, |i| self.materials[i as usize].len() as i32);
        setup.fill(self.mats, |at| of(at).get((at % most) as usize).copied().unwrap_or(0));
        setup.fill(self.concs, |at| self.concentration(at));
    }

    fn sharing(&self) -> Sharing {
        Sharing::INTERVALS
    }

    fn seek(&mut self, round: u64) -> bool {
        // A history is begun at once; within it, what was found decides how the sequence goes on.
        let within = round % self.lookups;
        self.at = round - within;
        self.start_history();
        let (mut refs, mut none) = (Vec::new(), Contents::default());
        for _ in 0..within {
            refs.clear();
            self.round(&mut Emit::new(&mut refs, &mut none));
        }
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        let found = self.cross_sections(m);
        m.block(4, 40);
        let mut largest = 0;
        for (i, value) in found.iter().enumerate() {
            if *value > found[largest] {
                largest = i;
            }
        }
        self.verification += largest as u64 + 1;
        self.at += 1;
        if self.at.is_multiple_of(self.lookups) {
            self.start_history();
        } else {
            let above = found.iter().filter(|&&value| value > 1.0).count();
            self.forward(above as u64);
            self.energy = self.draw();
            self.material = self.draw_material();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{model, ready};

    fn small() -> XsBench {
        XsBench::new(68, 20, 30, 7, 1)
    }

    #[test]
    fn grids_are_what_sorting_would_give() {
        let mut found = ready(small());
        let (union, index) = (found.array(|k| k.energies), found.array(|k| k.index));
        let mut energies = found.array(|k| k.fields[0]);
        for nuclide in energies.chunks(20) {
            assert!(nuclide.is_sorted());
        }
        // GridInit.c steps an index on when the union's energy reaches the nuclide's next one, up to the last but one.
        for (i, energy) in union.iter().enumerate() {
            for (nuclide, own) in energies.chunks(20).enumerate() {
                let reached = own.iter().skip(1).take_while(|e| *e <= energy).count().min(18);
                assert_eq!(index[i * 68 + nuclide], reached as i32, "{energy} of nuclide {nuclide}");
            }
        }
        energies.sort_by(f64::total_cmp);
        assert_eq!(union, energies);
    }

    #[test]
    fn every_search_ends_around_its_energy_and_materials_are_as_probable_as_they_should_be() {
        let found = small();
        assert_eq!(
            found.materials.iter().map(Vec::len).collect::<Vec<_>>(),
            [34, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9]
        );
        assert_eq!(materials(355)[0].len(), 321);
        let mut k = small();
        let mut seen = [0u32; 12];
        for round in 0..2000 {
            k.at = round * k.lookups;
            k.start_history();
            seen[k.material as usize] += 1;
        }
        assert!((460..640).contains(&seen[2]), "27.5 %: {seen:?}");
        let done = model(small());
        assert!(done.algorithm.verification >= 210 && done.algorithm.verification <= 5 * 210);
    }

    #[test]
    fn the_first_numbers_are_those_of_the_benchmark() {
        // Its generator by hand: 1070 a + 1 modulo 2^63.
        let mut k = small();
        k.lcg = STARTING_SEED;
        k.draw();
        let first = (u128::from(LCG_MULTIPLIER) * 1070 + 1) % (1 << 63);
        assert_eq!(u128::from(k.lcg), first);
        let mut jumped = small();
        (k.lcg, jumped.lcg) = (STARTING_SEED, STARTING_SEED);
        for _ in 0..1000 {
            k.draw();
        }
        jumped.forward(1000);
        assert_eq!(k.lcg, jumped.lcg);
    }
}
