//! Refusals of policy files whose parts contradict each other, each under the key to change.

use super::contiguous::ContiguousKind;
use super::daemon::{DaemonKind, SMALLEST_BLOCK};
use super::desc::{PromotionDesc, PromotionTime};
use super::fault_size::FaultSizeKind;
use super::hints::HintSource;
use super::placement::PlacementKind;
use super::placement::reservation::Reservation;
use super::promotion::PromotionKind;
use super::reclaim::ReclaimKind;
use super::recovery::RecoveryDesc;
use super::settings::Served;
use super::zeroing::ZeroingKind;
use crate::desc::PolicyDesc;
use crate::linux::desc::ThpEnabled;
use mmulab_addr::PageOrder;
use mmulab_frames::MemoryDesc;
use mmulab_pagetable::TableDesc;

/// A key of the description, what is wrong with it, and what to do.
pub(crate) type Contradiction = (String, String);

/// Whether the parts of a policy of kind `linux` can work together on a page table and a memory.
///
/// # Errors
/// The first contradiction.
pub(crate) fn check(desc: &PolicyDesc, table: &TableDesc, memory: &MemoryDesc) -> Result<(), Contradiction> {
    sizes(desc, table, memory)?;
    by(desc)?;
    reach(desc)?;
    placement(desc, memory.bytes())?;
    zeroing(desc)?;
    reclaim(desc)?;
    promotion(desc, table)?;
    contiguous(desc, table)?;
    hints(desc)
}

fn wrong<T>(key: &str, message: impl Into<String>) -> Result<T, Contradiction> {
    Err((key.into(), message.into()))
}

/// The largest block that a buddy allocator can be described with (`memory.max_order`).
const LARGEST_BLOCK: u8 = 13;

/// A size above 2M that a fault can map: one page of the table, whose frames the allocator can have in one piece.
fn giant(size: PageOrder, table: &TableDesc, memory: &MemoryDesc) -> Result<(), Contradiction> {
    if !table.has_leaf(size) {
        return wrong(
            "fault.sizes",
            format!(
                "the machine's page table has no page of {size}, and blocks of base pages end at 2M: give 8K to 2M"
            ),
        );
    }
    if size.get() <= LARGEST_BLOCK && size.get() > memory.max_order {
        let (order, has) = (size.get(), memory.max_order);
        return wrong(
            "fault.sizes",
            format!(
                "{size} is larger than any block of the allocator, whose memory.max_order is {has}: set it to {order}"
            ),
        );
    }
    Ok(())
}

fn sizes(desc: &PolicyDesc, table: &TableDesc, memory: &MemoryDesc) -> Result<(), Contradiction> {
    let sizes = desc.fault.as_ref().map_or(&[][..], |fault| &fault.sizes);
    for (i, &size) in sizes.iter().enumerate() {
        if size == PageOrder::P4K {
            return wrong("fault.sizes", "4K is the base page, which every fault falls back to: remove it");
        }
        if size > PageOrder::P2M {
            giant(size, table, memory)?;
        }
        if sizes[..i].contains(&size) {
            return wrong("fault.sizes", format!("{size} is given twice: remove one"));
        }
    }
    Ok(())
}

fn by(desc: &PolicyDesc) -> Result<(), Contradiction> {
    match desc.fault.as_ref().and_then(|fault| fault.by) {
        Some(FaultSizeKind::Base) | None => Ok(()),
        Some(_) if desc.fault.as_ref().is_some_and(|fault| !fault.sizes.is_empty()) => Ok(()),
        Some(by) => {
            let message = format!("\"{}\" chooses among fault.sizes, which are none: give sizes = [\"2M\"]", by.name());
            wrong("fault.by", message)
        }
    }
}

fn reach(desc: &PolicyDesc) -> Result<(), Contradiction> {
    let Some((fault, reach)) = desc.fault.as_ref().and_then(|fault| Some((fault, fault.reach?))) else { return Ok(()) };
    if reach.0 == 0 {
        return wrong("fault.reach", "0 reaches nothing: remove it, or give the bytes that the TLBs reach, as in 80M");
    }
    match fault.sizes.is_empty() {
        true => {
            wrong("fault.reach", "chooses between base pages and fault.sizes, which are none: give sizes = [\"2M\"]")
        }
        false => Ok(()),
    }
}

fn placement(desc: &PolicyDesc, memory_bytes: u64) -> Result<(), Contradiction> {
    let part = desc.placement.clone().unwrap_or_default();
    if part.frames != PlacementKind::Reservation {
        return match part.levels.is_empty() {
            true => Ok(()),
            false => wrong("placement.levels", "only frames = \"reservation\" has levels: remove them, or set that"),
        };
    }
    if part.levels.is_empty() {
        return wrong("placement.levels", "reservations need sizes: give levels = [\"2M\"]");
    }
    if let Err(message) = Reservation::check(&part.levels, memory_bytes) {
        return wrong("placement.levels", message);
    }
    match desc.fault.as_ref().is_some_and(|fault| !fault.sizes.is_empty()) {
        true => wrong(
            "fault.sizes",
            "placement.frames = \"reservation\" gives base pages one by one: leave sizes empty, or use \"buddy\"",
        ),
        false => Ok(()),
    }
}

fn zeroing(desc: &PolicyDesc) -> Result<(), Contradiction> {
    let part = desc.zeroing.clone().unwrap_or_default();
    let keys = [("zeroing.sleep_ms", part.sleep_ms), ("zeroing.pages_per_wake", part.pages_per_wake.map(u64::from))];
    for (key, value) in keys {
        match value {
            Some(_) if part.when != ZeroingKind::Ahead => {
                return wrong(key, "no daemon runs: remove it, or set when = \"ahead\"");
            }
            Some(0) => return wrong(key, "must be at least 1"),
            Some(_) | None => {}
        }
    }
    Ok(())
}

fn reclaim(desc: &PolicyDesc) -> Result<(), Contradiction> {
    match &desc.reclaim {
        Some(part) if part.scale_factor.is_some() && part.when != ReclaimKind::Watermarks => {
            wrong("reclaim.scale_factor", "there are no watermarks: remove it, or set when = \"watermarks\"")
        }
        Some(_) | None => Ok(()),
    }
}

fn promotion(desc: &PolicyDesc, table: &TableDesc) -> Result<(), Contradiction> {
    let part = desc.promotion.clone().unwrap_or_default();
    let is_at_fault = matches!(part.when, PromotionTime::Full | PromotionTime::Threshold);
    let is_by_daemon = part.when == PromotionTime::Daemon;
    if part.size != PageOrder::P2M && !is_at_fault {
        let to = part.size;
        return wrong("promotion.size", format!("only faults promote to {to}: give 2M, or set when = \"full\""));
    }
    if part.when != PromotionTime::Never && !table.has_leaf(part.size) {
        return wrong("promotion.size", format!("the machine's page table has no page of {}", part.size));
    }
    if is_by_daemon && part.by == Some(DaemonKind::Trident) && !table.has_leaf(PageOrder::P1G) {
        return wrong("promotion.by", "trident promotes to 1G, which the machine's page table has no page of");
    }
    let is_coala = is_by_daemon && part.by == Some(DaemonKind::CoalaKhugepaged);
    match part.how {
        Some(PromotionKind::ByDaemon) if is_coala => {
            return wrong("promotion.how", "coala-khugepaged promotes in place first: remove it, or set \"in-place\"");
        }
        Some(PromotionKind::ByDaemon) if !is_by_daemon => {
            return wrong("promotion.how", "a daemon promotes by copy: set when = \"daemon\"");
        }
        Some(PromotionKind::InPlace) if !is_at_fault && !is_coala => {
            return wrong("promotion.how", "faults promote in place: set when = \"full\" or \"threshold\"");
        }
        Some(_) | None => {}
    }
    if part.by.is_some() && !is_by_daemon {
        return wrong("promotion.by", "no daemon runs: remove it, or set when = \"daemon\"");
    }
    let is_hawk_eye = is_by_daemon && part.by == Some(DaemonKind::HawkEye);
    serves(&part, is_coala, is_hawk_eye)?;
    let is_ranger = is_by_daemon && part.by == Some(DaemonKind::Ranger);
    if part.smallest_mapping.is_some() && !is_ranger {
        return wrong("promotion.smallest_mapping", "only ranger has such a limit: remove it, or set by to that");
    }
    if part.fair && !(is_by_daemon && part.by == Some(DaemonKind::Ingens)) {
        return wrong("promotion.fair", "only ingens has fair shares: remove it, or set by to that");
    }
    if let Some(recovery) = &part.recovery {
        self::recovery(recovery, is_hawk_eye)?;
    }
    let takes_sizes = desc.hints.as_ref().is_some_and(|hints| hints.from.takes_sizes());
    if is_coala && part.serves.unwrap_or_default() == Served::Hinted && !takes_sizes {
        return wrong(
            "promotion.serves",
            "waits for hints of page sizes, which nobody gives: set hints.from = \"page-sizes\" or \"leshy\", or \
             \"all\" here",
        );
    }
    if part.daemon.is_some() && !is_by_daemon {
        return wrong("promotion.daemon", "no daemon runs: remove this section, or set when = \"daemon\"");
    }
    let makes_mthp = part.daemon.as_ref().is_some_and(|daemon| daemon.mthp);
    if makes_mthp && part.by.unwrap_or_default() != DaemonKind::Khugepaged {
        return wrong("promotion.daemon.mthp", "only khugepaged makes these sizes: remove it, or by");
    }
    let faults = desc.fault.as_ref().map_or(&[][..], |fault| &fault.sizes);
    if makes_mthp && mthp_sizes(faults).next().is_none() {
        return wrong("promotion.daemon.mthp", "faults map no size from 16K to 1M: give fault.sizes = [\"64K\"]");
    }
    if part.threshold.is_some() != (part.when == PromotionTime::Threshold) {
        return wrong(
            "promotion.threshold",
            "goes with when = \"threshold\", which needs it: the pages that are enough",
        );
    }
    let all = part.size.base_pages() as u32;
    if part.threshold.is_some_and(|pages| pages == 0 || pages >= all) {
        return wrong("promotion.threshold", format!("must be 1 to {} pages: {} has {all}", all - 1, part.size));
    }
    if part.needs_accessed && part.when != PromotionTime::Full {
        return wrong("promotion.needs_accessed", "only when = \"full\" looks at accessed bits: remove it");
    }
    if part.enabled != ThpEnabled::Always && !is_by_daemon {
        return wrong("promotion.enabled", "says where a daemon looks: remove it, or set when = \"daemon\"");
    }
    let placement = desc.placement.clone().unwrap_or_default();
    let is_reserved = placement.frames == PlacementKind::Reservation;
    let is_in_place = is_at_fault && part.how.unwrap_or(PromotionKind::InPlace) == PromotionKind::InPlace;
    if is_in_place && !(is_reserved && placement.levels.iter().any(|&level| level >= part.size)) {
        return wrong(
            "promotion.when",
            format!(
                "promotion in place to {0} needs frames that lie together: set placement.frames = \"reservation\" and \
                 placement.levels = [\"{0}\"]",
                part.size
            ),
        );
    }
    if is_by_daemon && is_reserved {
        return wrong(
            "promotion.when",
            "reserved blocks are promoted in place: set when = \"full\", or placement.frames = \"buddy\"",
        );
    }
    Ok(())
}

/// Which processes a daemon serves.
fn serves(part: &PromotionDesc, is_coala: bool, is_hawk_eye: bool) -> Result<(), Contradiction> {
    if part.serves.is_some() && !(is_coala || is_hawk_eye) {
        return wrong(
            "promotion.serves",
            "only coala-khugepaged and hawkeye choose processes: remove it, or set by to one of them",
        );
    }
    if part.serves == Some(Served::Hinted) && is_hawk_eye {
        return wrong("promotion.serves", "hawkeye takes no hints of page sizes: give \"all\" or \"enabled\"");
    }
    if !part.processes.is_empty() && part.serves != Some(Served::Enabled) {
        return wrong("promotion.processes", "the daemon has no switch: remove it, or set serves = \"enabled\"");
    }
    match part.processes.iter().enumerate().find(|(i, pid)| part.processes[..*i].contains(pid)) {
        Some((_, pid)) => wrong("promotion.processes", format!("{pid} is given twice: remove one")),
        None => Ok(()),
    }
}

/// Of the sizes of faults, those below 2 MiB that khugepaged can make.
pub(crate) fn mthp_sizes(faults: &[PageOrder]) -> impl Iterator<Item = PageOrder> {
    faults.iter().copied().filter(|&size| (SMALLEST_BLOCK..PageOrder::P2M).contains(&size))
}

fn recovery(desc: &RecoveryDesc, is_hawk_eye: bool) -> Result<(), Contradiction> {
    let RecoveryDesc { above_percent, below_percent, zero_pages } = *desc;
    if !is_hawk_eye {
        return wrong("promotion.recovery", "only hawkeye recovers from bloat: remove it, or set by to that");
    }
    if above_percent > 100 {
        return wrong("promotion.recovery.above_percent", format!("is {above_percent}: give 0 to 100"));
    }
    if below_percent > above_percent {
        let message = format!("is {below_percent}: give at most above_percent, which is {above_percent}");
        return wrong("promotion.recovery.below_percent", message);
    }
    let all = PageOrder::P2M.base_pages();
    match (1..=all).contains(&u64::from(zero_pages)) {
        true => Ok(()),
        false => wrong("promotion.recovery.zero_pages", format!("is {zero_pages}: give 1 to {all}")),
    }
}

/// Whether the page table and the other parts leave room for the contiguous bit.
///
/// # Errors
/// The reason against it, if any.
pub(crate) fn contiguous(desc: &PolicyDesc, table: &TableDesc) -> Result<(), Contradiction> {
    let (key, bit) = ("contiguous.bit", desc.contiguous.as_ref().map(|part| part.bit).unwrap_or_default());
    if bit == ContiguousKind::Unused {
        return Ok(());
    }
    if !table.has_leaf(PageOrder::P64K) {
        let kind = table.kind.name();
        return wrong(
            key,
            format!(
                "entries of a page table of kind '{kind}' have no contiguous bit: choose a machine whose table.kind is \
                 'armv8-4k' or 'riscv-sv', or set bit = \"none\""
            ),
        );
    }
    let when = desc.promotion.as_ref().map(|part| part.when).unwrap_or_default();
    match when {
        PromotionTime::Full | PromotionTime::Threshold => wrong(
            key,
            "promotion in place joins base pages by itself: set bit = \"none\", or promotion.when = \"never\" or \
             \"daemon\"",
        ),
        PromotionTime::Never | PromotionTime::Daemon => Ok(()),
    }
}

fn hints(desc: &PolicyDesc) -> Result<(), Contradiction> {
    let goes_by_sizes = desc.promotion.as_ref().is_some_and(|part| part.by == Some(DaemonKind::CoalaKhugepaged));
    if let Some(hints) = &desc.hints
        && hints.from.takes_sizes()
        && !hints.at_faults
        && !goes_by_sizes
    {
        return wrong(
            "hints.from",
            "no part goes by page sizes: set at_faults = true, or promotion.by = \"coala-khugepaged\"",
        );
    }
    if desc.hints.as_ref().is_some_and(|hints| hints.leshy.is_some() && hints.from != HintSource::Leshy) {
        return wrong("hints.leshy", "the profiler gives no hints here: set hints.from = \"leshy\", or remove it");
    }
    if let Some(hints) = &desc.hints
        && hints.at_faults
    {
        if hints.from != HintSource::PageSizes {
            return wrong("hints.at_faults", "faults go by page sizes alone: set from = \"page-sizes\", or remove it");
        }
        if desc.fault.as_ref().is_none_or(|fault| fault.sizes.is_empty()) {
            return wrong("hints.at_faults", "faults map no larger pages: set fault.sizes = [\"2M\"], or remove it");
        }
    }
    if let Some(hints) = &desc.hints
        && (hints.giant || hints.demote)
        && !(hints.from.takes_sizes() && goes_by_sizes)
    {
        let key = if hints.giant { "hints.giant" } else { "hints.demote" };
        return wrong(
            key,
            "is for hints that a daemon goes by: set from = \"page-sizes\" and promotion.by = \"coala-khugepaged\"",
        );
    }
    let gives = desc.hints.as_ref().is_none_or(|hints| hints.from != HintSource::NoHints);
    let fault = desc.fault.as_ref().is_some_and(|fault| fault.enabled == ThpEnabled::Madvise);
    let promotion = desc.promotion.as_ref().is_some_and(|promotion| promotion.enabled == ThpEnabled::Madvise);
    let key = match (fault, promotion) {
        (true, _) => "fault.enabled",
        (false, true) => "promotion.enabled",
        (false, false) => return Ok(()),
    };
    match gives {
        true => Ok(()),
        false => wrong(key, "waits for hints that nobody gives: set hints.from = \"madvise\", or \"always\" here"),
    }
}
