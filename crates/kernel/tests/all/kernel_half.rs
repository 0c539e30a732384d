//! The kernel's half of address spaces: global mappings of files, which every process shows alike.

use crate::common::*;
use mmulab_addr::{Access, PageOrder, Prot, VirtAddr};
use mmulab_kernel::{EventKind, FaultKind, PolicyDesc};
use mmulab_trace::{Backing, Event, MapFlags};

const HUGE: u64 = 2 << 20;
/// Where the upper half begins.
const KERNEL: u64 = 0xffff_8000_0000_0000;
const BYTES: u64 = 1 << 40;

/// All of the kernel's memory, as `mmulab record --system` shows it.
fn kernel_half() -> Event {
    let flags = MapFlags { shared: true, global: true, label: Some("[kernel]".into()), ..MapFlags::default() };
    let backing = Backing::File { path: "[kernel]".into(), offset: 0 };
    Event::Mmap { addr: VirtAddr::new(KERNEL), len: BYTES, prot: Prot::RW.with(Prot::X), flags, backing }
}

fn sized(mut policy: PolicyDesc, size: PageOrder) -> PolicyDesc {
    policy.linux.kernel_page = size;
    policy
}

#[test]
fn the_kernel_s_memory_is_mapped_by_superpages_that_all_processes_share() {
    for policy in [PolicyDesc::linux_4k(), PolicyDesc::freebsd()] {
        let mut w = World::new(&desc(policy, 64), 64);
        for pid in [1, 2] {
            w.event(pid, &kernel_half());
        }
        let at = KERNEL + 3 * HUGE;
        let (frame, kinds) = w.access(1, at + 5 * PAGE, Access::Fetch).unwrap();
        assert_eq!(kinds, [FaultKind::FileCached], "it is in memory since boot");
        let leaf = w.walk(1, at, None).unwrap();
        assert_eq!((leaf.order, leaf.global, leaf.user, leaf.dirty), (PageOrder::P2M, true, false, true));
        assert_eq!(w.access(2, at + 5 * PAGE, Access::Write).unwrap().0, frame);
        assert_eq!(w.usage().page_cache_bytes, HUGE);
        assert_eq!(w.kernel.counts().events.get(EventKind::PagesRead), 0);
        for pid in [1, 2] {
            w.event(pid, &Event::Exit { status: 0 });
        }
        assert_eq!(w.usage().mapped.total(), 0);
    }
}

#[test]
fn base_pages_are_left_where_the_policy_or_memory_says_so() {
    let mut w = World::new(&desc(sized(PolicyDesc::linux_4k(), PageOrder::P4K), 64), 64);
    w.event(1, &kernel_half());
    w.access(1, KERNEL, Access::Fetch).unwrap();
    assert_eq!(w.walk(1, KERNEL, None).unwrap().order, PageOrder::P4K);

    let mut full = desc(PolicyDesc::linux_4k(), 64);
    full.memory.fragment = memhog(40.0, "64K");
    let mut w = World::new(&full, 64);
    w.event(1, &kernel_half());
    w.access(1, KERNEL, Access::Fetch).unwrap();
    assert_eq!(w.walk(1, KERNEL, None).unwrap().order, PageOrder::P4K);

    // Memory of programs is not the kernel's, whatever its file.
    let mut w = World::new(&desc(PolicyDesc::linux_4k(), 64), 64);
    w.event(1, &mmap_file(BASE, HUGE, Prot::RX, true, "[kernel]", 0));
    w.access(1, BASE, Access::Fetch).unwrap();
    assert_eq!(w.walk(1, BASE, None).unwrap().order, PageOrder::P4K);
}

#[test]
fn other_sizes_are_refused_by_key() {
    let error = refusal(&desc(sized(PolicyDesc::linux_4k(), PageOrder::P1G), 64), 64);
    assert!(error.contains("linux.kernel_page") && error.contains("4K or 2M"), "{error}");
}
