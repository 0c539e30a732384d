//! Branch prediction by hashed perceptrons (Tarjan and Skadron, "Merging path and gshare indexing in perceptron branch
//! prediction", ACM TACO 2(3), 2005). Targets of indirect branches are predicted by their last target under recent
//! history.

use mmulab_dataflow::Branch;

/// Tables of weights, each chosen by another length of history.
const TABLES: usize = 8;
/// Outcomes of conditional branches that each table's hash covers: a geometric series (Seznec, "O-GEHL", ISCA 2005).
const LENGTHS: [u32; TABLES] = [0, 3, 6, 12, 20, 32, 46, 63];
/// Weights in a table.
const WEIGHTS: usize = 4096;
/// Weights are trained while the sum is not beyond this: 1.93 * tables + 14 (Jimenez and Lin, HPCA 2001).
const THRESHOLD: i32 = (193 * TABLES as i32) / 100 + 14;
/// Targets of indirect branches kept.
const TARGETS: usize = 4096;

/// The predictors of a core.
#[derive(Clone, Debug)]
pub struct Branches {
    weights: Box<[[i8; WEIGHTS]; TABLES]>,
    targets: Box<[u64; TARGETS]>,
    /// Outcomes of conditional branches, the latest in bit 0.
    history: u64,
}

/// Spreads bits over the word (the finaliser of MurmurHash3).
#[inline(always)]
const fn spread(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^ x >> 33
}

impl Branches {
    pub fn new() -> Self {
        Self { weights: Box::new([[0; WEIGHTS]; TABLES]), targets: Box::new([0; TARGETS]), history: 0 }
    }

    /// Whether the branch at `at` was predicted that went to `target`; `next` is the instruction behind it. A front end
    /// that has not `found` a conditional branch goes on behind it.
    pub fn predicts(&mut self, kind: Branch, at: u64, (target, next): (u64, u64), found: bool) -> bool {
        match kind {
            Branch::None | Branch::Direct | Branch::Return => true,
            Branch::Conditional => {
                let right = self.conditional(at, target != next);
                if found { right } else { target == next }
            }
            Branch::Indirect => {
                let place = &mut self.targets[spread(at ^ self.history << 16) as usize % TARGETS];
                std::mem::replace(place, target) == target
            }
        }
    }

    fn conditional(&mut self, at: u64, taken: bool) -> bool {
        let mut places = [0; TABLES];
        let mut sum = 0;
        for (table, place) in places.iter_mut().enumerate() {
            let past = self.history & ((1 << LENGTHS[table]) - 1);
            *place = spread(at ^ spread(past ^ (table as u64) << 60)) as usize % WEIGHTS;
            sum += i32::from(self.weights[table][*place]);
        }
        let right = (sum >= 0) == taken;
        if !right || sum.abs() <= THRESHOLD {
            for (table, &place) in places.iter().enumerate() {
                let weight = &mut self.weights[table][place];
                *weight = if taken { weight.saturating_add(1) } else { weight.saturating_sub(1) };
            }
        }
        self.history = self.history << 1 | u64::from(taken);
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_learnt_and_coins_are_not() {
        let mut branches = Branches::new();
        let mut wrong = |outcomes: &mut dyn FnMut(u32) -> bool| {
            (0..20_000)
                .filter(|&n| !branches.predicts(Branch::Conditional, 0x40, (0x40 + u64::from(outcomes(n)), 0x40), true))
                .count()
        };
        // Taken but for every seventh.
        assert!(wrong(&mut |n| n % 7 != 0) < 400);
        let mut x = 0x1234_5678_9abc_def1_u64;
        let coins = wrong(&mut |_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x & 1 == 1
        });
        assert!((8_000..12_000).contains(&coins), "{coins}");
    }

    #[test]
    fn a_conditional_branch_that_is_not_found_is_taken_not_to_be_taken() {
        let mut branches = Branches::new();
        (0..100).for_each(|_| _ = branches.predicts(Branch::Conditional, 0x40, (0x80, 0x42), true));
        assert!(!branches.predicts(Branch::Conditional, 0x40, (0x80, 0x42), false));
        assert!(branches.predicts(Branch::Conditional, 0x40, (0x42, 0x42), false));
    }

    #[test]
    fn an_indirect_branch_is_predicted_to_go_where_it_went() {
        let mut branches = Branches::new();
        assert!(!branches.predicts(Branch::Indirect, 0x10, (0x500, 0x12), true));
        assert!(branches.predicts(Branch::Indirect, 0x10, (0x500, 0x12), true));
        assert!(!branches.predicts(Branch::Indirect, 0x10, (0x600, 0x12), true));
    }
}
