//! Memory that is used soon: a hint to the computer that simulates, without effect on any result.

/// Has the host bring the line at `at` near.
#[inline(always)]
pub(crate) fn bring<T>(at: *const T) {
    // SAFETY: a prefetch reads nothing the program could see, and any address is allowed.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
