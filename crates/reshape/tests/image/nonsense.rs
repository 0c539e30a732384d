//! Damaged traces.

use crate::model::*;
use mmulab_addr::{BASE_BYTES, Pid, Prot, Tid, VirtAddr};
use mmulab_elf::Linker;
use mmulab_trace::{Advice, Backing, Event, ImageSegment, MapFlags, Ref};
use proptest::prelude::*;
use std::sync::Arc;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Whatever a damaged trace says is taken, or refused.
    #[test]
    fn nonsense_is_taken_or_refused(
        words in prop::collection::vec(nonsense(), 1..60), order in 0u8..46, at_once in 1usize..20
    ) {
        let _ = linked_anew(&words, Linker::Lld, order, at_once);
    }
}

/// Numbers near each other, and near the ends.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (0u64..40, prop_oneof![Just(0u64), 0u64..4096]).prop_map(|(page, at)| page * BASE_BYTES + at),
        1 => (0u64..40).prop_map(|n| u64::MAX - n * 1000),
        1 => (0u64..40).prop_map(|n| 0x30_0000_0000 + n * BASE_BYTES),
        1 => any::<u64>(),
    ]
}

fn nonsense() -> impl Strategy<Value = Word> {
    let segment =
        (number(), number(), number(), number(), 0u8..8).prop_map(|(address, bytes, offset, file_bytes, prot)| {
            ImageSegment { address, bytes, offset, file_bytes, prot: Prot::from_bits(prot), align: bytes }
        });
    let likely = (0u64..8, 1u64..9000, 0u8..8).prop_map(|(page, bytes, prot)| ImageSegment {
        address: page * BASE_BYTES,
        bytes,
        offset: page * BASE_BYTES,
        file_bytes: bytes,
        prot: Prot::from_bits(prot),
        align: BASE_BYTES,
    });
    let segments = prop::collection::vec(prop_oneof![segment, likely], 0..4);
    let path = prop_oneof![Just(Arc::<str>::from("/a")), Just(Arc::<str>::from("/b"))];
    let event = (number(), number(), number(), number(), 0u8..8, path, segments, 0usize..11);
    let event = event.prop_map(|(a, b, c, d, prot, path, segments, which)| {
        let (addr, prot) = (VirtAddr::new(a), Prot::from_bits(prot));
        match which {
            0 | 1 => Event::Image { path, segments },
            2..=4 => {
                let backing = Backing::File { path, offset: c };
                Event::Mmap { addr, len: b, prot, flags: MapFlags::default(), backing }
            }
            5 => Event::Mmap { addr, len: b, prot, flags: MapFlags::default(), backing: Backing::Anon },
            6 => Event::Munmap { addr, len: b },
            7 => Event::Mprotect { addr, len: b, prot },
            8 => Event::Mremap { old: addr, old_len: b, new: VirtAddr::new(c), new_len: d, keep_old: a % 2 == 0 },
            9 => Event::Madvise { addr, len: b, advice: Advice::Free },
            _ => Event::Brk { start: addr, end: VirtAddr::new(b) },
        }
    });
    prop_oneof![
        event.prop_map(Word::Event),
        number().prop_map(|a| Word::Ref(Ref::read(VirtAddr::new(a)))),
        (0u32..3, any::<bool>()).prop_map(|(pid, vm)| Word::Event(Event::Fork { child: Pid(pid), shares_memory: vm })),
        (0u32..3).prop_map(|pid| Word::Event(Event::Switch { pid: Pid(pid), tid: Tid(pid) })),
        Just(Word::Event(Event::Exec { path: "/a".into() })),
        Just(Word::Event(Event::Exit { status: 0 })),
    ]
}
