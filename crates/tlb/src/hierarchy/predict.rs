//! Page-size predictors learn what the code wanted.

use super::Hierarchy;
use mmulab_addr::PageOrder;

impl Hierarchy {
    /// The predictors of level `level + 1` learn that the code that is executing wanted a page of `order`.
    #[cold]
    pub(super) fn learn(&mut self, level: usize, side: usize, order: PageOrder) {
        if let Some(target) = self.levels.of[level][side].takes(order) {
            self.arrays[usize::from(target.array)].learn(self.code, target.size);
        }
    }
}
