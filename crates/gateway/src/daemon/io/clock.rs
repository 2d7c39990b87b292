//! The clocks of the daemon: time since the machine started, sleep included, so that sessions age as they do elsewhere; and the wall clock,
//! by which the library stamps handshakes, and the kernel datagrams that come.

use nix::time::{ClockId, clock_gettime};
use tidegate_units::Time;

/// What time it is.
pub fn now() -> Time {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("every Linux has this clock");
    Time::from_nanos(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// By how much the wall clock is ahead of [`now`], in nanoseconds: what changes when somebody sets it.
pub fn wall_offset_ns() -> i64 {
    let wall = clock_gettime(ClockId::CLOCK_REALTIME).expect("every Linux has this clock");
    wall.tv_sec() * 1_000_000_000 + wall.tv_nsec() - now().as_nanos().cast_signed()
}

/// When something was that the kernel stamped at `wall_ns` of the wall clock, which is `offset_ns` ahead of [`now`]. Whoever sets the clock
/// meanwhile makes it any instant.
pub fn of_wall(wall_ns: i64, offset_ns: i64) -> Time {
    Time::from_nanos(u64::try_from(wall_ns.saturating_sub(offset_ns)).unwrap_or(0))
}

/// What processors have spent on this thread.
pub fn thread_time() -> Time {
    let spent = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock");
    Time::from_nanos(spent.tv_sec() as u64 * 1_000_000_000 + spent.tv_nsec() as u64)
}
