//! A number of places in each cycle that need not be whole: 2.5 are 2 and 3 in turn. Another hardware thread takes a
//! part of a core's places, and what it leaves is a mean.

use serde::{Deserialize, Serialize, Serializer};

/// Parts of a place, and cycles after which a pattern comes again.
const PARTS: u32 = 16;

/// Places in a cycle, in sixteenths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "f64")]
pub struct PerCycle(u32);

impl From<f64> for PerCycle {
    /// The nearest sixteenth above 0.
    fn from(places: f64) -> Self {
        Self(((places * f64::from(PARTS)).round() as u32).max(1))
    }
}

impl Serialize for PerCycle {
    /// Whole numbers are written without a point.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(PARTS) {
            serializer.serialize_u32(self.0 / PARTS)
        } else {
            serializer.serialize_f64(f64::from(self.0) / f64::from(PARTS))
        }
    }
}

impl PerCycle {
    /// The smaller of two.
    pub fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    /// Cycles that have `count` places.
    pub fn cycles_of(self, count: u64) -> u64 {
        count * u64::from(PARTS) / u64::from(self.0)
    }

    /// The places of each cycle.
    pub(crate) fn places(self) -> Places {
        let before = |cycle: u32| cycle * self.0 / PARTS;
        Places(std::array::from_fn(|cycle| (before(cycle as u32 + 1) - before(cycle as u32)) as u8))
    }
}

/// Places by cycle, modulo [`PARTS`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places([u8; PARTS as usize]);

impl Places {
    /// How many there are in a cycle.
    #[inline(always)]
    pub fn of(&self, cycle: u64) -> u64 {
        u64::from(self.0[(cycle % u64::from(PARTS)) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_cycles_have_the_mean() {
        for (places, expected) in [(2.5, 40), (0.25, 4), (6.0, 96), (2.3, 37)] {
            let all = PerCycle::from(places).places();
            assert_eq!((32..48).map(|cycle| all.of(cycle)).sum::<u64>(), expected, "{places}");
            let each = places as u64;
            assert!((0..16).all(|cycle| (each..=each + 1).contains(&all.of(cycle))), "{places}");
        }
        assert_eq!((PerCycle::from(2.5).cycles_of(10), PerCycle::from(4.0).cycles_of(10)), (4, 2));
    }

    #[test]
    fn a_whole_number_is_written_as_one() {
        let text = |places| serde_json::to_string(&PerCycle::from(places)).unwrap();
        assert_eq!([text(2.0), text(2.5), text(0.0)], ["2", "2.5", "0.0625"]);
        let read: Vec<PerCycle> = serde_json::from_str("[3, 2.3]").unwrap();
        assert_eq!(read, [PerCycle::from(3.0), PerCycle::from(2.3125)]);
    }
}
