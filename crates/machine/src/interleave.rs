//! Several traces in turns, as several virtual machines run on one core.

use crate::host::{GUESTS_MAX, PID_BITS};
use mmulab_addr::{Pid, Tid};
use mmulab_trace::{Batch, Event, Item, Source, TraceError, TraceErrorKind, TraceInfo};

/// References each trace gives before it is the next one's turn, unless told otherwise.
const QUANTUM: u64 = 100_000;

/// Several traces as one: each gives `quantum` references in turn, until all have ended.
struct Interleaved {
    lanes: Vec<Lane>,
    quantum: u64,
    /// Whose turn it is, and references left of it.
    turn: usize,
    left: u64,
    info: TraceInfo,
    started: bool,
}

/// One of the traces.
struct Lane {
    source: Box<dyn Source>,
    batch: Batch,
    /// The next word of the batch.
    at: usize,
    /// Who acts in it.
    who: (Pid, Tid),
    more: bool,
}

/// One trace as it is, or several in turns of `quantum` references (default 100,000). The processes of trace `n` are told
/// from those of others by the bits of their numbers above the 24th; machines know them as those of virtual machine `n`.
///
/// # Errors
/// More traces than there can be machines, or some that tell of their address space and some that do not.
pub fn interleave(mut sources: Vec<Box<dyn Source>>, quantum: Option<u64>) -> Result<Box<dyn Source>, TraceError> {
    let request = |what: String| TraceError::new("", "", TraceErrorKind::Request(what));
    if sources.len() == 1
        && let Some(only) = sources.pop()
    {
        return Ok(only);
    }
    if sources.is_empty() || sources.len() > GUESTS_MAX {
        return Err(request(format!("{} traces: give 1 to {GUESTS_MAX}", sources.len())));
    }
    let infos: Vec<&TraceInfo> = sources.iter().map(|s| s.info()).collect();
    let told = infos[0].has_address_space;
    if let Some(odd) = infos.iter().find(|i| i.has_address_space != told) {
        let tells = |i: &TraceInfo| if i.has_address_space { "tells" } else { "does not tell" };
        return Err(request(format!(
            "{} {} what the program mapped, and {} {}: give traces of one kind",
            infos[0].name,
            tells(infos[0]),
            odd.name,
            tells(odd)
        )));
    }
    let join = |part: fn(&TraceInfo) -> &str| infos.iter().map(|i| part(i)).collect::<Vec<_>>().join(" + ");
    let sum = |part: fn(&TraceInfo) -> Option<u64>| infos.iter().map(|i| part(i)).sum::<Option<u64>>();
    let hashes: Option<Vec<&str>> = infos.iter().map(|i| i.hash.as_deref()).collect();
    let info = TraceInfo {
        name: join(|i| &i.name),
        program: join(|i| &i.program),
        instructions: sum(|i| i.instructions),
        references: sum(|i| i.references),
        hash: hashes.map(|h| h.join("+")),
        warnings: infos.iter().flat_map(|i| i.warnings.iter().cloned()).collect(),
        ..infos[0].clone()
    };
    let lane = |source| Lane { source, batch: Batch::default(), at: 0, who: (Pid(1), Tid(1)), more: true };
    let quantum = quantum.unwrap_or(QUANTUM).max(1);
    let lanes = sources.into_iter().map(lane).collect();
    Ok(Box::new(Interleaved { lanes, quantum, turn: 0, left: quantum, info, started: false }))
}

impl Interleaved {
    /// The event that makes a lane's thread act.
    fn switch(&self) -> Event {
        let (pid, tid) = self.lanes[self.turn].who;
        let vm = (self.turn as u32) << PID_BITS;
        Event::Switch { pid: Pid(vm | pid.0), tid: Tid(vm | tid.0) }
    }

    /// Hands the turn to the next lane that has something left; false when none has.
    fn pass_on(&mut self) -> bool {
        self.left = self.quantum;
        let count = self.lanes.len();
        let next = (1..=count).map(|n| (self.turn + n) % count);
        match next.into_iter().find(|&n| self.lanes[n].has_more()) {
            Some(next) => {
                self.turn = next;
                true
            }
            None => false,
        }
    }
}

impl Lane {
    fn has_more(&self) -> bool {
        self.more || self.at < self.batch.refs.len()
    }
}

impl Source for Interleaved {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        if !self.started {
            self.started = true;
            batch.push_event(self.switch());
        }
        while !batch.is_full() {
            let lane = &mut self.lanes[self.turn];
            if lane.at == lane.batch.refs.len() {
                if lane.more {
                    lane.at = 0;
                    lane.more = lane.source.next_batch(&mut lane.batch)?;
                    continue;
                }
                if !self.pass_on() {
                    return Ok(false);
                }
                batch.push_event(self.switch());
                continue;
            }
            let word = lane.batch.refs[lane.at];
            if !word.is_control() && self.left == 0 {
                let was = self.turn;
                if self.pass_on() && self.turn != was {
                    batch.push_event(self.switch());
                }
                continue;
            }
            lane.at += 1;
            match word.item() {
                Item::Event(index) => match lane.batch.events[index] {
                    Event::Switch { pid, tid } => {
                        if pid.0 >> PID_BITS != 0 || tid.0 >> PID_BITS != 0 {
                            let what = format!("process {pid}, thread {tid}: numbers from 2^{PID_BITS} up are taken");
                            return Err(TraceError::new(&self.info.name, "", TraceErrorKind::Request(what)));
                        }
                        lane.who = (pid, tid);
                        let event = self.switch();
                        batch.push_event(event);
                    }
                    ref event => batch.push_event(event.clone()),
                },
                Item::Retire(_) => batch.refs.push(word),
                Item::Access(..) => {
                    self.left -= 1;
                    batch.refs.push(word);
                }
            }
        }
        Ok(true)
    }

    fn progress(&self) -> Option<f64> {
        let parts: Option<Vec<f64>> = self.lanes.iter().map(|l| l.source.progress()).collect();
        parts.map(|p| p.iter().sum::<f64>() / self.lanes.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open;

    fn text(name: &str, lines: &str) -> Box<dyn Source> {
        let path = std::env::temp_dir().join(format!("mmulab-interleave-{}-{name}.mmtx", std::process::id()));
        std::fs::write(&path, lines).expect("a place for a trace");
        let source = open(&path.display().to_string()).expect("a trace");
        std::fs::remove_file(&path).expect("it was there");
        source
    }

    fn told(mut source: Box<dyn Source>) -> Vec<String> {
        let (mut out, mut batch) = (Vec::new(), Batch::default());
        loop {
            let more = source.next_batch(&mut batch).expect("whole");
            for word in &batch.refs {
                match word.item() {
                    Item::Access(_, va, _) => out.push(va.to_string()),
                    Item::Event(n) => match batch.events[n] {
                        Event::Switch { pid, .. } => out.push(format!("{}:{}", pid.0 >> PID_BITS, pid.0 & 0xff)),
                        _ => out.push("event".into()),
                    },
                    Item::Retire(_) => {}
                }
            }
            if !more {
                return out;
            }
        }
    }

    #[test]
    fn traces_take_turns_until_all_have_ended() {
        let one = text("a", "r 0x1000\nr 0x2000\nr 0x3000\np 7.7\nr 0x4000\nr 0x5000\n");
        let two = text("b", "r 0x100000\n");
        let both = interleave(vec![one, two], Some(2)).expect("of one kind");
        let expected = ["0:1", "0x1000", "0x2000", "1:1", "0x100000", "0:1", "0x3000", "0:7", "0x4000", "0x5000"];
        assert_eq!(told(both), expected);
    }
}
