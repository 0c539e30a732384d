//! GPU generator `gpu-srad`: diffusion on a square image, two launches per pass, with a thread block per 16 x 16 tile.
//! The first launch loads a tile with its four borders and stores a coefficient and four derivatives per cell. The
//! second loads both and updates the image.

use super::prelude::*;

/// Rodinia's srad (version 2): speckles are taken out of an image by diffusion, two kernels a pass (srad_kernel.cu).
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SradDesc {
    /// Rows and columns of the image, a multiple of 16. Default 2048, Rodinia's.
    #[schemars(range(min = BLOCK, max = 1 << 20))]
    side: u64,
    /// Passes. Default 2, Rodinia's.
    #[schemars(range(min = 1, max = 1u64 << 32))]
    passes: u64,
}

impl Default for SradDesc {
    fn default() -> Self {
        Self { side: 2048, passes: 2 }
    }
}

const BLOCK: u64 = 16;

impl Describe for SradDesc {
    const NAME: &str = "gpu-srad";
    type Grid = Srad;

    fn grid(&self) -> Result<Srad, String> {
        if !self.side.is_multiple_of(BLOCK) {
            return Err(format!("side is {}: give a multiple of {BLOCK}", self.side));
        }
        let mut layout = Layout::default();
        let cells = self.side * self.side;
        let mut array = || layout.array(cells);
        let (image, coefficient) = (array(), array());
        let derivative = [array(), array(), array(), array()];
        Ok(Srad { side: self.side, passes: self.passes, image, coefficient, derivative, layout })
    }
}

pub struct Srad {
    layout: Layout,
    side: u64,
    passes: u64,
    image: Array<f32>,
    coefficient: Array<f32>,
    /// To east, west, south and north, in the order they are stored.
    derivative: [Array<f32>; 4],
}

impl Grid for Srad {
    type Notes = ();

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn launch(&self, n: u64) -> Option<Launch> {
        let blocks = self.side / BLOCK;
        (n < 2 * self.passes).then_some(Launch { blocks: blocks * blocks, threads: BLOCK * BLOCK })
    }

    fn step(&self, warp: Warp, step: u64, (): &mut (), lanes: &mut Lanes) -> bool {
        let all = warp.threads(BLOCK * BLOCK);
        let blocks = self.side / BLOCK;
        let (bx, by) = (warp.block % blocks, warp.block / blocks);
        let (tx, ty) = (|t: u64| t % BLOCK, |t: u64| t / BLOCK);
        let at = |row: u64, column: u64| Some(self.side * row + column);
        let index = |t| at(BLOCK * by + ty(t), BLOCK * bx + tx(t));
        // Beyond the edge, the cell at the edge.
        let north = |t| at((BLOCK * by).saturating_sub(1), BLOCK * bx + tx(t));
        let south = |t| at((BLOCK * (by + 1)).min(self.side - 1), BLOCK * bx + tx(t));
        let west = |t| at(BLOCK * by + ty(t), (BLOCK * bx).saturating_sub(1));
        let east = |t| at(BLOCK * by + ty(t), (BLOCK * (bx + 1)).min(self.side - 1));
        match (warp.launch % 2, step) {
            (0, 0) => lanes.load(0).each(self.image, all, north),
            (0, 1) => lanes.load(1).each(self.image, all, south),
            (0, 2) => lanes.load(2).each(self.image, all, west),
            (0, 3) => lanes.load(3).each(self.image, all, east),
            (0, 4) => lanes.load(4).each(self.image, all, index),
            (0, 5) => lanes.store(5).each(self.coefficient, all, index),
            (0, n @ 6..=9) => lanes.store(n).each(self.derivative[n as usize - 6], all, index),
            (1, 0) => lanes.load(10).each(self.coefficient, all, south),
            (1, 1) => lanes.load(11).each(self.coefficient, all, east),
            (1, 2) => lanes.load(12).each(self.coefficient, all, index),
            (1, 3) => lanes.load(13).each(self.image, all, index),
            (1, n @ 4..=7) => lanes.load(10 + n).each(self.derivative[n as usize - 4], all, index),
            (1, 8) => lanes.store(18).each(self.image, all, index),
            _ => false,
        }
    }
}
