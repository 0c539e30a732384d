//! GPU generator `gpu-hotspot`: a stencil on a square grid, computed in tiles of 16 x 16 cells. Neighbouring tiles
//! overlap by a border of `pyramid` cells on each side. A launch loads temperature and power once and stores the
//! interior of each tile. The two temperature arrays swap roles at each launch.

use super::prelude::*;

/// Rodinia's hotspot: the temperature of a chip, step by step on a grid of cells. Blocks of 16 x 16 have a border that
/// shrinks with each step done without going back to memory (hotspot.cu).
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HotspotDesc {
    /// Cells of a side. Default 4096. Rodinia's: 512 or 1024.
    #[schemars(range(min = BLOCK, max = 1 << 20))]
    side: u64,
    /// Steps in time. Default 8.
    #[schemars(range(min = 1, max = 1u64 << 32))]
    steps: u64,
    /// Steps of a launch. Default 2, as Rodinia's script gives.
    #[schemars(range(min = 1, max = 7))]
    pyramid: u64,
}

impl Default for HotspotDesc {
    fn default() -> Self {
        Self { side: 4096, steps: 8, pyramid: 2 }
    }
}

const BLOCK: u64 = 16;

impl Describe for HotspotDesc {
    const NAME: &str = "gpu-hotspot";
    type Grid = Hotspot;

    fn grid(&self) -> Result<Hotspot, String> {
        let mut layout = Layout::default();
        let cells = self.side * self.side;
        Ok(Hotspot {
            side: self.side,
            steps: self.steps,
            pyramid: self.pyramid,
            power: layout.array(cells),
            temperature: [layout.array(cells), layout.array(cells)],
            layout,
        })
    }
}

pub struct Hotspot {
    layout: Layout,
    side: u64,
    steps: u64,
    pyramid: u64,
    power: Array<f32>,
    temperature: [Array<f32>; 2],
}

impl Hotspot {
    /// Cells of a side that a block writes.
    fn inner(&self) -> u64 {
        BLOCK - 2 * self.pyramid
    }

    fn blocks(&self) -> u64 {
        self.side.div_ceil(self.inner())
    }
}

impl Grid for Hotspot {
    type Notes = ();

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn launch(&self, n: u64) -> Option<Launch> {
        let more = n * self.pyramid < self.steps;
        more.then(|| Launch { blocks: self.blocks() * self.blocks(), threads: BLOCK * BLOCK })
    }

    fn step(&self, warp: Warp, step: u64, (): &mut (), lanes: &mut Lanes) -> bool {
        let all = warp.threads(BLOCK * BLOCK);
        let (bx, by) = (warp.block % self.blocks(), warp.block / self.blocks());
        let iteration = self.pyramid.min(self.steps - warp.launch * self.pyramid);
        let place =
            |block: u64, t: u64| (self.inner() * block + t).checked_sub(self.pyramid).filter(|&n| n < self.side);
        let cell = |t: u64| Some(self.side * place(by, t / BLOCK)? + place(bx, t % BLOCK)?);
        let kept = iteration..BLOCK - iteration;
        let written = |t: u64| if kept.contains(&(t % BLOCK)) && kept.contains(&(t / BLOCK)) { cell(t) } else { None };
        let [from, to] = if warp.launch.is_multiple_of(2) { [0, 1] } else { [1, 0] };
        match step {
            0 => lanes.load(0).each(self.temperature[from], all, cell),
            1 => lanes.load(1).each(self.power, all, cell),
            2 => lanes.store(2).each(self.temperature[to], all, written),
            _ => false,
        }
    }
}
