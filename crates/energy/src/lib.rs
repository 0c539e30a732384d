//! Energy and area of translation. Energy is the counts of a run times the energy of one access of each structure. Area
//! follows from the bits that structures are made of. All of it is modelled; `docs/concepts/energy.md` has the formulas
//! and their sources.

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
