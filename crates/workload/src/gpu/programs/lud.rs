//! GPU generator `gpu-lud`: LU decomposition of a square matrix in place, with three launches per 16 rows. The last
//! diagonal block needs only the first launch. Each round leaves a smaller matrix at the lower right.
//!
//! ```text
//! D P P P    D  diagonal block: one warp, 16 of its 32 lanes active
//! P I I I    P  perimeter blocks: one warp per pair, beside and below the diagonal block
//! P I I I    I  internal blocks: updated from the perimeter blocks of their row and column
//! P I I I
//! ```

use super::prelude::*;

/// Rodinia's lud: a matrix is decomposed in place, 16 rows and columns at a time: the diagonal block, those beside and
/// below it, the rest (lud_kernel.cu).
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LudDesc {
    /// Rows and columns, a multiple of 16. Default 2048, Rodinia's largest.
    #[schemars(range(min = BLOCK, max = 1 << 20))]
    side: u64,
}

impl Default for LudDesc {
    fn default() -> Self {
        Self { side: 2048 }
    }
}

const BLOCK: u64 = 16;

impl Describe for LudDesc {
    const NAME: &str = "gpu-lud";
    type Grid = Lud;

    fn grid(&self) -> Result<Lud, String> {
        if !self.side.is_multiple_of(BLOCK) {
            return Err(format!("side is {}: give a multiple of {BLOCK}", self.side));
        }
        let mut layout = Layout::default();
        Ok(Lud { side: self.side, matrix: layout.array(self.side * self.side), layout })
    }
}

pub struct Lud {
    layout: Layout,
    side: u64,
    matrix: Array<f32>,
}

impl Lud {
    /// lud_diagonal: one warp, half of it on.
    fn diagonal(&self, warp: Warp, offset: u64, step: u64, lanes: &mut Lanes) -> bool {
        let all = warp.threads(BLOCK);
        let row = |n: u64| move |t: u64| Some(self.side * (offset + n) + offset + t);
        match step {
            0..BLOCK => lanes.load(0).each(self.matrix, all, row(step)),
            // The first row stays as it is.
            BLOCK..31 => lanes.store(1).each(self.matrix, all, row(step - BLOCK + 1)),
            _ => false,
        }
    }

    /// lud_perimeter: half of the warp has a block beside the diagonal one, half a block below.
    fn perimeter(&self, warp: Warp, offset: u64, step: u64, lanes: &mut Lanes) -> bool {
        let far = offset + (warp.block + 1) * BLOCK;
        let at = |row: u64, column: u64| Some(self.side * row + column);
        let beside = |t: u64| t < BLOCK;
        let all = warp.threads(2 * BLOCK);
        match step {
            // Each half has eight rows of the diagonal block.
            0..8 => {
                let half = |t: u64| if beside(t) { 0 } else { 8 };
                lanes.load(2).each(self.matrix, all, |t| at(offset + half(t) + step, offset + t % BLOCK))
            }
            8..24 => {
                let row = step - 8;
                let cell = |t: u64| match beside(t) {
                    true => at(offset + row, far + t),
                    false => at(far + row, offset + t - BLOCK),
                };
                lanes.load(3).each(self.matrix, all, cell)
            }
            // The first row beside the diagonal stays as it is.
            24..40 => {
                let row = step - 24;
                let cell = |t: u64| match beside(t) {
                    true => (row != 0).then(|| self.side * (offset + row) + far + t),
                    false => at(far + row, offset + t - BLOCK),
                };
                lanes.store(4).each(self.matrix, all, cell)
            }
            _ => false,
        }
    }

    /// lud_internal: a block of 16 x 16 threads for each block that is left.
    fn internal(&self, warp: Warp, offset: u64, step: u64, lanes: &mut Lanes) -> bool {
        let all = warp.threads(BLOCK * BLOCK);
        let blocks = (self.side - offset) / BLOCK - 1;
        let (row, column) = (offset + (warp.block / blocks + 1) * BLOCK, offset + (warp.block % blocks + 1) * BLOCK);
        let (tx, ty) = (|t: u64| t % BLOCK, |t: u64| t / BLOCK);
        let at = |row: u64, column: u64| Some(self.side * row + column);
        match step {
            0 => lanes.load(5).each(self.matrix, all, |t| at(offset + ty(t), column + tx(t))),
            1 => lanes.load(6).each(self.matrix, all, |t| at(row + ty(t), offset + tx(t))),
            2 => lanes.load(7).each(self.matrix, all, |t| at(row + ty(t), column + tx(t))),
            3 => lanes.store(8).each(self.matrix, all, |t| at(row + ty(t), column + tx(t))),
            _ => false,
        }
    }
}

impl Grid for Lud {
    type Notes = ();

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn launch(&self, n: u64) -> Option<Launch> {
        let offset = n / 3 * BLOCK;
        let left = (self.side.checked_sub(offset)? / BLOCK).checked_sub(1)?;
        match n % 3 {
            0 => Some(Launch { blocks: 1, threads: BLOCK }),
            // Nothing is beside the last diagonal block.
            _ if left == 0 => None,
            1 => Some(Launch { blocks: left, threads: 2 * BLOCK }),
            _ => Some(Launch { blocks: left * left, threads: BLOCK * BLOCK }),
        }
    }

    fn step(&self, warp: Warp, step: u64, (): &mut (), lanes: &mut Lanes) -> bool {
        let offset = warp.launch / 3 * BLOCK;
        match warp.launch % 3 {
            0 => self.diagonal(warp, offset, step, lanes),
            1 => self.perimeter(warp, offset, step, lanes),
            _ => self.internal(warp, offset, step, lanes),
        }
    }
}
