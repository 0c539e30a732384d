//! GPU generator `gpu-pathfinder`: dynamic programming over rows, `pyramid` rows per launch. Thread blocks cover 256
//! columns and overlap by `pyramid` columns on each side. With each row, one more column on each side becomes
//! inactive. The two result arrays swap roles at each launch.

use super::prelude::*;

/// Rodinia's pathfinder: the cheapest way down a wall, row by row. A block of 256 columns has a border that shrinks
/// with each row done without going back to memory (pathfinder.cu).
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PathfinderDesc {
    /// Columns. Default 1000000. Rodinia's: 100000.
    #[schemars(range(min = BLOCK, max = 1u64 << 36))]
    columns: u64,
    /// Rows. Default 100, Rodinia's.
    #[schemars(range(min = 2, max = 1 << 24))]
    rows: u64,
    /// Rows of a launch. Default 20, Rodinia's.
    #[schemars(range(min = 1, max = 127))]
    pyramid: u64,
}

impl Default for PathfinderDesc {
    fn default() -> Self {
        Self { columns: 1_000_000, rows: 100, pyramid: 20 }
    }
}

const BLOCK: u64 = 256;

impl Describe for PathfinderDesc {
    const NAME: &str = "gpu-pathfinder";
    type Grid = Pathfinder;

    fn grid(&self) -> Result<Pathfinder, String> {
        let mut layout = Layout::default();
        Ok(Pathfinder {
            columns: self.columns,
            rows: self.rows,
            pyramid: self.pyramid,
            result: [layout.array(self.columns), layout.array(self.columns)],
            wall: layout.array(self.columns.saturating_mul(self.rows - 1)),
            layout,
        })
    }
}

pub struct Pathfinder {
    layout: Layout,
    columns: u64,
    rows: u64,
    pyramid: u64,
    result: [Array<i32>; 2],
    wall: Array<i32>,
}

impl Grid for Pathfinder {
    type Notes = ();

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn launch(&self, n: u64) -> Option<Launch> {
        let inner = BLOCK - 2 * self.pyramid;
        (n * self.pyramid < self.rows - 1).then(|| Launch { blocks: self.columns.div_ceil(inner), threads: BLOCK })
    }

    fn step(&self, warp: Warp, step: u64, (): &mut (), lanes: &mut Lanes) -> bool {
        let all = warp.threads(BLOCK);
        let start = warp.launch * self.pyramid;
        let iteration = self.pyramid.min(self.rows - 1 - start);
        let inner = BLOCK - 2 * self.pyramid;
        let column = |t: u64| (inner * warp.block + t).checked_sub(self.pyramid).filter(|&x| x < self.columns);
        let within = |t: u64, border: u64| if (border..BLOCK - border).contains(&t) { column(t) } else { None };
        let [from, to] = if warp.launch.is_multiple_of(2) { [0, 1] } else { [1, 0] };
        match step {
            0 => lanes.load(0).each(self.result[from], all, column),
            row if row <= iteration => {
                let at = |t| Some(self.columns * (start + row - 1) + within(t, row)?);
                lanes.load(1).each(self.wall, all, at)
            }
            row if row == iteration + 1 => lanes.store(2).each(self.result[to], all, |t| within(t, iteration)),
            _ => false,
        }
    }
}
