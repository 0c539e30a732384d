//! Counters that results of most machines leave out, because those do not have what they count.

/// Leaves a counter out of results of machines that do not have what it counts.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}
