//! Machines in groups: a leader, and followers that have the same first-level TLBs, or the same of both levels. Which
//! machines can be in one group is read from their descriptions; whether they stay together shows as they run.

use crate::{ended::Ended, machine::Machine, share::Log};
use mmulab_tlb::SharedLevels;
use mmulab_trace::Batch;
use std::sync::Arc;

/// A machine, with its number among all.
type Numbered = (usize, Machine);

/// Followers run after this number of logged words or batches. Larger numbers keep a follower's TLBs and tables in this
/// computer's caches for longer. Smaller numbers keep fewer batches in memory.
const WORDS: usize = 1 << 14;
const BATCHES: usize = 32;

/// A leader and its followers; or one machine alone, which leads nobody.
pub(crate) struct Group {
    leader: Numbered,
    followers: Vec<Follower>,
    /// What the leader has run and the followers have not.
    ahead: Vec<(Arc<Batch>, Arc<Log>)>,
    /// Logs that are done: their memory is used again.
    used: Vec<Log>,
}

struct Follower {
    machine: Numbered,
    /// Its shared levels are not the leader's any more: what it counts since is of no use.
    has_parted: bool,
}

impl Group {
    /// Machines that have something in common, at least one.
    fn new(mut machines: Vec<Numbered>) -> Self {
        let alone = |leader| Self { leader, followers: Vec::new(), ahead: Vec::new(), used: Vec::new() };
        if machines.len() == 1 {
            return alone(machines.remove(0));
        }
        let levels = levels(&machines);
        let (number, leader) = machines.remove(0);
        let follower = |(index, machine): Numbered| Follower {
            machine: (index, machine.in_group(levels, false)),
            has_parted: false,
        };
        let followers = machines.into_iter().map(follower).collect();
        Self { followers, ..alone((number, leader.in_group(levels, true))) }
    }

    /// Runs a batch: the leader now, and the followers when there is enough for them.
    pub fn run(&mut self, batch: &Arc<Batch>) {
        let leader = &mut self.leader.1;
        leader.run(batch);
        if self.followers.is_empty() {
            return;
        }
        let log = leader.take_log(self.used.pop().unwrap_or_default());
        self.ahead.push((Arc::clone(batch), Arc::new(log)));
        let words: usize = self.ahead.iter().map(|(_, log)| log.entries.len()).sum();
        if words >= WORDS || self.ahead.len() >= BATCHES || self.leader.1.ended().is_some() {
            self.follow();
        }
    }

    /// The followers run what the leader has run.
    fn follow(&mut self) {
        let ended = self.leader.1.ended();
        let is_interrupted = ended == Some(&Ended::Interrupted);
        let has_ended = ended.is_some() && !is_interrupted;
        for follower in self.followers.iter_mut().filter(|follower| !follower.has_parted) {
            let machine = &mut follower.machine.1;
            for (batch, log) in &self.ahead {
                machine.follow(log, batch);
                // Interrupted, both end where the leader does.
                follower.has_parted = !is_interrupted
                    && (has_ended || machine.ended().is_some() || machine.trails().ne(log.trails.iter().copied()));
                if follower.has_parted {
                    break;
                }
            }
        }
        self.used.extend(self.ahead.drain(..).filter_map(|(_, log)| Arc::try_unwrap(log).ok()));
    }

    /// The run is over: all machines, and the numbers of those that must be run again, alone.
    pub fn end(mut self) -> (Vec<Numbered>, Vec<usize>) {
        self.follow();
        let Self { mut leader, followers, .. } = self;
        let mut again = Vec::new();
        let counts = leader.1.tlb_counts();
        let mut all = vec![leader];
        for Follower { mut machine, has_parted } in followers {
            machine.1.end_following(counts.clone());
            again.extend(has_parted.then_some(machine.0));
            all.push(machine);
        }
        (all, again)
    }
}

/// The levels that machines with something in common share: both, if all their arrays are alike.
fn levels(machines: &[Numbered]) -> SharedLevels {
    let text = |(_, machine): &Numbered| machine.in_common(SharedLevels::Both);
    let first = machines.first().map(text);
    let is_first = |machine: &Numbered| Some(text(machine)) == first;
    if machines.iter().all(is_first) { SharedLevels::Both } else { SharedLevels::First }
}

/// Deals machines to workers, in groups where several have the same first level, or both, and `shares` says so. A group
/// on two workers is two groups: a leader costs less than a worker that has nothing to do.
pub(crate) fn deal(machines: Vec<Machine>, workers: usize, shares: bool) -> Vec<Vec<Group>> {
    let common = |m: &Machine| m.in_common(SharedLevels::First).or_else(|| m.in_common(SharedLevels::Both));
    // One machine has nobody to share with.
    let shares = shares && machines.len() > 1;
    let key = |machine: &Machine| if shares { common(machine) } else { None };
    let mut all: Vec<_> = machines.into_iter().enumerate().map(|(index, m)| (key(&m), (index, m))).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    let has_groups = all.windows(2).any(|pair| pair[0].0.is_some() && pair[0].0 == pair[1].0);
    let most = all.len().div_ceil(workers).max(1);
    let mut shares: Vec<Vec<(Option<String>, Vec<Numbered>)>> = (0..workers).map(|_| Vec::new()).collect();
    for (place, (key, machine)) in all.into_iter().enumerate() {
        let share = &mut shares[if has_groups { place / most } else { machine.0 % workers }];
        match share.last_mut() {
            Some((last, group)) if key.is_some() && *last == key => group.push(machine),
            _ => share.push((key, vec![machine])),
        }
    }
    let groups = |share: Vec<(_, Vec<Numbered>)>| share.into_iter().map(|(_, group)| Group::new(group)).collect();
    shares.into_iter().map(groups).collect()
}
