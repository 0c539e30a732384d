//! A program whose memory was there before it ran: every private, writable, anonymous mapping is made with all its pages
//! (MAP_POPULATE), so that no first touch is among what is measured. What a program does not touch takes memory then, too.

use mmulab_addr::Prot;
use mmulab_trace::{Backing, Batch, Event, Sought, Source, TraceError, TraceInfo};
use serde_json::json;

/// `source` with its mappings populated.
pub fn reshape(source: Box<dyn Source>) -> Box<dyn Source> {
    let mut info = source.info().clone();
    info.reshaped.insert("populate".into(), json!(true));
    Box::new(Populated { source, info })
}

struct Populated {
    source: Box<dyn Source>,
    info: TraceInfo,
}

impl Source for Populated {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let read = self.source.next_batch(batch);
        for event in &mut batch.events {
            if let Event::Mmap { prot, flags, backing: Backing::Anon, .. } = event
                && prot.has(Prot::W)
                && !flags.shared
            {
                flags.populate = true;
            }
        }
        self.info.warnings.clone_from(&self.source.info().warnings);
        read
    }

    fn progress(&self) -> Option<f64> {
        self.source.progress()
    }

    fn skip_to(&mut self, instruction: u64, hear: &mut dyn FnMut(f64) -> bool) -> Result<Option<Sought>, TraceError> {
        self.source.skip_to(instruction, hear)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::VirtAddr;
    use mmulab_trace::MapFlags;

    struct Once(Vec<Event>, TraceInfo);

    impl Source for Once {
        fn info(&self) -> &TraceInfo {
            &self.1
        }

        fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
            *batch = Batch::default();
            self.0.drain(..).for_each(|event| batch.push_event(event));
            Ok(false)
        }
    }

    #[test]
    fn only_memory_of_the_programs_own_is_populated() {
        let map = |prot, shared| Event::Mmap {
            addr: VirtAddr::new(1 << 30),
            len: 4096,
            prot,
            flags: MapFlags { shared, ..MapFlags::default() },
            backing: Backing::Anon,
        };
        let events = vec![map(Prot::RW, false), map(Prot::R, false), map(Prot::RW, true), Event::Tick];
        let mut source = reshape(Box::new(Once(events, TraceInfo::default())));
        let mut batch = Batch::default();
        assert_eq!(source.next_batch(&mut batch).ok(), Some(false));
        let populated = |event: &Event| matches!(event, Event::Mmap { flags, .. } if flags.populate);
        assert_eq!(batch.events.iter().map(populated).collect::<Vec<_>>(), [true, false, false, false]);
        assert_eq!(source.info().reshaped["populate"], true);
    }
}
