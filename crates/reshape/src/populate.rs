//! A program whose memory was populated before it ran. Every private, writable, anonymous mapping is made with all its
//! pages (MAP_POPULATE), so that no first touch is measured. Pages that a program does not touch take memory then, too.

use crate::rewrite::{Refused, Rewrite, Rewritten};
use mmulab_addr::Prot;
use mmulab_trace::{Backing, Batch, Description, Event, Source, TraceInfo};
use serde_json::json;

/// `source` with its mappings populated.
pub fn reshape(source: Box<dyn Source>) -> Box<dyn Source> {
    Box::new(Rewritten::new(source, Populated))
}

struct Populated;

impl Rewrite for Populated {
    fn rewrite(&mut self, batch: &mut Batch) -> Result<(), Refused> {
        for event in &mut batch.events {
            if let Event::Mmap { prot, flags, backing: Backing::Anon, .. } = event
                && prot.has(Prot::W)
                && !flags.shared
            {
                flags.populate = true;
            }
        }
        Ok(())
    }

    fn enter(&mut self, info: &mut TraceInfo) {
        info.reshaped.insert("populate".into(), json!(true));
    }

    fn describe(&self, description: &mut Description) {
        description.source.push_str("; its memory there before it runs");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::tests::Once;
    use mmulab_addr::VirtAddr;
    use mmulab_trace::MapFlags;

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
