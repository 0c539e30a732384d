//! GPU generator `gpu-nw`: alignment of two sequences on a square matrix, one launch per diagonal of 16 x 16 blocks. A
//! block needs the cells above and to the left, stored by earlier launches. Each block is one warp with 16 active
//! lanes. Here, the launch of each block in a matrix three blocks wide:
//!
//! ```text
//! 0 1 2
//! 1 2 3
//! 2 3 4
//! ```

use super::prelude::*;

/// Rodinia's nw: the best alignment of two sequences, a diagonal of 16 x 16 blocks after another, 16 threads to a block
/// (needle_kernel.cu).
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NwDesc {
    /// Length of the sequences, a multiple of 16. Default 4096. Rodinia's: 2048.
    #[schemars(range(min = BLOCK, max = 1 << 20))]
    length: u64,
}

impl Default for NwDesc {
    fn default() -> Self {
        Self { length: 4096 }
    }
}

const BLOCK: u64 = 16;

impl Describe for NwDesc {
    const NAME: &str = "gpu-nw";
    type Grid = Nw;

    fn grid(&self) -> Result<Nw, String> {
        if !self.length.is_multiple_of(BLOCK) {
            return Err(format!("length is {}: give a multiple of {BLOCK}", self.length));
        }
        let mut layout = Layout::default();
        let columns = self.length + 1;
        let cells = columns * columns;
        Ok(Nw {
            columns,
            width: self.length / BLOCK,
            reference: layout.array(cells),
            items: layout.array(cells),
            layout,
        })
    }
}

pub struct Nw {
    layout: Layout,
    columns: u64,
    /// Blocks of a side.
    width: u64,
    reference: Array<i32>,
    items: Array<i32>,
}

impl Nw {
    /// Blocks of diagonal `n`: needle_cuda_shared_1 goes to the longest, needle_cuda_shared_2 on from there.
    fn diagonal(&self, n: u64) -> u64 {
        if n < self.width { n + 1 } else { 2 * self.width - 1 - n }
    }
}

impl Grid for Nw {
    type Notes = ();

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn launch(&self, n: u64) -> Option<Launch> {
        (n < 2 * self.width - 1).then(|| Launch { blocks: self.diagonal(n), threads: BLOCK })
    }

    fn step(&self, warp: Warp, step: u64, (): &mut (), lanes: &mut Lanes) -> bool {
        let all = warp.threads(BLOCK);
        let (bx, by) = if warp.launch < self.width {
            (warp.block, self.diagonal(warp.launch) - 1 - warp.block)
        } else {
            (warp.block + self.width - self.diagonal(warp.launch), self.width - 1 - warp.block)
        };
        let base = self.columns * BLOCK * by + BLOCK * bx;
        let index = |t: u64, row: u64| Some(base + t + (self.columns + 1) + self.columns * row);
        match step {
            0 => lanes.load(0).each(self.items, all, |t| (t == 0).then_some(base)),
            row @ 1..=BLOCK => lanes.load(1).each(self.reference, all, |t| index(t, row - 1)),
            17 => lanes.load(2).each(self.items, all, |t| Some(base + self.columns + self.columns * t)),
            18 => lanes.load(3).each(self.items, all, |t| Some(base + t + 1)),
            row @ 19..=34 => lanes.store(4).each(self.items, all, |t| index(t, row - 19)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_written_once_and_after_those_it_needs() {
        let nw = NwDesc { length: 64 }.grid().unwrap();
        let mut written = std::collections::BTreeSet::new();
        for n in 0.. {
            let Some(launch) = nw.launch(n) else { break };
            for block in 0..launch.blocks {
                let warp = Warp { launch: n, block, index: 0 };
                let mut refs = Vec::new();
                (0..).take_while(|&s| nw.step(warp, s, &mut (), &mut Lanes::new(&mut refs, 1))).count();
                for word in refs.iter().filter(|word| word.is_write()) {
                    let cell = (word.va().raw() - nw.items.at(0)) / 4;
                    let (row, column) = (cell / nw.columns, cell % nw.columns);
                    let needs = |row: u64, column: u64| row == 0 || column == 0 || written.contains(&(row, column));
                    assert!(row % BLOCK != 1 || needs(row - 1, column), "{row} {column}");
                    assert!(column % BLOCK != 1 || needs(row, column - 1), "{row} {column}");
                    assert!(written.insert((row, column)), "twice: {row} {column}");
                }
            }
        }
        assert_eq!(written.len(), 64 * 64);
    }
}
