//! The ring of a network card: packets that have left the queue and wait where no queue manager sees them. Byte queue limits keep
//! there what the link needs between two looks at the queue, and no more; without them a ring of hundreds of packets makes whatever
//! manages the queue in front of it useless.
//!
//! Source: Linux, `lib/dynamic_queue_limits.c` (Herbert 2011); ns-3.44, `DynamicQueueLimits` and `NetDeviceQueueInterface`.
//! Deviations:
//! - A packet counts until its transmission starts, as in ns-3. A card reports a packet as done after that, and several at once.
//! - The queue's manager hears that the link is idle when the ring is empty too. In Linux RED is idle as soon as its own queue is.

use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{Span, Time};

parameters! {
    /// # Network card
    ///
    /// Between the queue and the link is the ring of a card, which takes packets as they come and gives none back.
    ///
    /// Source: Linux (`dynamic_queue_limits`).
    #[derive(Copy)]
    pub struct DeviceConfig {
        /// How many packets the ring holds, besides the one in transmission. Source: assumed.
        ring: u32 = 256 => Bound::between(1, 65_536).saying("a ring of ", " packets");
        /// Whether byte queue limits hold the ring to what the link needs.
        byte_limits: bool = true;
        /// How long there must have been slack before the limit falls by it. Source: Linux (`slack_hold_time`).
        hold: Span = Span::from_secs(1) => bound::DURATION;
    }
}

impl DeviceConfig {
    /// The law of its ring.
    pub const fn build(&self) -> Device {
        Device {
            config: *self,
            packets: 0,
            queued: 0,
            completed: 0,
            limit: 0,
            allowed: 0,
            last_queued_bytes: 0,
            before: Before { over: 0, queued: 0, last_queued_bytes: 0 },
            slack: Slack { lowest: u64::MAX, since: Time::ZERO },
        }
    }
}

/// Whether the ring takes another packet. Holds no packets: the world calls [`on_queued`](Self::on_queued) for each that moves
/// there and [`on_completed`](Self::on_completed) for each whose transmission starts, in the same order.
#[derive(Clone, Debug)]
pub struct Device {
    config: DeviceConfig,
    packets: u32,
    /// Bytes that have ever moved to the ring.
    queued: u64,
    /// Bytes that have ever left it.
    completed: u64,
    /// How many bytes it may hold.
    limit: u64,
    /// Up to where `queued` may go before it stops: `completed` when that was last reported, and the limit.
    allowed: u64,
    last_queued_bytes: u64,
    before: Before,
    slack: Slack,
}

/// How it was when bytes were last completed.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// How far the ring was above its limit.
    over: u64,
    queued: u64,
    last_queued_bytes: u64,
}

/// How much less the ring could have held without running empty.
#[derive(Clone, Copy, Debug)]
struct Slack {
    lowest: u64,
    since: Time,
}

impl Device {
    /// Whether it takes a packet now. One may go beyond the limit of bytes.
    #[inline]
    pub const fn has_room(&self) -> bool {
        self.packets < self.config.ring && (!self.config.byte_limits || self.queued <= self.allowed)
    }

    /// How many bytes it may hold, with byte queue limits.
    pub const fn limit_bytes(&self) -> u64 {
        self.limit
    }

    /// A packet moves to the ring (`dql_queued`).
    #[inline]
    pub const fn on_queued(&mut self, wire_bytes: u32) {
        self.packets += 1;
        self.queued += wire_bytes as u64;
        self.last_queued_bytes = wire_bytes as u64;
    }

    /// Its first packet leaves it for transmission (`dql_completed`).
    ///
    /// The limit rises where the ring ran empty although it was held back: by what was done since, and by how far it had been
    /// above. It falls, by the least slack of a `hold`, while there is always slack: bytes that were queued before and are still
    /// there. Twice what was done now need not be counted: it may be the same next time.
    pub fn on_completed(&mut self, wire_bytes: u32, now: Time) {
        self.packets -= 1;
        let (completed, done) = (self.completed + u64::from(wire_bytes), u64::from(wire_bytes));
        let over = (self.queued - self.completed).saturating_sub(self.limit);
        let in_progress = self.queued - completed;
        let was_in_progress = self.before.queued > self.completed;
        let has_completed_all_before = completed >= self.before.queued;
        let ran_empty = over > 0 && in_progress == 0 || self.before.over > 0 && has_completed_all_before;
        let mut limit = self.limit;
        if ran_empty {
            limit += completed.saturating_sub(self.before.queued) + self.before.over;
            self.slack = Slack { lowest: u64::MAX, since: now };
        } else if in_progress > 0 && was_in_progress && !has_completed_all_before {
            let slack = (self.limit + self.before.over).saturating_sub(2 * done);
            // Of the last object the part that was below the limit was needed.
            let of_last = match self.before.over {
                0 => 0,
                was_over => self.before.last_queued_bytes.saturating_sub(was_over),
            };
            self.slack.lowest = self.slack.lowest.min(slack.max(of_last));
            if now > self.slack.since + self.config.hold {
                limit = limit.saturating_sub(self.slack.lowest);
                self.slack = Slack { lowest: u64::MAX, since: now };
            }
        }
        // A new limit forgets how far it was above the old one.
        let over = if limit == self.limit { over } else { 0 };
        self.before = Before { over, queued: self.queued, last_queued_bytes: self.last_queued_bytes };
        (self.limit, self.completed, self.allowed) = (limit, completed, completed + limit);
    }

    /// All that it holds is gone: the link went down.
    pub const fn clear(&mut self) {
        self.packets = 0;
        self.completed = self.queued;
        self.allowed = self.completed + self.limit;
        self.before = Before { over: 0, queued: self.queued, last_queued_bytes: 0 };
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    use super::*;

    /// A ring in front of a link that takes 1 us for a byte, behind a queue that always has packets of `sizes`, in turn: what it
    /// holds when a transmission starts, and its limit, both in bytes.
    fn kept_busy(config: DeviceConfig, sizes: &[u32], packets: usize) -> (Device, Vec<(u64, u64)>) {
        let (mut device, mut ring, mut now) = (config.build(), VecDeque::new(), Time::ZERO);
        let mut sizes = sizes.iter().copied().cycle();
        let mut seen = Vec::new();
        for _ in 0..packets {
            while device.has_room() {
                let size = sizes.next().expect("an endless list");
                device.on_queued(size);
                ring.push_back(size);
            }
            let size = ring.pop_front().expect("an empty ring has room");
            device.on_completed(size, now);
            seen.push((ring.iter().map(|&bytes| u64::from(bytes)).sum(), device.limit_bytes()));
            now += Span::from_micros(u64::from(size));
        }
        (device, seen)
    }

    #[test]
    fn without_limits_it_is_filled() {
        let config = DeviceConfig { ring: 7, byte_limits: false, ..DeviceConfig::default() };
        let (_, seen) = kept_busy(config, &[1500], 100);
        assert!(seen.iter().all(|&(held, _)| held == 6 * 1500), "{seen:?}");
    }

    #[test]
    fn with_limits_it_holds_what_keeps_the_link_busy() {
        let (device, seen) = kept_busy(DeviceConfig::default(), &[1500], 5000);
        assert!(device.limit_bytes() <= 2 * 1500, "{}", device.limit_bytes());
        assert!(seen.iter().all(|&(held, _)| held <= 3 * 1500));
    }

    /// Computed apart in Python from `dql_completed`: a cycle of seven packets.
    #[test]
    fn with_little_patience_the_limit_goes_up_and_down_between_one_packet_and_two() {
        let config = DeviceConfig { ring: 3, hold: Span::from_micros(6258), ..DeviceConfig::default() };
        let (_, seen) = kept_busy(config, &[1490], 37);
        let limits: Vec<u64> = seen[30..].iter().map(|&(_, limit)| limit / 1490).collect();
        let mut cycle = [2, 2, 2, 2, 2, 1, 1];
        let is_cycle = (0..7).any(|_| {
            cycle.rotate_left(1);
            limits == cycle
        });
        assert!(is_cycle, "{limits:?}");
    }

    #[test]
    fn small_packets_that_follow_large_ones_do_not_lift_the_limit_without_end() {
        let sizes: Vec<u32> = (0..40).map(|i| if i % 4 == 0 { 1500 } else { 64 }).collect();
        let (device, _) = kept_busy(DeviceConfig::default(), &sizes, 20_000);
        assert!(device.limit_bytes() <= 3 * 1500, "{}", device.limit_bytes());
    }

    #[test]
    fn after_it_was_cleared_it_takes_packets_as_before() {
        let (mut device, _) = kept_busy(DeviceConfig::default(), &[1500], 100);
        device.clear();
        assert!(device.has_room());
        device.on_queued(1500);
        device.on_completed(1500, Time::ZERO + Span::from_secs(9));
        assert!(device.has_room());
    }
}
