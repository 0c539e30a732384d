//! Run queues of a mix: which member has the next turn, and on which core. Every core has a queue, and the queues
//! take turns. Without named cores, and with migration, all members share one queue.

use crate::Schedule;
use std::collections::VecDeque;

/// Who waits for a turn: a queue for each core, or one for all.
#[derive(Debug)]
pub struct Queues {
    queues: Vec<VecDeque<usize>>,
    /// The queue whose member had the last turn.
    last: usize,
    /// Turns so far: where there is one queue for several cores, the number of the core.
    turns: u64,
    migrate: Option<u16>,
    /// Whether members are told which core is theirs.
    pins: bool,
}

/// A turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Whose.
    pub member: usize,
    /// On which core, if not the machine decides.
    pub core: Option<u16>,
}

impl Queues {
    /// The queues of members of which some name a core.
    pub fn new(schedule: &Schedule, cores: &[Option<u16>]) -> Self {
        let pins = schedule.cores.is_some() || cores.iter().any(Option::is_some);
        let spread = schedule.cores.unwrap_or(1).max(1);
        let named = cores.iter().flatten().max().map_or(0, |core| core + 1);
        let migrate = schedule.migrate.then_some(spread);
        let count = if migrate.is_some() { 1 } else { spread.max(named) };
        let mut queues = vec![VecDeque::new(); usize::from(count)];
        let mut next = 0;
        for (member, core) in cores.iter().enumerate() {
            let core = core.filter(|_| migrate.is_none()).unwrap_or_else(|| {
                next += 1;
                (next - 1) % if migrate.is_some() { 1 } else { spread }
            });
            queues[usize::from(core)].push_back(member);
        }
        // The first queue is next.
        let last = queues.len() - 1;
        Self { queues, last, turns: 0, migrate, pins }
    }

    /// The next turn, of a member that `may` have it: of the first such in the next queue that has one.
    pub fn next(&mut self, mut may: impl FnMut(usize) -> bool) -> Option<Turn> {
        for ahead in 1..=self.queues.len() {
            let at = (self.last + ahead) % self.queues.len();
            for _ in 0..self.queues[at].len() {
                let Some(member) = self.queues[at].pop_front() else { break };
                self.queues[at].push_back(member);
                if may(member) {
                    self.last = at;
                    let core = self.migrate.map_or(at as u16, |cores| (self.turns % u64::from(cores)) as u16);
                    self.turns += 1;
                    return Some(Turn { member, core: self.pins.then_some(core) });
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(schedule: Schedule, cores: &[Option<u16>], count: usize) -> Vec<(usize, Option<u16>)> {
        let mut queues = Queues::new(&schedule, cores);
        let next = |_| queues.next(|_| true).map(|t| (t.member, t.core));
        (0..count).filter_map(next).collect()
    }

    #[test]
    fn each_core_has_a_queue() {
        let two = Schedule { cores: Some(2), ..Schedule::default() };
        let on = |member, core| (member, Some(core));
        assert_eq!(turns(two.clone(), &[None; 3], 6), [on(0, 0), on(1, 1), on(2, 0), on(1, 1), on(0, 0), on(1, 1)]);
        let named = [Some(1), None, None];
        assert_eq!(turns(two, &named, 4), [on(1, 0), on(0, 1), on(1, 0), on(2, 1)]);
    }

    #[test]
    fn without_cores_there_is_one_queue_and_nobody_is_told_where_to_run() {
        assert_eq!(turns(Schedule::default(), &[None; 2], 3), [(0, None), (1, None), (0, None)]);
    }

    #[test]
    fn with_migration_the_next_member_runs_on_the_next_core() {
        let schedule = Schedule { cores: Some(2), migrate: true, ..Schedule::default() };
        let on = |member, core| (member, Some(core));
        assert_eq!(turns(schedule, &[None; 3], 5), [on(0, 0), on(1, 1), on(2, 0), on(0, 1), on(1, 0)]);
    }
}
