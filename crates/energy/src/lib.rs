//! What translation takes in energy and in area: counts of a run times what one access of each structure takes, and the
//! bits that structures are made of. All of it is modelled; `docs/concepts/energy.md` has the formulas and their
//! sources.

mod area;
mod bits;
mod desc;
mod fit;
mod report;
mod structure;

pub use area::{ArrayArea, area, array_area};
pub use bits::entry_bits;
pub use desc::{EnergyDesc, StructureDesc};
pub use fit::{FitError, Wanted, fit};
pub use report::{Breakdown, EnergyReport, Parts, Run, StructureEnergy, report};
