//! Resources that instructions take in order and give back in order: an entry is free again at a time known by then.

/// When each of the entries is free, the one to be taken next first.
#[derive(Clone, Debug)]
pub struct Ring {
    free: Box<[u64]>,
    next: usize,
}

impl Ring {
    /// So many entries (at least one), all free.
    pub fn new(entries: u32) -> Self {
        Self { free: vec![0; entries.max(1) as usize].into(), next: 0 }
    }

    /// When the next entry is free.
    #[inline(always)]
    pub fn available(&self) -> u64 {
        self.free[self.next]
    }

    /// Takes the next entry until `until`.
    #[inline(always)]
    pub fn take(&mut self, until: u64) {
        self.free[self.next] = until;
        self.next += 1;
        if self.next == self.free.len() {
            self.next = 0;
        }
    }
}

/// A place in each cycle for a number of instructions that come in order: dispatch and retirement.
#[derive(Clone, Debug)]
pub struct InOrder {
    width: u32,
    cycle: u64,
    used: u32,
}

impl InOrder {
    /// `width` places in each cycle.
    pub fn new(width: u32) -> Self {
        Self { width: width.max(1), cycle: 0, used: 0 }
    }

    /// The cycle of the last place taken.
    #[inline(always)]
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// Takes the first place at `earliest` or later, and not before the last one taken.
    #[inline(always)]
    pub fn take(&mut self, earliest: u64) -> u64 {
        if earliest > self.cycle {
            (self.cycle, self.used) = (earliest, 1);
        } else if self.used < self.width {
            self.used += 1;
        } else {
            (self.cycle, self.used) = (self.cycle + 1, 1);
        }
        self.cycle
    }
}
