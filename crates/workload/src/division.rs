//! Which thread does a round, and which round of the algorithm that is.

use crate::algorithm::Sharing;

/// How the rounds of an algorithm are divided: a number of threads, which do `quantum` rounds when it is their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// How threads share the rounds.
    pub sharing: Sharing,
    /// At least 1.
    pub threads: u64,
    /// At least 1.
    pub quantum: u64,
    /// Rounds in all, where that is known.
    pub rounds: Option<u64>,
}

/// What is done at a place of the order in which threads take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whose turn it is, from 0.
    pub thread: u64,
    /// The algorithm's round, if it had one thread.
    pub round: u64,
    /// Whether the thread has an interval of its own, and not the next rounds of all.
    pub own: bool,
    /// Rounds until the turn ends: at least 1.
    pub left: u64,
}

/// Rounds that begin together, of which each thread has an interval.
#[derive(Clone, Copy)]
struct Phase {
    start: u64,
    rounds: u64,
    threads: u64,
    quantum: u64,
}

impl Phase {
    /// Rounds before the interval of `thread`.
    fn before(&self, thread: u64) -> u64 {
        (u128::from(self.rounds) * u128::from(thread) / u128::from(self.threads)) as u64
    }

    /// Whole turns that every thread has.
    fn turns(&self) -> u64 {
        self.rounds / self.threads / self.quantum
    }

    /// Rounds of its interval that `thread` has done before the place `at` of the phase.
    fn done(&self, thread: u64, at: u64) -> u64 {
        let (cycle, turns) = (self.quantum * self.threads, self.turns());
        if at < turns * cycle {
            let within = (at % cycle).saturating_sub(thread * self.quantum).min(self.quantum);
            return at / cycle * self.quantum + within;
        }
        // What is left of each interval, at most two turns' worth, is done in one.
        let ends = turns * self.quantum;
        let rest = |thread| self.before(thread + 1) - self.before(thread) - ends;
        // Intervals differ by one round, so what the threads before have left follows from where their intervals end.
        let earlier = self.before(thread) - thread * ends;
        ends + (at - turns * cycle).saturating_sub(earlier).min(rest(thread))
    }

    /// What is done at the place `at` of the phase.
    fn place(&self, at: u64) -> Place {
        let (cycle, turns) = (self.quantum * self.threads, self.turns());
        let thread = if at < turns * cycle {
            at % cycle / self.quantum
        } else {
            // The last one whose rest begins at or before `at`.
            let at = at - turns * cycle;
            let begins = |thread: u64| self.before(thread) - thread * turns * self.quantum;
            let (mut low, mut high) = (0, self.threads - 1);
            while low < high {
                let middle = high - (high - low) / 2;
                if begins(middle) <= at {
                    low = middle;
                } else {
                    high = middle - 1;
                }
            }
            low
        };
        let done = self.done(thread, at);
        let left = if at < turns * cycle {
            self.quantum - at % self.quantum
        } else {
            self.before(thread + 1) - self.before(thread) - done
        };
        Place { thread, round: self.start + self.before(thread) + done, own: true, left }
    }
}

impl Division {
    /// The phase that place `at` is in, if it is in one.
    fn phase(&self, at: u64) -> Option<Phase> {
        let Sharing::Intervals { after, each } = self.sharing else { return None };
        let (within, all) = (at.checked_sub(after)?, self.rounds.filter(|_| self.threads > 1)?);
        let start = after + within / each * each;
        let rounds = each.min(all.saturating_sub(start));
        (at < all).then_some(Phase { start, rounds, threads: self.threads, quantum: self.quantum })
    }

    /// What is done at place `at`.
    pub fn place(&self, at: u64) -> Place {
        if self.threads == 1 {
            return Place { thread: 0, round: at, own: false, left: u64::MAX };
        }
        if let Some(phase) = self.phase(at) {
            return phase.place(at - phase.start);
        }
        let turn = self.quantum - at % self.quantum;
        let left = match self.sharing {
            Sharing::Intervals { after, .. } => turn.min(after.saturating_sub(at).max(1)),
            _ => turn,
        };
        Place { thread: at / self.quantum % self.threads, round: at, own: false, left }
    }

    /// The sum of what `before` says of the rounds done before place `at`: of all before a round, if it had one thread.
    pub fn sum_before(&self, at: u64, before: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        // The end of a phase is as good as the beginning of the next one.
        let Some(phase) = self.phase(at) else { return before(at) };
        let interval = |thread: u64| {
            let first = phase.start + phase.before(thread);
            before(first + phase.done(thread, at - phase.start))?.checked_sub(before(first)?)
        };
        (0..phase.threads).try_fold(before(phase.start)?, |sum, thread| sum.checked_add(interval(thread)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order by doing it: who does what, round by round.
    fn played(d: &Division) -> Vec<(u64, u64)> {
        let all = d.rounds.unwrap();
        let Sharing::Intervals { after, each } = d.sharing else {
            return (0..all).map(|at| (at / d.quantum % d.threads, at)).collect();
        };
        let mut order: Vec<_> = (0..after.min(all)).map(|at| (at / d.quantum % d.threads, at)).collect();
        let mut start = after;
        while start < all {
            let rounds = each.min(all - start);
            let share = |thread: u64| start + rounds * thread / d.threads;
            let mut next: Vec<u64> = (0..d.threads).map(share).collect();
            let least = rounds / d.threads;
            for turn in 0..least / d.quantum + 1 {
                for thread in 0..d.threads {
                    // Whole turns while all have them, then what is left.
                    let left = share(thread + 1) - next[thread as usize];
                    let count = if turn < least / d.quantum { d.quantum } else { left };
                    order.extend((0..count).map(|i| (thread, next[thread as usize] + i)));
                    next[thread as usize] += count;
                }
            }
            start += rounds;
        }
        order
    }

    #[test]
    fn places_are_what_playing_it_gives() {
        let sharings = [
            Sharing::Turns,
            Sharing::INTERVALS,
            Sharing::Intervals { after: 0, each: 40 },
            Sharing::Intervals { after: 23, each: u64::MAX },
        ];
        for sharing in sharings {
            for (threads, quantum, rounds) in
                [(1, 8, 100), (2, 8, 100), (3, 4, 101), (7, 1, 100), (4, 64, 100), (9, 3, 5)]
            {
                let d = Division { sharing, threads, quantum, rounds: Some(rounds) };
                let order = played(&d);
                let mut done: Vec<u64> = order.iter().map(|&(_, round)| round).collect();
                let weight = |round: u64| round * round;
                for (at, &(thread, round)) in order.iter().enumerate() {
                    let place = d.place(at as u64);
                    assert_eq!((place.thread, place.round), (thread, round), "{d:?} at {at}");
                    let turn = &order[at..order.len().min(at + place.left.min(rounds) as usize)];
                    let steps = turn.iter().zip(round..).all(|(&(who, what), next)| (who, what) == (thread, next));
                    assert!(steps, "{d:?} at {at}: its turn is {}", place.left);
                    // The weights of rounds before, where each weighs what the sum of weights grows by.
                    let sum: u64 = done[..at].iter().map(|&r| weight(r + 1) - weight(r)).sum();
                    assert_eq!(d.sum_before(at as u64, |r| Some(weight(r))), Some(sum), "{d:?} at {at}");
                }
                done.sort_unstable();
                assert_eq!(done, (0..rounds).collect::<Vec<_>>(), "{d:?}");
            }
        }
    }
}
