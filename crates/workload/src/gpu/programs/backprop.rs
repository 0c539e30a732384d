//! GPU generator `gpu-backprop`: the addresses of two CUDA kernels, bpnn_layerforward_CUDA and
//! bpnn_adjust_weights_cuda. A row of weights has 17 elements, so a warp accesses two pieces of 16 consecutive
//! weights.

use super::prelude::*;

/// Rodinia's backprop: a layer of a neural network forward, then its weights adjusted (backprop_cuda_kernel.cu).
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackpropDesc {
    /// Units of the input layer, a multiple of 16. Default 1048576. Rodinia's: 65536.
    #[schemars(range(min = SIDE, max = 1u64 << 36))]
    inputs: u64,
}

impl Default for BackpropDesc {
    fn default() -> Self {
        Self { inputs: 1 << 20 }
    }
}

/// Units of the hidden layer, and the side of a block (WIDTH, HEIGHT).
const SIDE: u64 = 16;

impl Describe for BackpropDesc {
    const NAME: &str = "gpu-backprop";
    type Grid = Backprop;

    fn grid(&self) -> Result<Backprop, String> {
        if !self.inputs.is_multiple_of(SIDE) {
            return Err(format!("inputs is {}: give a multiple of {SIDE}", self.inputs));
        }
        let mut layout = Layout::default();
        let weights = (self.inputs + 1) * (SIDE + 1);
        Ok(Backprop {
            blocks: self.inputs / SIDE,
            input: layout.array(self.inputs + 1),
            weights: layout.array(weights),
            sums: layout.array(self.inputs),
            delta: layout.array(SIDE + 1),
            previous: layout.array(weights),
            layout,
        })
    }
}

pub struct Backprop {
    layout: Layout,
    blocks: u64,
    input: Array<f32>,
    weights: Array<f32>,
    sums: Array<f32>,
    delta: Array<f32>,
    previous: Array<f32>,
}

impl Grid for Backprop {
    type Notes = ();

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn launch(&self, n: u64) -> Option<Launch> {
        (n < 2).then_some(Launch { blocks: self.blocks, threads: SIDE * SIDE })
    }

    fn step(&self, warp: Warp, step: u64, (): &mut (), lanes: &mut Lanes) -> bool {
        let all = warp.threads(SIDE * SIDE);
        let (tx, ty, by) = (|t: u64| t % SIDE, |t: u64| t / SIDE, warp.block);
        let index = |t| Some((SIDE + 1) * SIDE * by + (SIDE + 1) * ty(t) + tx(t) + 1 + (SIDE + 1));
        let input = |t| SIDE * by + ty(t) + 1;
        let first = |t| tx(t) == 0;
        match (warp.launch, step) {
            // bpnn_layerforward_CUDA
            (0, 0) => lanes.load(0).each(self.input, all, |t| first(t).then(|| input(t))),
            (0, 1) => lanes.load(1).each(self.weights, all, index),
            (0, 2) => lanes.store(2).each(self.weights, all, index),
            (0, 3) => lanes.store(3).each(self.sums, all, |t| first(t).then(|| by * SIDE + ty(t))),
            // bpnn_adjust_weights_cuda
            (1, 0) => lanes.load(4).each(self.delta, all, |t| Some(tx(t) + 1)),
            (1, 1) => lanes.load(5).each(self.input, all, |t| Some(input(t))),
            (1, 2) => lanes.load(6).each(self.previous, all, index),
            (1, 3) => lanes.load(7).each(self.weights, all, index),
            (1, 4) => lanes.store(8).each(self.weights, all, index),
            (1, 5) => lanes.store(9).each(self.previous, all, index),
            _ => false,
        }
    }
}
