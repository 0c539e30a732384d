//! Several traces in turns, as several virtual machines run on one host.

use mmulab_interleave::{Apart, Part, Schedule, mix};
use mmulab_trace::{Source, TraceError};

/// Default number of references that each machine's programs make before it is the next one's turn.
const QUANTUM: u64 = 100_000;

/// One trace as it is, or several in turns of `quantum` references (default 100,000) until all have ended. Each has a
/// virtual machine of its own.
///
/// # Errors
/// More traces than there can be machines, or some that do not go together.
pub fn interleave(mut sources: Vec<Box<dyn Source>>, quantum: Option<u64>) -> Result<Box<dyn Source>, TraceError> {
    if sources.len() == 1
        && let Some(only) = sources.pop()
    {
        return Ok(only);
    }
    let name = sources.iter().map(|s| s.info().name.as_str()).collect::<Vec<_>>().join(" + ");
    let schedule = Schedule { apart: Apart::Machines, quantum: quantum.unwrap_or(QUANTUM), ..Schedule::default() };
    let parts = sources.into_iter().enumerate().map(|(vm, source)| Part {
        name: format!("machine {vm}"),
        source,
        again: None,
        after: 0,
        core: None,
    });
    mix(&name, parts.collect(), &schedule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open;
    use mmulab_interleave::PID_BITS;
    use mmulab_trace::{Batch, Event, Item};

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
                    Item::Retire(_) | Item::Code(_) => {}
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
