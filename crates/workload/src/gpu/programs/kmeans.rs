//! GPU generator `gpu-kmeans`: one launch that transposes the points, then one launch per clustering pass. In the
//! transposition, lanes load words `features` words apart and store neighbouring words. In the passes, lanes load
//! neighbouring words of the transposed points, and all load one word of a cluster centre.

use super::prelude::*;

/// Rodinia's kmeans: points are turned so that a feature of all of them lies together, then each finds its nearest
/// cluster, pass by pass (kmeans_cuda_kernel.cu).
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KmeansDesc {
    /// Points. Default 494020, those of Rodinia's kdd_cup.
    #[schemars(range(min = BLOCK, max = 1u64 << 34))]
    points: u64,
    /// Features of a point. Default 34, those of kdd_cup.
    #[schemars(range(min = 1, max = 1 << 16))]
    features: u64,
    /// Clusters. Default 5, Rodinia's.
    #[schemars(range(min = 1, max = 1 << 16))]
    clusters: u64,
    /// Passes. Default 2.
    #[schemars(range(min = 1, max = 1u64 << 32))]
    passes: u64,
}

impl Default for KmeansDesc {
    fn default() -> Self {
        Self { points: 494_020, features: 34, clusters: 5, passes: 2 }
    }
}

const BLOCK: u64 = 256;

impl Describe for KmeansDesc {
    const NAME: &str = "gpu-kmeans";
    type Grid = Kmeans;

    fn grid(&self) -> Result<Kmeans, String> {
        let mut layout = Layout::default();
        let values = self.points.saturating_mul(self.features);
        Ok(Kmeans {
            points: self.points,
            features: self.features,
            clusters: self.clusters,
            passes: self.passes,
            given: layout.array(values),
            turned: layout.array(values),
            centres: layout.array(self.clusters * self.features),
            membership: layout.array(self.points),
            layout,
        })
    }
}

pub struct Kmeans {
    layout: Layout,
    points: u64,
    features: u64,
    clusters: u64,
    passes: u64,
    given: Array<f32>,
    turned: Array<f32>,
    centres: Array<f32>,
    membership: Array<i32>,
}

impl Grid for Kmeans {
    type Notes = ();

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn launch(&self, n: u64) -> Option<Launch> {
        (n <= self.passes).then(|| Launch { blocks: self.points.div_ceil(BLOCK), threads: BLOCK })
    }

    fn step(&self, warp: Warp, step: u64, (): &mut (), lanes: &mut Lanes) -> bool {
        let all = warp.threads(BLOCK);
        let point = |t: u64| Some(warp.block * BLOCK + t).filter(|&p| p < self.points);
        let turned = |t, feature| Some(point(t)? + feature * self.points);
        let (feature, half) = (step / 2, step % 2);
        if warp.launch == 0 {
            // invert_mapping
            return match (feature < self.features, half) {
                (true, 0) => lanes.load(0).each(self.given, all, |t| Some(point(t)? * self.features + feature)),
                (true, _) => lanes.store(1).each(self.turned, all, |t| turned(t, feature)),
                _ => false,
            };
        }
        // kmeansPoint: of each cluster, each feature of the point and of the cluster.
        let (cluster, of) = (feature / self.features, feature % self.features);
        match (cluster < self.clusters, half) {
            (true, 0) => lanes.load(2).each(self.turned, all, |t| turned(t, of)),
            (true, _) => lanes.load(3).each(self.centres, all, |t| point(t).map(|_| cluster * self.features + of)),
            (_, 0) if cluster == self.clusters && of == 0 => lanes.store(4).each(self.membership, all, point),
            _ => false,
        }
    }
}
