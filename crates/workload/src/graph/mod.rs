//! Graphs, as programs hold them: compressed rows of neighbours.
//!
//! ```text
//! offsets      0    3    4 ...        where each vertex' neighbours begin
//!              v    v    v
//! neighbours   5 7 9 2   0 8 ...      a slot for each end of an edge
//! ```

mod drawn;
mod kronecker;

pub use drawn::Drawn;
pub use kronecker::{Built, Kronecker, Rows};

/// A graph whose edges go both ways.
pub trait Graph {
    /// Vertices.
    fn vertices(&self) -> u64;

    /// Slots that the array of neighbours has room for.
    fn room(&self) -> u64;

    /// Slots in use: two for each edge.
    fn slots(&self) -> u64;

    /// Where the neighbours of `v` begin; of the number of vertices, where the last ones end.
    fn offset(&self, v: u64) -> u64;

    /// The neighbour in a slot.
    fn neighbour(&self, slot: u64) -> u32;

    /// Neighbours of `v`.
    fn degree(&self, v: u64) -> u64 {
        self.offset(v + 1) - self.offset(v)
    }

    /// Bytes that it takes beside the program's arrays.
    fn bytes(&self) -> u64;

    /// Makes what is kept of it in memory; nothing else is asked before.
    fn build(&mut self);
}
