//! The half where virtual links end: counts what leaves, detects congestion epochs, and says so once per round trip.
//!
//! Source: sections II.B, III.A and III.B.
//! Deviations:
//! - "Once per T" is kept by a distance from the last feedback: `T` with EEC, which may speak with every packet, and three
//!   quarters of it with IEC, which speaks at control packets half a round trip apart whose distance varies.
//! - In the round-trip version the ingress detects: it has the round-trip time when an answer comes, and telling the egress
//!   first would cost another round trip. The answers carry the sum of all growth of the accumulation.
//! - A delay that is less, by half of epsilon, than any answered before is answered, so that the ingress knows the least
//!   round-trip time (see [`super::MinimumDelay`]).
//! - Losses: the count of what is missing must exceed all that was missing before, so that packets that were merely
//!   overtaken by a control packet count once at most.
//! - A control packet of another incarnation begins a new virtual link, whatever it says. Only the last incarnations that were
//!   replaced do not, for as long as packets of them may still be under way: [`super::OverlayConfig::idle_timeout`].

use alloc::collections::BTreeMap;

use tidegate_packet::{Ecn, Headers, Packet};
use tidegate_units::{Span, Time};

use super::epoch::growth;
use super::wire::{self, Control, Feedback, Message};
use super::{Detection, Epoch, OverlayConfig, TunnelEcn, epsilon_nanos};
use crate::edge::tunnel::decapsulated;
use crate::edge::{Admission, BorderSite, EdgeHalf, EdgeOut, PeerId};

/// So many of the last incarnations of a virtual link are remembered.
const RETIRED_MAX: usize = 8;

/// A virtual link that ends here.
#[derive(Debug)]
struct Incoming {
    /// `w sigma` of this virtual link, bytes.
    sigma: f64,
    /// The last control packet; none yet while only data came.
    last: Option<Control>,
    /// The incarnations before, and when they were replaced; a ring.
    retired: [Option<(u64, Time)>; RETIRED_MAX],
    retired_next: usize,
    /// When it came.
    last_at: Time,
    received_bytes: u64,
    received_packets: u64,
    /// What was received when the last control packet came.
    bytes_at_last: u64,
    /// What was received before the virtual link was opened anew.
    packets_before: u64,
    /// The most packets that were ever missing.
    missing_max: u64,
    /// `nu`, smoothed, bytes per second; none before the first interval.
    nu: Option<f64>,
    /// With EEC only whether it is on, with the round-trip version nothing.
    epoch: Epoch,
    /// The sum of all growth of the accumulation.
    grown: f64,
    /// The delay of the last control packet by two clocks, nanoseconds.
    delay: i64,
    /// The last feedback and the delay when it was sent.
    answered: Option<(u32, i64)>,
    /// The least delay that was answered.
    least_answered: Option<i64>,
    has_loss: bool,
    feedback_sequence: u32,
    last_negative: Option<Time>,
    /// When anything last came.
    last_heard: Time,
}

/// What is known of a virtual link at its egress, for records.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EpochReport {
    /// The accumulation, bytes.
    pub accumulation: f64,
    /// Whether a congestion epoch is on.
    pub in_epoch: bool,
    /// The smoothed output rate, bytes per second.
    pub output_rate: f64,
}

/// See the module.
#[derive(Debug)]
pub struct IecEgress {
    config: OverlayConfig,
    site: BorderSite,
    incoming: BTreeMap<PeerId, Incoming>,
}

impl Incoming {
    fn new(config: &OverlayConfig, sigma: f64, now: Time) -> Self {
        Self {
            sigma,
            last: None,
            retired: [None; RETIRED_MAX],
            retired_next: 0,
            last_at: now,
            received_bytes: 0,
            received_packets: 0,
            bytes_at_last: 0,
            packets_before: 0,
            missing_max: 0,
            nu: None,
            epoch: Epoch::new(config.minimum()),
            grown: 0.0,
            delay: 0,
            answered: None,
            least_answered: None,
            has_loss: false,
            feedback_sequence: 0,
            last_negative: None,
            last_heard: now,
        }
    }

    /// Whether `control` is of another incarnation, or newer than all before of this one. Duplicates and stragglers change
    /// nothing; one that has been silent for `timeout` has none under way.
    fn is_new(&self, control: &Control, timeout: Span, now: Time) -> bool {
        self.last.as_ref().is_none_or(|last| {
            if control.incarnation != last.incarnation {
                return !self.is_retired(control.incarnation, timeout, now);
            }
            control.sequence.wrapping_sub(last.sequence).cast_signed() > 0
                && control.timestamp >= last.timestamp
                && control.sent_bytes >= last.sent_bytes
                && control.sent_packets >= last.sent_packets
        })
    }

    fn is_retired(&self, incarnation: u64, timeout: Span, now: Time) -> bool {
        let is_it = |(retired, at): &(u64, Time)| *retired == incarnation && now.since(*at) <= timeout;
        self.retired.iter().flatten().any(is_it)
    }

    /// The first control packet of a virtual link: counting begins.
    fn begin(&mut self, control: &Control, config: &OverlayConfig, now: Time) {
        let is_another = self.last.is_some();
        if let Some(last) = self.last {
            self.retired[self.retired_next] = Some((last.incarnation, now));
            self.retired_next = (self.retired_next + 1) % RETIRED_MAX;
        }
        // Data that overtook the first control packet is not missing; it was counted there.
        self.packets_before = self.received_packets.saturating_sub(control.sent_packets);
        self.missing_max = control.sent_packets.saturating_sub(self.received_packets - self.packets_before);
        if is_another {
            self.nu = None;
            self.epoch = Epoch::new(config.minimum());
            self.grown = 0.0;
            self.answered = None;
            self.least_answered = None;
            self.has_loss = false;
        }
        self.remember(control, now);
    }

    fn remember(&mut self, control: &Control, now: Time) {
        self.last = Some(*control);
        self.last_at = now;
        self.bytes_at_last = self.received_bytes;
        self.delay = now.as_nanos().cast_signed().wrapping_sub(control.timestamp.as_nanos().cast_signed());
    }

    /// Measures over the interval that `control` ends, and detects with IEC.
    fn on_control(&mut self, control: &Control, config: &OverlayConfig, now: Time) {
        let Some(last) = self.last.filter(|last| last.incarnation == control.incarnation) else {
            self.begin(control, config, now);
            return;
        };
        let arrival = now.since(self.last_at);
        let tau = control.timestamp.since(last.timestamp);
        if arrival.is_zero() || tau.is_zero() {
            return; // no interval yet: the next control packet ends a longer one
        }
        let received = self.received_bytes - self.bytes_at_last;
        let measured = received as f64 / arrival.as_secs_f64();
        let nu = self.nu.map_or(measured, |nu| nu + config.smoothing * (measured - nu));
        self.nu = Some(nu);
        let growth = growth(control.sent_bytes - last.sent_bytes, tau, received, arrival);
        self.grown += growth;
        self.count_losses(control);
        self.remember(control, now);
        if config.detection == Detection::OneWay {
            if let (Some(queueing), Some((sequence, delay))) = (control.queueing, self.answered)
                && sequence == control.echo
            {
                self.epoch.minimum.bound(delay, queueing);
            }
            self.epoch.accumulation.add(growth);
            self.epoch.detect(self.delay, self.sigma, nu, control.rtt, 1.0 - config.beta, now);
        }
    }

    /// Section III.B: packets sent and received, between control packets.
    fn count_losses(&mut self, control: &Control) {
        let received = self.received_packets - self.packets_before;
        let missing = control.sent_packets.saturating_sub(received);
        if missing > self.missing_max {
            self.missing_max = missing;
            self.has_loss = true;
        }
    }

    /// Whether negative feedback is due.
    fn owes_negative(&self, config: &OverlayConfig, now: Time) -> bool {
        let Some(last) = &self.last else { return false };
        let distance = match config.detection {
            Detection::Marks => last.rtt,
            Detection::OneWay | Detection::RoundTrip => Span::from_nanos(last.rtt.as_nanos() / 4 * 3),
        };
        (self.epoch.is_on || self.has_loss)
            && self.nu.is_some()
            && self.last_negative.is_none_or(|at| now.since(at) >= distance)
    }

    /// Whether the ingress wants an answer, or should have one for it to know the least round-trip time.
    fn owes_answer(&self, control: &Control, config: &OverlayConfig) -> bool {
        let is_least = || {
            let margin = self.nu.map_or(0, |nu| epsilon_nanos(self.sigma, nu) / 2);
            self.least_answered.is_none_or(|least| self.delay < least.saturating_sub_unsigned(margin))
        };
        match config.detection {
            Detection::RoundTrip => true,
            Detection::OneWay => control.wants_answer || is_least(),
            Detection::Marks => control.wants_answer,
        }
    }

    /// Tells the ingress.
    fn send(
        &mut self,
        to: PeerId,
        is_negative: bool,
        detection: Detection,
        now: Time,
        out: &mut impl EdgeOut,
    ) {
        let Some(last) = &self.last else { return };
        self.feedback_sequence = self.feedback_sequence.wrapping_add(1);
        self.answered = Some((self.feedback_sequence, self.delay));
        self.least_answered = Some(self.least_answered.map_or(self.delay, |least| least.min(self.delay)));
        let accumulation =
            if detection == Detection::RoundTrip { self.grown } else { self.epoch.accumulation.q };
        let feedback = Feedback {
            incarnation: last.incarnation,
            sequence: self.feedback_sequence,
            timestamp: last.timestamp,
            held: now.since(self.last_at),
            output_rate: self.nu.unwrap_or_default() as u64,
            accumulation: accumulation as i64,
            is_negative,
            in_epoch: self.epoch.is_on,
            has_loss: is_negative && self.has_loss,
        };
        if is_negative {
            self.last_negative = Some(now);
            self.has_loss = false;
        }
        out.send(to, &feedback.encode());
    }
}

impl IecEgress {
    pub(super) const fn new(config: OverlayConfig, site: BorderSite) -> Self {
        Self { config, site, incoming: BTreeMap::new() }
    }

    /// What is known of the virtual link from `ingress`.
    pub fn report(&self, ingress: PeerId) -> Option<EpochReport> {
        self.incoming.get(&ingress).map(|incoming| EpochReport {
            accumulation: incoming.epoch.accumulation.q,
            in_epoch: incoming.epoch.is_on,
            output_rate: incoming.nu.unwrap_or_default(),
        })
    }

    fn incoming(&mut self, from: PeerId, now: Time) -> &mut Incoming {
        let config = &self.config;
        let here = self.site.border;
        let incoming = self
            .incoming
            .entry(from)
            .or_insert_with(|| Incoming::new(config, config.weighted_sigma(from, here), now));
        incoming.last_heard = now;
        incoming
    }
}

impl EdgeHalf for IecEgress {
    fn on_packet(
        &mut self,
        packet: &mut Packet,
        _headers: &Headers,
        peers: &[PeerId],
        now: Time,
        out: &mut impl EdgeOut,
    ) -> Admission {
        let &[from] = peers else { return Admission::Pass };
        let Some(inner) = packet.inner_ecn.take(self.site.level) else { return Admission::Pass };
        let is_marked = packet.ecn == Ecn::Ce;
        packet.ecn = match self.config.ecn {
            TunnelEcn::Limited => inner,
            TunnelEcn::Normal => decapsulated(inner, packet.ecn),
        };
        let detection = self.config.detection;
        let incoming = self.incoming(from, now);
        incoming.received_bytes += u64::from(packet.wire_bytes);
        incoming.received_packets += 1;
        if detection == Detection::Marks {
            incoming.epoch.is_on = is_marked;
            let owes = self.incoming[&from].owes_negative(&self.config, now);
            if owes {
                self.incoming(from, now).send(from, true, detection, now, out);
            }
        }
        Admission::Pass
    }

    fn on_message(&mut self, from: PeerId, message: &[u8], _ttl: u8, now: Time, out: &mut impl EdgeOut) {
        let Ok(Message::Control(control)) = wire::decode(message) else { return };
        let timeout = self.config.idle_timeout;
        if self.incoming.get(&from).is_some_and(|incoming| !incoming.is_new(&control, timeout, now)) {
            return;
        }
        self.incoming(from, now);
        let incoming = self.incoming.get_mut(&from).expect("it was made above");
        incoming.on_control(&control, &self.config, now);
        if incoming.owes_negative(&self.config, now) {
            incoming.send(from, true, self.config.detection, now, out);
        } else if incoming.owes_answer(&control, &self.config) {
            incoming.send(from, false, self.config.detection, now, out);
        }
    }

    /// Silent virtual links are few, one for each edge of the domain, and keep their state: the next control packet says
    /// whether it is still of use.
    fn timer_at(&self) -> Option<Time> {
        None
    }

    fn on_timer(&mut self, _now: Time, _out: &mut impl EdgeOut) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn only_the_echo_of_the_last_answer_moves_the_minimum() {
        // A delay of 10 ms, and then of 15 ms, of which nothing is queueing: the clocks have drifted.
        let excess = |queueing: Option<Span>, echo: u32| {
            let mut incoming = Incoming::new(&OverlayConfig::default(), 1000.0, Time::ZERO);
            for (sequence, delay) in [(1, 10), (2, 10), (3, 15)] {
                let sent = u64::from(sequence) * 10;
                let control = Control {
                    incarnation: 1,
                    sequence,
                    timestamp: at(sent),
                    sent_bytes: sent * 1000,
                    sent_packets: sent,
                    rtt: Span::from_millis(20),
                    queueing: queueing.filter(|_| sequence == 3),
                    echo: if sequence == 3 { echo } else { 0 },
                    wants_answer: false,
                };
                incoming.received_bytes = control.sent_bytes;
                incoming.received_packets = control.sent_packets;
                incoming.answered = Some((7, 15_000_000));
                incoming.on_control(&control, &OverlayConfig::default(), at(sent + delay));
            }
            incoming.epoch.minimum.excess(15_000_000, at(50))
        };
        assert_eq!(excess(Some(Span::ZERO), 7), 0);
        for (queueing, echo) in
            [(Some(Span::ZERO), 6), (Some(Span::ZERO), 8), (None, 7), (Some(Span::MAX), 7)]
        {
            assert_eq!(excess(queueing, echo), 5_000_000, "{queueing:?}, echo {echo}");
        }
    }
}
