//! The area of TLB arrays, in cells of static memory.

use crate::bits::{associative, cost, entry_bits, shape, tag_bits};
use mmulab_tlb::{ArrayDesc, Reads};
use serde::Serialize;

/// Cells that a bit takes which can be searched: ten transistors for a plain one's six.
const SEARCHED_CELL: f64 = 10.0 / 6.0;
/// Cells of one bit of a comparator: as large as six. Source: Mulder, Quach and Flynn, An Area Model for On-Chip
/// Memories and its Application, JSSC 1991.
const COMPARATOR_CELLS: f64 = 6.0;
/// The part of a cell's side that each port beyond the first adds. A word line and two bit lines each widen the cell by
/// about a third. In the same paper, cells grow with the square of their ports.
const PORT_SIDE: f64 = 1.0 / 3.0;
/// Ports of a first level's array on the data side: two loads and a store a cycle (paper 4's Haswell).
const FIRST_LEVEL_PORTS: u32 = 3;
/// Sense amplifiers and drivers, in cells: six rows and columns around each array (the same paper).
const BORDER_CELLS: f64 = 6.0;

/// The area of one array.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArrayArea {
    /// The array.
    pub name: String,
    /// Sets.
    pub sets: u32,
    /// Ways.
    pub ways: u32,
    /// Bits of an entry.
    pub entry_bits: u32,
    /// Bits of all entries, and of its predictor.
    pub bits: u64,
    /// Bits compared at a lookup.
    pub compared_bits: u32,
    /// Ports.
    pub ports: u32,
    /// All of it, in cells of static memory.
    pub cells: f64,
}

/// The area of an array whose description has been accepted.
pub fn array_area(desc: &ArrayDesc, asid_bits: u8) -> ArrayArea {
    let (sets, ways) = shape(desc);
    let (bits, tag) = (entry_bits(desc, asid_bits), tag_bits(desc, asid_bits));
    let ports = if desc.level == 1 { FIRST_LEVEL_PORTS } else { 1 };
    let cell = (1.0 + PORT_SIDE * f64::from(ports - 1)).powi(2);
    let entries = f64::from(sets * ways);
    let compared_bits = ways * (tag + cost(desc).range_bits);
    let storage = if associative(desc) {
        entries * (f64::from(bits - tag) + f64::from(tag) * SEARCHED_CELL)
    } else {
        entries * f64::from(bits)
    };
    let compare = if associative(desc) { 0 } else { compared_bits };
    // Rows are sets, columns the bits of a set; hashed ways have a decoder each.
    let (rows, columns) = (f64::from(sets), f64::from(ways * bits));
    let decoders = match cost(desc).reads {
        Reads::HashedWays => f64::from(ways),
        Reads::Sets(_) => 1.0,
    };
    let border = BORDER_CELLS * (rows * decoders + columns);
    let sizes = desc.sizes.len().max(2) as u32;
    let predictor = desc.predictor.as_ref().map_or(0, |p| p.entries * (u32::BITS - (sizes - 1).leading_zeros()));
    let compare_cells = f64::from(compare * ports) * COMPARATOR_CELLS;
    let cells = (storage + f64::from(predictor) + border) * cell + compare_cells;
    ArrayArea {
        name: desc.name.clone(),
        sets,
        ways,
        entry_bits: bits,
        bits: u64::from(sets * ways * bits + predictor),
        compared_bits,
        ports,
        cells,
    }
}

/// The area of each array of a machine.
pub fn area(tlb: &[ArrayDesc], asid_bits: u8) -> Vec<ArrayArea> {
    tlb.iter().map(|a| array_area(a, asid_bits)).collect()
}
