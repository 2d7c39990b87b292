//! An account: charges for what passes, more for what is marked, and changes nothing. Marks are worth having, so somebody has to
//! keep all from marking everything; a price on marks does, and where the network is not loaded a marking engine marks
//! little, so that little is paid. The charge is what usage-based prices measure already, link utilization over fixed intervals, by
//! colour.
//!
//! Source: Feng, section 6.1 ("charged based on link utilization measured over fixed time intervals ... extend this pricing model to
//! levy higher prices for the high priority traffic"), sections 5.9 and 6.4 (prices from marking rates).
//! Deviations:
//! - No price is printed. By default only marks cost something, one unit a megabyte: then the charge is the marked volume, from
//!   which [`displaced`](super::displaced) tells what others lost.
//! - Of three colours (RFC 2597) green is marked, and the others are not.
//! - An account acts on packets only: intervals in which none passed are accounted for when the next one does.

use alloc::borrow::Cow;
use alloc::format;

use tidegate_packet::{Colour, Packet};
use tidegate_parameters::{Check, Report, bound, parameters};
use tidegate_units::{Span, Time};

use super::{Conditioned, Marker};
use crate::Variable;

/// What a megabyte may cost.
#[derive(Clone, Copy, Debug)]
struct Price;

impl Check<f64> for Price {
    fn check(&self, key: &str, price: &f64, report: &mut Report<'_>) {
        if !(*price >= 0.0 && price.is_finite()) {
            report.say(key, format!("{price} is no price"), "0 or more for a megabyte");
        }
    }

    fn allowed(&self) -> Cow<'static, str> {
        Cow::Borrowed("0 or more")
    }

    fn number(&self) -> Cow<'static, str> {
        Cow::Borrowed("a number, 0 or more")
    }
}

parameters! {
    /// # Account of marked traffic
    ///
    /// Charges for what passes, more for what is marked (green), and changes nothing. With prices of 0 and 1 the charge is the
    /// marked volume in megabytes; beside m connections that mark nothing, these lost m / (m + 1) of it.
    ///
    /// Source: thesis of Feng, sections 6.1 and 6.4; MacKie-Mason and Varian 1995.
    #[derive(Copy)]
    pub struct AccountConfig {
        /// What a megabyte costs that is not marked. Source: assumed.
        price: f64 = 0.0 => Price;
        /// What a megabyte costs that is marked. Source: assumed; thesis of Feng, section 6.1 (higher).
        marked_price: f64 = 1.0 => Price;
        /// Over how long utilization is measured, for `charge_per_s`. Source: assumed; thesis of Feng, section 6.1 (fixed
        /// intervals).
        interval: Span = Span::from_secs(1) => bound::DURATION;
    }
}

impl AccountConfig {
    /// An empty account, whose first interval begins at `now`.
    pub fn build(&self, now: Time) -> Account {
        assert!(!self.interval.is_zero(), "utilization is measured over some time");
        Account { began: now, present: [0; 2], last: 0.0, total: 0.0, config: *self }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Account {
    /// When the present interval began.
    began: Time,
    /// Bytes in it: marked, not marked.
    present: [u64; 2],
    /// What the interval before it cost.
    last: f64,
    /// What all intervals before it cost.
    total: f64,
    config: AccountConfig,
}

impl Marker for Account {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("charge", "What passed has cost since the start."),
                Variable::new(
                    "charge_per_s",
                    "What passed in the last interval of the account cost, per second.",
                ),
            ]
        }
    }

    #[inline]
    fn on_packet(&mut self, packet: &mut Packet, now: Time) -> Conditioned {
        self.close_until(now);
        let is_unmarked = packet.dscp.colour() != Colour::Green;
        self.present[usize::from(is_unmarked)] += u64::from(packet.wire_bytes);
        Conditioned::Pass
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "charge" => Some(self.total + charge(self.present, &self.config)),
            "charge_per_s" => Some(self.last / self.config.interval.as_secs_f64()),
            _ => None,
        }
    }
}

impl Account {
    /// Closes the intervals that ended by `now`.
    fn close_until(&mut self, now: Time) {
        let ended = now.since(self.began).as_nanos() / self.config.interval.as_nanos();
        if ended == 0 {
            return;
        }
        let cost = charge(self.present, &self.config);
        self.total += cost;
        self.last = if ended == 1 { cost } else { 0.0 };
        self.present = [0; 2];
        self.began = self.began.saturating_add(self.config.interval * ended);
    }
}

/// What `[marked, unmarked]` bytes cost (Feng, section 6.1).
fn charge(bytes: [u64; 2], prices: &AccountConfig) -> f64 {
    (bytes[0] as f64 * prices.marked_price + bytes[1] as f64 * prices.price) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tidegate_packet::{Dscp, FlowId};

    const PRICES: AccountConfig =
        AccountConfig { price: 0.25, marked_price: 2.0, interval: Span::from_millis(100) };

    fn pass(account: &mut Account, dscp: Dscp, bytes: u32, millis: u64) {
        let mut packet = Packet { dscp, ..Packet::new(0, FlowId(0), bytes) };
        let said = account.on_packet(&mut packet, Time::ZERO + Span::from_millis(millis));
        assert!(matches!(said, Conditioned::Pass));
        assert_eq!(packet.dscp, dscp, "an account changes nothing");
    }

    #[test]
    fn a_mark_costs_its_price_and_the_rest_its_own() {
        let mut account = PRICES.build(Time::ZERO);
        for packet in 0..1000 {
            pass(&mut account, if packet % 4 == 0 { Dscp::AF11 } else { Dscp::BEST_EFFORT }, 1000, packet);
        }
        // A quarter of a megabyte at 2, three quarters at 0.25.
        assert!((account.variable("charge").expect("it has one") - 0.6875).abs() < 1e-12);
        assert!((account.variable("charge_per_s").expect("it has one") - 0.6875).abs() < 1e-9);
    }

    #[test]
    fn by_default_the_charge_is_the_marked_volume() {
        let mut account = AccountConfig::default().build(Time::ZERO);
        for packet in 0..3000 {
            pass(&mut account, if packet % 3 == 0 { Dscp::AF11 } else { Dscp::BEST_EFFORT }, 1000, packet);
        }
        assert!((account.variable("charge").expect("it has one") - 1.0).abs() < 1e-12);
    }

    #[test]
    fn after_a_silence_the_last_interval_cost_nothing() {
        let mut account = PRICES.build(Time::ZERO);
        pass(&mut account, Dscp::AF11, 1000, 10);
        pass(&mut account, Dscp::AF11, 1000, 110);
        assert!((account.variable("charge_per_s").expect("it has one") - 0.02).abs() < 1e-12);
        pass(&mut account, Dscp::AF11, 1000, 10_000);
        assert_eq!(account.variable("charge_per_s"), Some(0.0));
        assert!((account.variable("charge").expect("it has one") - 0.006).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_charge_is_that_of_what_passed_however_it_falls_into_intervals(
            packets in prop::collection::vec((0u64..400, 40u32..9000, any::<bool>()), 1..200),
            interval in 1u64..1000,
        ) {
            let mut account = AccountConfig { interval: Span::from_millis(interval), ..PRICES }.build(Time::ZERO);
            let (mut millis, mut before) = (0, 0.0);
            let mut sums = [0u64; 2];
            for (wait, bytes, marked) in packets {
                millis += wait;
                sums[usize::from(!marked)] += u64::from(bytes);
                pass(&mut account, if marked { Dscp::AF11 } else { Dscp::BEST_EFFORT }, bytes, millis);
                let now = account.variable("charge").expect("it has one");
                prop_assert!(now >= before);
                before = now;
            }
            prop_assert!((before - charge(sums, &PRICES)).abs() < 1e-9);
            let names: Vec<&str> = ["charge", "charge_per_s", "tokens_bytes"].into();
            prop_assert_eq!(names.iter().filter(|name| account.variable(name).is_some()).count(), 2);
        }
    }
}
