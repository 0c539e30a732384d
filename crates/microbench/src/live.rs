//! The benchmark on the processor it runs on: AMD Zen under Linux, with the same counters the paper used.
//!
//! Zen's event 0x45 is "L1 DTLB misses", by what was reloaded and whether the L2 had it. Sources: Linux,
//! `tools/perf/pmu-events/arch/x86/amdzen1` to `amdzen4`, `ls_l1_d_tlb_miss`; paper 1, Table 2.

use crate::{Counted, Kind, PageState, Plan, Target, TargetError};
use mmulab_addr::{BASE_BYTES, PageOrder};
use std::{io, ptr::NonNull};

/// Reads the four counters. The real ones are [`Perf`]; tests have a recording.
pub trait Counters {
    /// What they say now.
    ///
    /// # Errors
    /// The system's error.
    fn read(&mut self) -> io::Result<Counted>;
}

/// The event's number.
const L1_DTLB_MISS: u64 = 0x45;
/// Unit masks of: 4 KB reloaded from memory's tables, 4 KB from the L2, coalesced from the tables, coalesced from the
/// L2.
const UNITS: [u64; 4] = [0x10, 0x01, 0x20, 0x02];
/// The bits of a raw event that hold its unit mask.
const UNIT_SHIFT: u32 = 8;

/// Four performance counters of this thread, user mode only.
pub struct Perf {
    files: [i32; 4],
}

impl Perf {
    /// Opens them.
    ///
    /// # Errors
    /// Why this machine has none: no Zen processor, or no access to its counters.
    pub fn open() -> Result<Self, TargetError> {
        let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let line = |key: &str| {
            let found = about.lines().find(|l| l.starts_with(key)).and_then(|l| l.split_once(':'));
            found.map_or("unknown", |(_, value)| value.trim())
        };
        let family: u32 = line("cpu family").parse().unwrap_or(0);
        // Zen, Zen+ and Zen 2 are family 17h, Zen 3 and 4 are 19h, Zen 5 is 1Ah.
        if line("vendor_id") != "AuthenticAMD" || !matches!(family, 0x17 | 0x19 | 0x1a) {
            return Err(TargetError(format!(
                "live: needs an AMD Zen processor, this one is '{}': name a simulated machine, such as zen3-5900x",
                line("model name")
            )));
        }
        let mut files = [-1; 4];
        for (file, unit) in files.iter_mut().zip(UNITS) {
            match open_raw(L1_DTLB_MISS | unit << UNIT_SHIFT) {
                Ok(opened) => *file = opened,
                Err(error) => {
                    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
                    return Err(TargetError(format!(
                        "live: no counter of L1 DTLB misses ({error}); a virtual machine may have none, and \
                         /proc/sys/kernel/perf_event_paranoid, here '{}', must be 2 or less: name a simulated machine, \
                         such as zen3-5900x",
                        paranoid.trim()
                    )));
                }
            }
        }
        Ok(Self { files })
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        for &file in self.files.iter().filter(|&&file| file >= 0) {
            // SAFETY: the descriptor is ours, and is not used again.
            unsafe { libc::close(file) };
        }
    }
}

impl Counters for Perf {
    fn read(&mut self) -> io::Result<Counted> {
        let mut values = [0u64; 4];
        for (value, &file) in values.iter_mut().zip(&self.files) {
            // SAFETY: eight bytes are read into eight bytes.
            let got = unsafe { libc::read(file, std::ptr::from_mut(value).cast(), 8) };
            if got != 8 {
                return Err(io::Error::last_os_error());
            }
        }
        let [l2_miss_4k, l2_hit_4k, l2_miss_coalesced, l2_hit_coalesced] = values;
        Ok(Counted { l2_miss_4k, l2_hit_4k, l2_miss_coalesced, l2_hit_coalesced })
    }
}

/// `struct perf_event_attr` as far as it is used here: version 0 of it (linux/perf_event.h).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const PERF_TYPE_RAW: u32 = 4;
/// `exclude_kernel` and `exclude_hv`.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;

fn open_raw(config: u64) -> io::Result<i32> {
    let size = size_of::<Attributes>() as u32;
    let attributes = Attributes { kind: PERF_TYPE_RAW, size, config, flags: USER_ONLY, ..Attributes::default() };
    // SAFETY: the structure lives through the call; this thread, any processor, no group, closed on exec.
    let file = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, 8u64) };
    if file < 0 { Err(io::Error::last_os_error()) } else { Ok(file as i32) }
}

/// A region of this process, and counters.
pub struct Live<C> {
    counters: C,
    region: Option<Region>,
}

/// Memory mapped for the benchmark.
struct Region {
    mapped: NonNull<u8>,
    mapped_bytes: usize,
    /// The part that is 2 MB aligned.
    start: NonNull<u8>,
    bytes: usize,
    protection: i32,
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nobody has it any more.
        unsafe { libc::munmap(self.mapped.as_ptr().cast(), self.mapped_bytes) };
    }
}

fn failed(what: &str) -> TargetError {
    TargetError(format!("live: {what}: {}", io::Error::last_os_error()))
}

impl<C: Counters> Live<C> {
    /// With these counters.
    pub fn new(counters: C) -> Self {
        Self { counters, region: None }
    }
}

impl Region {
    fn map(bytes: usize) -> Result<Self, TargetError> {
        let large = PageOrder::P2M.bytes() as usize;
        let mapped_bytes = bytes + large;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping wherever the kernel likes.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), mapped_bytes, protection, flags, -1, 0) };
        let mapped = match NonNull::new(mapped.cast::<u8>()) {
            Some(mapped) if mapped.as_ptr().cast() != libc::MAP_FAILED => mapped,
            _ => return Err(failed("mmap")),
        };
        let skip = (large - mapped.as_ptr() as usize % large) % large;
        // SAFETY: `skip` is below 2 MB, which the mapping has beyond `bytes`.
        let start = unsafe { mapped.add(skip) };
        Ok(Self { mapped, mapped_bytes, start, bytes, protection })
    }

    fn page(&self, page: u64) -> *mut u8 {
        let offset = (page * BASE_BYTES) as usize;
        assert!(offset < self.bytes);
        // SAFETY: inside the region, just checked.
        unsafe { self.start.add(offset).as_ptr() }
    }

    fn advise(&self, advice: i32, what: &str) -> Result<(), TargetError> {
        // SAFETY: the region is ours; what it holds does not matter.
        match unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, advice) } {
            0 => Ok(()),
            _ => Err(failed(what)),
        }
    }

    fn protect(&self, start: *mut u8, bytes: usize, protection: i32) -> Result<(), TargetError> {
        // SAFETY: part of the region; nothing but the benchmark's own loads and stores goes there.
        match unsafe { libc::mprotect(start.cast(), bytes, protection) } {
            0 => Ok(()),
            _ => Err(failed("mprotect")),
        }
    }
}

impl<C: Counters> Target for Live<C> {
    fn prepare(&mut self, plan: &Plan) -> Result<Option<String>, TargetError> {
        let mut region = Region::map(plan.region as usize)?;
        // Base pages are what coalesces.
        region.advise(libc::MADV_NOHUGEPAGE, "madvise(MADV_NOHUGEPAGE)")?;
        for page in 0..plan.pages() {
            // SAFETY: the region is writable, and nobody else has a reference into it.
            unsafe { region.page(page).write_volatile(0) };
        }
        if plan.write_protect {
            region.protection = libc::PROT_READ;
            region.protect(region.start.as_ptr(), region.bytes, region.protection)?;
        }
        region.advise(libc::MADV_FREE, "madvise(MADV_FREE)")?;
        self.region = Some(region);
        Ok(Some(
            "live: whether the region is contiguous in memory is this kernel's affair; an i flushes by two mprotects, \
             for INVLPG is the kernel's; A and M bits are not told"
                .into(),
        ))
    }

    #[inline]
    fn perform(&mut self, kind: Kind, page: u64) {
        let Some(region) = &self.region else { return };
        let at = region.page(page);
        match kind {
            // SAFETY: the page is mapped and readable.
            Kind::Read => drop(std::hint::black_box(unsafe { at.read_volatile() })),
            // SAFETY: plans with stores to write-protected regions are refused.
            Kind::Write => unsafe { at.write_volatile(1) },
            Kind::Invalidate => {
                // Taking rights away flushes the one page; giving them back need not.
                let less = if region.protection == libc::PROT_READ { libc::PROT_NONE } else { libc::PROT_READ };
                let done = region.protect(at, BASE_BYTES as usize, less);
                // Refused, the flush is missing; the rights are then what they were.
                let _ = done.and_then(|()| region.protect(at, BASE_BYTES as usize, region.protection));
            }
        }
    }

    fn sample(&mut self) -> Result<Counted, TargetError> {
        self.counters.read().map_err(|error| TargetError(format!("live: reading the counters: {error}")))
    }

    fn pages(&mut self) -> Result<Vec<PageState>, TargetError> {
        let Some(region) = &self.region else { return Ok(Vec::new()) };
        let mut resident = vec![0u8; region.bytes / BASE_BYTES as usize];
        // SAFETY: one byte for each page of the region.
        if unsafe { libc::mincore(region.start.as_ptr().cast(), region.bytes, resident.as_mut_ptr()) } != 0 {
            return Err(failed("mincore"));
        }
        Ok(resident.iter().map(|&r| PageState { valid: r & 1 == 1, accessed: None, modified: None }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Program, run};

    /// What the counters of a 5900X might say, a reading a sample.
    struct Recorded(std::vec::IntoIter<[u64; 4]>);

    impl Counters for Recorded {
        fn read(&mut self) -> io::Result<Counted> {
            let [l2_miss_4k, l2_hit_4k, l2_miss_coalesced, l2_hit_coalesced] =
                self.0.next().ok_or_else(|| io::Error::other("the recording is over"))?;
            Ok(Counted { l2_miss_4k, l2_hit_4k, l2_miss_coalesced, l2_hit_coalesced })
        }
    }

    /// The same words, on real memory, with recorded counters.
    #[test]
    fn the_live_path_runs_with_recorded_counters() {
        let plan = Plan { group: 4, region: 2 << 20, ..Plan::default() };
        let program = Program::parse("r0 r1 r2 r3: w0: i1 r1", 4).unwrap();
        let readings = vec![[100, 7, 0, 0], [612, 8, 128, 0], [612, 9, 128, 0], [740, 9, 128, 2]];
        let mut live = Live::new(Recorded(readings.clone().into_iter()));
        let report = run(&mut live, &plan, &program, true).unwrap();
        let counted: Vec<_> = report.samples.iter().map(|s| s.counted).collect();
        let of = |l2_miss_4k, l2_hit_4k, l2_miss_coalesced, l2_hit_coalesced| Counted {
            l2_miss_4k,
            l2_hit_4k,
            l2_miss_coalesced,
            l2_hit_coalesced,
        };
        assert_eq!(counted, [of(512, 1, 128, 0), of(0, 1, 0, 0), of(128, 0, 0, 2)]);
        let pages = report.pages.unwrap();
        assert_eq!(pages.len(), 512);
        assert!(pages.iter().all(|p| p.accessed.is_none() && p.modified.is_none()));
        // What was stored is there, in the pages that were stored to.
        let region = live.region.as_ref().unwrap();
        // SAFETY: mapped and readable.
        let byte = |page| unsafe { region.page(page).read_volatile() };
        assert_eq!((byte(0), byte(1), byte(4)), (1, 0, 1));
        let mut short = Live::new(Recorded(vec![readings[0], readings[1]].into_iter()));
        let error = run(&mut short, &plan, &program, false).unwrap_err();
        assert_eq!(error.0, "live: reading the counters: the recording is over");
    }

    #[test]
    fn a_write_protected_region_can_be_read_and_flushed() {
        let plan = Plan { group: 4, region: 2 << 20, write_protect: true, ..Plan::default() };
        let program = Program::parse("r0 i0 r0", 4).unwrap();
        let mut live = Live::new(Recorded(vec![[0; 4], [1; 4]].into_iter()));
        assert_eq!(run(&mut live, &plan, &program, false).unwrap().samples.len(), 1);
    }

    /// Either there are counters, or it says why not.
    #[test]
    fn without_counters_it_says_so() {
        if let Err(error) = Perf::open() {
            assert!(error.0.starts_with("live: ") && error.0.contains("name a simulated machine"), "{error}");
        }
    }
}
