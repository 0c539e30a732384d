//! Time that does not pass while others have the core.

use std::time::{Duration, Instant};

/// The time this thread ran while it did `work`; where the system does not tell, the time that passed.
pub fn time_of(work: impl FnOnce()) -> Duration {
    let (start, before) = (Instant::now(), on_cpu());
    work();
    on_cpu().zip(before).map_or(start.elapsed(), |(after, before)| after - before)
}

/// How long this thread has run: the first number of schedstat (Linux, Documentation/scheduler/sched-stats.rst).
fn on_cpu() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
