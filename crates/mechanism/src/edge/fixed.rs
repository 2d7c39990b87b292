//! A rate that somebody chose: one shaper for each far edge, which asks nobody and answers nobody. It is what operators set by
//! hand, and what is left where the far end does not understand messages.
//!
//! Source: none; a leaky bucket as of NBP, Fig. 4. ECN at tunnel ends: RFC 6040.
//! Deviations: none.

use alloc::collections::BTreeMap;

use tidegate_packet::{Headers, Packet};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{BitRate, Time};

use super::{Admission, AggregateId, BorderSite, EdgeHalf, EdgeOut, EdgeReport, PacketStore, PeerId, tunnel};
use crate::shape::ShaperConfig;

parameters! {
    /// # Fixed rates
    ///
    /// What enters for another edge leaves at a rate that was chosen, whatever the path gives.
    ///
    /// Source: none; what operators set by hand.
    pub struct FixedConfig {
        /// The rate towards each other edge. Required.
        rate: BitRate => bound::RATE;
        /// Shape only packets of this class; others pass. Default: all.
        class: Option<u8> = None;
        /// The shaper for each other edge.
        shaper: ShaperConfig = ShaperConfig::default() => bound::INSIDE;
    }
}

impl FixedConfig {
    /// The two halves of the border at `site`.
    pub fn build(&self, site: BorderSite) -> (FixedSender, FixedReceiver) {
        let sender = FixedSender { rate: self.rate, class: self.class, site, links: BTreeMap::new() };
        (sender, FixedReceiver { site })
    }
}

/// Where packets enter.
#[derive(Debug)]
pub struct FixedSender {
    rate: BitRate,
    class: Option<u8>,
    site: BorderSite,
    links: BTreeMap<PeerId, AggregateId>,
}

impl FixedSender {
    /// What is known of the shaper towards `far`.
    pub fn report(&self, far: PeerId) -> Option<EdgeReport> {
        let rate = self.rate.as_bytes_per_second_f64();
        self.links.get(&far).map(|&aggregate| EdgeReport {
            aggregate,
            ingress_rate: rate,
            egress_rate: 0.0,
            rtt: None,
            accumulation: None,
            in_epoch: None,
        })
    }
}

impl EdgeHalf for FixedSender {
    fn on_packet(
        &mut self,
        packet: &mut Packet,
        _headers: &Headers,
        peers: &[PeerId],
        _now: Time,
        out: &mut impl EdgeOut,
    ) -> Admission {
        let &[to] = peers else { return Admission::Pass };
        if self.class.is_some_and(|class| class != packet.class) {
            return Admission::Pass;
        }
        let next = AggregateId(self.links.len() as u32);
        let aggregate = *self.links.entry(to).or_insert_with(|| {
            out.open(next, self.rate);
            next
        });
        Admission::Shape(aggregate)
    }

    fn on_release(
        &mut self,
        _aggregate: AggregateId,
        packet: &mut Packet,
        _store: &mut impl PacketStore,
        _now: Time,
        _out: &mut impl EdgeOut,
    ) {
        tunnel::enter(packet, self.site.level);
    }

    fn on_message(&mut self, _from: PeerId, _message: &[u8], _ttl: u8, _now: Time, _out: &mut impl EdgeOut) {}

    fn timer_at(&self) -> Option<Time> {
        None
    }

    fn on_timer(&mut self, _now: Time, _out: &mut impl EdgeOut) {}
}

/// Where packets leave.
#[derive(Debug)]
pub struct FixedReceiver {
    site: BorderSite,
}

impl EdgeHalf for FixedReceiver {
    fn on_packet(
        &mut self,
        packet: &mut Packet,
        _headers: &Headers,
        _peers: &[PeerId],
        _now: Time,
        _out: &mut impl EdgeOut,
    ) -> Admission {
        tunnel::leave(packet, self.site.level);
        Admission::Pass
    }

    fn on_message(&mut self, _from: PeerId, _message: &[u8], _ttl: u8, _now: Time, _out: &mut impl EdgeOut) {}

    fn timer_at(&self) -> Option<Time> {
        None
    }

    fn on_timer(&mut self, _now: Time, _out: &mut impl EdgeOut) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::edge::testing::{HEADERS, Said};
    use crate::edge::{Border, EdgeConfig, Transmit};
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use tidegate_packet::{Ecn, FlowId};

    fn border(rate: BitRate) -> Border {
        let config = EdgeConfig::Fixed(Box::new(FixedConfig::with(rate)));
        Border::new(&config, BorderSite { border: PeerId(0), level: 0 }, &Context::for_tests())
    }

    /// When each of three packets of 1000 bytes leaves, ms, where the shaper keeps to `bounds`.
    fn leaving(rate: BitRate, bounds: Option<(BitRate, BitRate)>) -> Vec<u64> {
        let mut border = border(rate);
        if let Some((least, most)) = bounds {
            border.set_bounds(least, most, Time::ZERO);
        }
        let mut store = Said::default();
        for slot in 0..3 {
            let packet = Packet::new(slot, FlowId(0), 1000);
            assert!(
                border.handle_packet(packet, &HEADERS, &[PeerId(1)], Time::ZERO, &mut store).is_none(),
                "it waits"
            );
        }
        let mut message = Vec::new();
        let mut left = Vec::new();
        while let Some(at) = border.poll_timeout() {
            while let Some(sent) = border.poll_transmit(at, &mut store, &mut message) {
                assert!(matches!(sent, Transmit::Packet(_)), "it says nothing");
                left.push(at.as_nanos() / 1_000_000);
            }
        }
        left
    }

    #[test]
    fn packets_leave_at_the_rate_that_was_chosen() {
        assert_eq!(leaving(BitRate::from_mbps(1), None), [0, 8, 16]);
    }

    #[test]
    fn bounds_of_the_border_hold_whatever_was_chosen() {
        let bounds = (BitRate::from_mbps(2), BitRate::from_mbps(4));
        assert_eq!(leaving(BitRate::from_mbps(1), Some(bounds)), [0, 4, 8]);
        assert_eq!(leaving(BitRate::from_mbps(8), Some(bounds)), [0, 2, 4]);
    }

    #[test]
    fn bounds_that_come_later_hold_for_what_waits() {
        let mut border = border(BitRate::from_bps(8));
        let mut store = Said::default();
        for slot in 0..2 {
            let packet = Packet::new(slot, FlowId(0), 1000);
            border.handle_packet(packet, &HEADERS, &[PeerId(1)], Time::ZERO, &mut store);
        }
        assert!(border.poll_packet(Time::ZERO, &mut store).is_some());
        border.set_bounds(BitRate::from_mbps(8), BitRate::MAX, Time::ZERO);
        assert_eq!(border.release_at().map(Time::as_nanos), Some(1_000_000));
    }

    #[test]
    fn marks_of_the_path_reach_the_inner_header_and_earlier_ones_are_inside() {
        let (mut near, mut far) = (border(BitRate::from_mbps(8)), border(BitRate::from_mbps(8)));
        let mut store = Said::default();
        for (inner, outer) in [(Ecn::NotEct, Ecn::NotEct), (Ecn::Ect0, Ecn::Ect0), (Ecn::Ce, Ecn::Ect0)] {
            let entering = Packet { ecn: inner, ..Packet::new(0, FlowId(0), 1000) };
            near.handle_packet(entering, &HEADERS, &[PeerId(1)], Time::ZERO, &mut store);
            let at = near.poll_timeout().expect("it waits");
            let mut packet = near.poll_packet(at, &mut store).expect("it is due");
            assert_eq!(packet.ecn, outer);
            if outer.is_capable() {
                packet.ecn = Ecn::Ce;
            }
            far.handle_leaving::<tidegate_packet::TcpHeader>(&mut packet, &HEADERS, &[PeerId(0)], None, at);
            assert_eq!(packet.ecn, if outer.is_capable() { Ecn::Ce } else { Ecn::NotEct });
        }
    }
}
