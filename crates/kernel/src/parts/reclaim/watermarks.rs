//! Reclaim *between watermarks*: kswapd, which runs beside the programs (mm/vmscan.c, mm/page_alloc.c).
//!
//! ```text
//! free frames
//!    high ---------------------------.--------  the daemon stops here
//!                                   /
//!    low  ------------.            /
//!                      \__________/             an allocation leaves fewer: the daemon begins
//!    min  ------------------------------------
//! ```

use crate::parts::part::{Part, Wrong};
use crate::parts::settings::ReclaimSettings;
use crate::parts::traits::Reclaim;
use mmulab_addr::BASE_BYTES;

/// `vm.watermark_scale_factor` as Linux has it at boot.
const SCALE_FACTOR: u16 = 10;

/// Watermarks, in base frames, and whether the daemon has given up.
#[derive(Clone, Debug)]
pub(crate) struct Watermarks {
    low: u64,
    high: u64,
    gave_up: bool,
}

impl Part<ReclaimSettings> for Watermarks {
    const NAME: &'static str = "watermarks";
    const ABOUT: &'static str =
        "By a daemon as soon as fewer frames are free than the low watermark, up to the high one: kswapd.";

    /// For a memory of `frames` base frames: `calculate_min_free_kbytes` and `__setup_per_zone_wmarks`, with one zone.
    /// khugepaged, which raises the first, is left out.
    fn new(settings: &ReclaimSettings) -> Result<Self, Wrong> {
        let &ReclaimSettings { scale_factor, frames } = settings;
        let kib = frames * BASE_BYTES / 1024;
        let min = (kib * 16).isqrt().clamp(128, 256 << 10) * 1024 / BASE_BYTES;
        let scale = u64::from(scale_factor.unwrap_or(SCALE_FACTOR));
        let apart = (min / 4).max(frames * scale / 10_000);
        Ok(Self { low: min + apart, high: min + 2 * apart, gave_up: false })
    }
}

impl Reclaim for Watermarks {
    #[inline]
    fn wanted(&mut self, free: u64) -> u64 {
        if free >= self.low {
            self.gave_up = false;
            return 0;
        }
        if self.gave_up { 0 } else { self.high - free }
    }

    /// With nothing left to drop, the daemon sleeps until memory was freed (`kswapd_failures`, which Linux lets grow to
    /// 16 first: each such run would find nothing here).
    fn reclaimed(&mut self, frames: u64) {
        self.gave_up = frames == 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watermarks(memory: u64) -> Watermarks {
        Watermarks::new(&ReclaimSettings { scale_factor: None, frames: memory / BASE_BYTES }).unwrap()
    }

    /// Worked out by hand for 4 GiB: sqrt(4 Mi KiB x 16) = 8192 KiB = 2048 frames; a quarter is 512, a thousandth of
    /// memory 1048.
    #[test]
    fn watermarks_are_those_of_linux() {
        let marks = watermarks(4 << 30);
        assert_eq!((marks.low, marks.high), (2048 + 1048, 2048 + 2 * 1048));
        let marks = watermarks(64 << 20);
        assert_eq!((marks.low, marks.high), (256 + 64, 256 + 128));
    }

    #[test]
    fn the_daemon_fills_up_to_the_high_watermark_and_sleeps_when_it_finds_nothing() {
        let mut marks = watermarks(64 << 20);
        assert_eq!(marks.wanted(320), 0);
        assert_eq!(marks.wanted(319), 384 - 319);
        marks.reclaimed(0);
        assert_eq!(marks.wanted(100), 0, "it has given up");
        assert_eq!(marks.wanted(320), 0);
        assert_eq!(marks.wanted(300), 84, "memory was freed: it tries again");
    }
}
