//! A CPU's time: instructions at the base CPI plus stall cycles, and the part of a walk that its window hides.

use mmulab_addr::Side;

/// Time of one CPU, in whole cycles.
///
/// `docs/concepts/cost-model.md` states the model in full. A fetch waits for its translation. A load or store lets the
/// core go on for up to `window` instructions. So of a latency that ends at `end`, the core stalls for
/// `end - now - window * CPI` cycles, if that is positive.
#[derive(Clone, Debug)]
pub struct Clock {
    cpi: f64,
    window_cycles: u64,
    stalls: u64,
}

impl Clock {
    /// A core that needs `cpi` cycles an instruction and keeps `window` instructions in flight.
    pub fn new(cpi: f64, window: u32) -> Self {
        Self { cpi, window_cycles: (f64::from(window) * cpi) as u64, stalls: 0 }
    }

    /// Cycles passed after `instructions`.
    #[inline]
    pub fn now(&self, instructions: u64) -> u64 {
        self.base(instructions) + self.stalls
    }

    /// Cycles the instructions alone took.
    #[inline]
    pub fn base(&self, instructions: u64) -> u64 {
        (instructions as f64 * self.cpi) as u64
    }

    /// The clock shows `now` from here on: another model of time keeps it. Only with no cycles for instructions.
    #[inline]
    pub fn follow(&mut self, now: u64) {
        debug_assert!(self.cpi == 0.0);
        self.stalls = now;
    }

    /// Stalls until `end`. Returns the stall in cycles.
    #[inline]
    pub fn stall_until(&mut self, now: u64, end: u64) -> u64 {
        let stall = end.saturating_sub(now);
        self.stalls += stall;
        stall
    }

    /// Waits until `end` for what an access of this side needs: the window covers part of what a load or store waits
    /// for. Returns the stall in cycles.
    #[inline]
    pub fn wait(&mut self, now: u64, end: u64, side: Side) -> u64 {
        let cover = match side {
            Side::Instruction => 0,
            Side::Data => self.window_cycles,
        };
        let stall = end.saturating_sub(now).saturating_sub(cover);
        self.stalls += stall;
        stall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_walk_is_hidden_up_to_the_window_and_a_fetch_is_not() {
        let mut c = Clock::new(0.5, 200);
        let now = c.now(1000);
        assert_eq!(now, 500);
        assert_eq!(c.wait(now, now + 90, Side::Data), 0);
        assert_eq!(c.wait(now, now + 130, Side::Data), 30);
        assert_eq!(c.now(1000), 530);
        assert_eq!(c.wait(530, 540, Side::Instruction), 10);
        assert_eq!(c.stall_until(540, 545), 5);
    }
}
