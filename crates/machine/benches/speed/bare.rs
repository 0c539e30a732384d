//! The yardstick.

/// What a C programmer would write: 64 entries in 4 ways before 1536 in 12, true LRU by moving to the front.
pub struct Bare {
    first: Vec<[u64; 4]>,
    second: Vec<[u64; 12]>,
    /// Of the first level, and of the second.
    pub misses: (u64, u64),
}

fn touch<const W: usize>(set: &mut [u64; W], page: u64) -> bool {
    let mut at = 0;
    while at < W && set[at] != page {
        at += 1;
    }
    let hit = at < W;
    let mut i = if hit { at } else { W - 1 };
    while i > 0 {
        set[i] = set[i - 1];
        i -= 1;
    }
    set[0] = page;
    hit
}

impl Bare {
    /// Empty sets.
    pub fn new() -> Self {
        Self { first: vec![[0; 4]; 16], second: vec![[0; 12]; 128], misses: (0, 0) }
    }

    /// Looks all addresses up.
    pub fn run(&mut self, addresses: &[u64]) {
        let (mut first, mut second) = (0, 0);
        for va in addresses {
            let page = va >> 12;
            if !touch(&mut self.first[page as usize & 15], page) {
                first += 1;
                second += u64::from(!touch(&mut self.second[page as usize & 127], page));
            }
        }
        self.misses.0 += first;
        self.misses.1 += second;
    }
}
