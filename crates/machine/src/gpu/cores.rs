//! The cores that have walks in flight, so that completing or cancelling them visits no others.

/// A set of cores.
#[derive(Default)]
pub(super) struct CoreSet {
    /// A bit each.
    cores: Vec<u64>,
}

impl CoreSet {
    pub fn add(&mut self, cpu: usize) {
        let word = cpu / 64;
        if word >= self.cores.len() {
            self.cores.resize(word + 1, 0);
        }
        self.cores[word] |= 1 << (cpu % 64);
    }

    pub fn remove(&mut self, cpu: usize) {
        if let Some(word) = self.cores.get_mut(cpu / 64) {
            *word &= !(1 << (cpu % 64));
        }
    }

    /// The first of them, from `cpu` on.
    pub fn next(&self, cpu: usize) -> Option<usize> {
        let mut kept = u64::MAX << (cpu % 64);
        for (word, bits) in self.cores.iter().enumerate().skip(cpu / 64) {
            let left = bits & std::mem::replace(&mut kept, u64::MAX);
            if left != 0 {
                return Some(word * 64 + left.trailing_zeros() as usize);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_with_walks_are_found_in_order() {
        let mut cores = CoreSet::default();
        [3, 64, 200, 63].into_iter().for_each(|cpu| cores.add(cpu));
        cores.remove(64);
        cores.remove(1000);
        let all = |from| std::iter::successors(cores.next(from), |&cpu| cores.next(cpu + 1)).collect::<Vec<_>>();
        assert_eq!((all(0), all(4), all(201)), (vec![3, 63, 200], vec![63, 200], vec![]));
    }
}
