//! Refusals of policy files whose parts contradict each other, each under the key to change.

use super::desc::{PromotionTime, PromotionWay};
use super::hints::HintSource;
use super::placement::{PlacementKind, Reservation};
use super::zeroing::ZeroingKind;
use crate::desc::PolicyDesc;
use crate::linux::desc::ThpEnabled;
use mmulab_addr::PageOrder;
use mmulab_pagetable::TableDesc;

/// A key of the description, what is wrong with it, and what to do.
pub(crate) type Contradiction = (String, String);

/// Whether the parts of a policy of kind `linux` can work together on a page table and a memory.
///
/// # Errors
/// The first contradiction.
pub(crate) fn check(desc: &PolicyDesc, table: &TableDesc, memory_bytes: u64) -> Result<(), Contradiction> {
    sizes(desc)?;
    placement(desc, memory_bytes)?;
    zeroing(desc)?;
    promotion(desc, table)?;
    hints(desc)
}

fn wrong<T>(key: &str, message: impl Into<String>) -> Result<T, Contradiction> {
    Err((key.into(), message.into()))
}

fn sizes(desc: &PolicyDesc) -> Result<(), Contradiction> {
    let sizes = desc.fault.as_ref().map_or(&[][..], |fault| &fault.sizes);
    for (i, &size) in sizes.iter().enumerate() {
        if size == PageOrder::P4K {
            return wrong("fault.sizes", "4K is the base page, which every fault falls back to: remove it");
        }
        if size > PageOrder::P2M {
            return wrong("fault.sizes", format!("{size} is larger than the blocks that faults take: give 8K to 2M"));
        }
        if sizes[..i].contains(&size) {
            return wrong("fault.sizes", format!("{size} is given twice: remove one"));
        }
    }
    Ok(())
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
    match part.how {
        Some(PromotionWay::InPlace) if !is_at_fault => {
            return wrong("promotion.how", "faults promote in place: set when = \"full\" or \"threshold\"");
        }
        Some(PromotionWay::Copy) if !is_by_daemon => {
            return wrong("promotion.how", "a daemon promotes by copy: set when = \"daemon\"");
        }
        Some(PromotionWay::InPlace | PromotionWay::Copy) | None => {}
    }
    if part.daemon.is_some() && !is_by_daemon {
        return wrong("promotion.daemon", "no daemon runs: remove this section, or set when = \"daemon\"");
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
    if is_at_fault && !(is_reserved && placement.levels.iter().any(|&level| level >= part.size)) {
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

fn hints(desc: &PolicyDesc) -> Result<(), Contradiction> {
    let gives = desc.hints.as_ref().is_none_or(|hints| hints.from != HintSource::Nobody);
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
