//! The switch of a virtual circuit: cells of one circuit share its link with constant-bit-rate background.
//!
//! Source: Pazos and Gerla, section 5 (two switches per circuit, one link shared with background; AAL5 and cells); Romanow and
//! Floyd 1995, section 3 (Early Packet Discard); ATM Forum, Traffic Management 4.0, section 5.10 (a switch lowers the explicit
//! rate); [`VirtualQueues`] for the selective form of discarding.
//! Deviations: the buffer is a fluid, so that one packet costs one step. The forum leaves it to the switch how it finds the
//! explicit rate: here what it can carry, less what empties the buffer in 10 ms (assumed).
//!
//! Its sender puts packets into cells at the rate of the port. Right behind it is the switch whose link is shared: cells wait
//! there in a bounded buffer and leave at the residual rate, that of the link less the background. A packet that loses a cell
//! is lost, while its other cells still take their time. Standing at the beginning, the switch makes the way of the feedback
//! as long as it can be: a round trip.
//!
//! Where the ends of the circuit run a loop of resource management (ABR, [`super::backpressure`]), the switch
//! lowers the explicit rate to what it can carry. Otherwise the circuit is one without a promise (UBR).

use tidegate_packet::{DropReason, Packet};
use tidegate_units::{BitRate, Span, Time};

use super::{cell, wire};
use crate::queue::VirtualQueues;

/// In which time the switch wants its buffer emptied: the explicit rate is lower by so much.
const DRAIN: Span = Span::from_millis(10);
/// For so many flows a selective switch has memory from the start.
const FLOWS_ROOM: u32 = 4096;

/// A circuit through a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchConfig {
    /// Constant bit rate that the switch carries besides; less than the rate of the link.
    pub background: BitRate,
    /// `MCR`: the rate that is promised to it.
    pub minimum: BitRate,
    /// Cells that the switch holds.
    pub buffer_cells: u32,
    /// Early Packet Discard: a packet whose first cell finds more cells than this is discarded as a whole.
    pub discard_cells: Option<u32>,
    /// Virtual Queueing: only packets of flows that hold more than their part of these cells are.
    pub is_selective: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
    /// Of the switch's link.
    capacity: BitRate,
    /// What waits in the switch, in bits times nanoseconds per second, as of `updated`.
    backlog: u128,
    updated: Time,
    /// When the last packet leaves the switch: nothing overtakes.
    last_out: Time,
    /// What each flow holds, if discarding is selective.
    virtual_queues: Option<VirtualQueues>,
}

/// Bits as the backlog counts them.
const fn scaled(bytes: u32) -> u128 {
    bytes as u128 * 8 * 1_000_000_000
}

impl Switch {
    /// The switch, whose link has `capacity`.
    pub fn new(config: SwitchConfig, capacity: BitRate) -> Self {
        // Each flow in the buffer has a cell there.
        let virtual_queues = config
            .is_selective
            .then(|| VirtualQueues::with_room(config.buffer_cells.min(FLOWS_ROOM) as usize));
        Self { config, capacity, backlog: 0, updated: Time::ZERO, last_out: Time::ZERO, virtual_queues }
    }

    /// Bytes of the cells of `packet`, which may be a message between neighbours or borders.
    pub const fn wire_bytes(packet: &Packet, is_message: bool) -> u32 {
        if is_message { cell::message_bytes(packet.wire_bytes) } else { cell::aal5_bytes(packet.wire_bytes) }
    }

    fn residual(&self) -> BitRate {
        BitRate::from_bps(self.capacity.as_bps().saturating_sub(self.config.background.as_bps()).max(1))
    }

    fn advance(&mut self, to: Time) {
        let drained = u128::from(self.residual().as_bps()) * u128::from(to.since(self.updated).as_nanos());
        if let Some(queues) = &mut self.virtual_queues {
            queues.serve(drained.min(self.backlog));
        }
        self.backlog = self.backlog.saturating_sub(drained);
        self.updated = self.updated.max(to);
    }

    /// The switch carries so much besides from now on.
    pub fn set_background(&mut self, background: BitRate, now: Time) {
        self.advance(now);
        self.config.background = background;
    }

    /// The switch's link has another rate.
    pub fn set_capacity(&mut self, capacity: BitRate, now: Time) {
        self.advance(now);
        self.capacity = capacity;
    }

    /// The link is down: what waited is lost.
    pub fn clear(&mut self, now: Time) {
        self.backlog = 0;
        if let Some(queues) = &mut self.virtual_queues {
            queues.clear();
        }
        self.updated = now;
    }

    /// `packet` was put onto the circuit between `began` and `ended`: when its last cell leaves the switch.
    ///
    /// # Errors
    /// Why the packet is lost.
    pub fn pass(
        &mut self,
        packet: &Packet,
        is_message: bool,
        began: Time,
        ended: Time,
    ) -> Result<Time, DropReason> {
        self.advance(began);
        let early = self.config.discard_cells.map(|cells| scaled(cells * cell::CELL_BYTES));
        if let Some(early) = early.filter(|&early| !is_message && discards_early(self.backlog, early)) {
            let is_too_much =
                self.virtual_queues.as_ref().is_none_or(|queues| queues.discards(packet.flow, early));
            if is_too_much {
                return Err(DropReason::Early);
            }
        }
        // Its cells come in while others leave.
        let cells = scaled(Self::wire_bytes(packet, is_message));
        self.backlog += cells;
        if let Some(queues) = &mut self.virtual_queues {
            queues.join(packet.flow, cells);
        }
        self.advance(ended);
        let room = scaled(self.config.buffer_cells * cell::CELL_BYTES);
        if self.backlog > room {
            if let Some(queues) = &mut self.virtual_queues {
                queues.serve(self.backlog - room);
            }
            self.backlog = room;
            return Err(DropReason::Overflow);
        }
        let wait = self.backlog.div_ceil(u128::from(self.residual().as_bps()));
        let out = ended.saturating_add(Span::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)));
        self.last_out = self.last_out.max(out);
        Ok(self.last_out)
    }

    /// What the switch can carry for the circuit now, and empty its buffer; never less than was promised.
    pub fn explicit_rate(&self) -> BitRate {
        explicit_rate(self.residual(), self.backlog, self.config.minimum)
    }

    /// Lowers the explicit rate in `message`, which passes the switch.
    pub fn stamp(&self, message: &mut [u8]) {
        wire::lower_explicit_rate(message, self.explicit_rate().as_bytes_per_second_f64() as u32);
    }
}

/// Romanow and Floyd, section 3: whether a packet whose first cell comes now is discarded as a whole.
const fn discards_early(backlog: u128, threshold: u128) -> bool {
    backlog > threshold
}

/// `ER`: the `residual` rate less what empties the `backlog` in [`DRAIN`], not below `MCR`, the `minimum`.
fn explicit_rate(residual: BitRate, backlog: u128, minimum: BitRate) -> BitRate {
    let residual = residual.as_bps();
    let drain = (backlog / u128::from(DRAIN.as_nanos())).min(u128::from(residual)) as u64;
    BitRate::from_bps((residual - drain).max(minimum.as_bps()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_packet::FlowId;

    const SEGMENT: u32 = 1064;

    fn circuit(discard_cells: Option<u32>) -> Switch {
        let background = BitRate::from_mbps(80);
        let minimum = BitRate::from_mbps(20);
        let config =
            SwitchConfig { background, minimum, buffer_cells: 1000, discard_cells, is_selective: false };
        Switch::new(config, BitRate::from_mbps(150))
    }

    /// How many packets pass of a flow that sends every third packet, and of one that sends the others.
    fn passed_of_two_flows(is_selective: bool) -> [u32; 2] {
        let config = SwitchConfig { is_selective, ..circuit(Some(800)).config };
        let mut circuit = Switch::new(config, BitRate::from_mbps(150));
        let mut passed = [0; 2];
        let mut now = Time::ZERO;
        for n in 0..30_000 {
            let flow = u32::from(n % 3 != 0);
            let packet = Packet::new(0, FlowId(flow), SEGMENT);
            let ended = now + BitRate::from_mbps(150).span_of(u64::from(Switch::wire_bytes(&packet, false)));
            passed[flow as usize] += u32::from(circuit.pass(&packet, false, now, ended).is_ok());
            now = ended;
        }
        passed
    }

    #[test]
    fn virtual_queueing_divides_evenly_what_early_packet_discard_divides_by_load() {
        let [less, more] = passed_of_two_flows(false).map(f64::from);
        assert!((more / less - 2.0).abs() < 0.2, "{less} {more}");
        let [one, other] = passed_of_two_flows(true).map(f64::from);
        assert!((other / one - 1.0).abs() < 0.05, "{one} {other}");
        assert!((one + other) / 30_000.0 > 0.97 * 70.0 / 150.0, "and the circuit is as full");
    }

    /// Sends segments back to back at `rate` for `duration`: sent, passed, and the cells that passed.
    fn saturate(circuit: &mut Switch, rate: BitRate, duration: Span) -> (u32, u32) {
        let packet = Packet::new(0, FlowId(0), SEGMENT);
        let gap = rate.span_of(u64::from(Switch::wire_bytes(&packet, false)));
        let (mut now, mut sent, mut passed) = (Time::ZERO, 0, 0);
        let mut out = Time::ZERO;
        while now < Time::ZERO + duration {
            sent += 1;
            if let Ok(at) = circuit.pass(&packet, false, now, now + gap) {
                assert!(at >= out && at >= now + gap, "nothing overtakes");
                out = at;
                passed += 1;
            }
            now += gap;
        }
        (sent, passed)
    }

    #[test]
    fn below_the_residual_rate_nothing_waits_or_is_lost() {
        let mut circuit = circuit(None);
        let (sent, passed) = saturate(&mut circuit, BitRate::from_mbps(70), Span::from_secs(1));
        assert_eq!(sent, passed);
        assert!(circuit.backlog < scaled(2 * SEGMENT), "{}", circuit.backlog);
        assert!(circuit.explicit_rate() > BitRate::from_mbps(68));
    }

    #[test]
    fn early_packet_discard_uses_the_residual_rate_and_lost_cells_waste_it() {
        let full = 70e6 / (1219.0 * 8.0);
        let (_, early) = saturate(&mut circuit(Some(800)), BitRate::from_mbps(150), Span::from_secs(2));
        assert!((f64::from(early) / 2.0 - full).abs() < 0.03 * full, "{early}");
        let (_, tail) = saturate(&mut circuit(None), BitRate::from_mbps(150), Span::from_secs(2));
        assert!(f64::from(tail) / 2.0 < 0.7 * full, "{tail} packets are whole");
    }

    #[test]
    fn the_explicit_rate_leaves_what_drains_the_buffer_in_ten_milliseconds() {
        let mut circuit = circuit(None);
        saturate(&mut circuit, BitRate::from_mbps(150), Span::from_millis(2));
        // 80 Mb/s too much for 2 ms are 160 kbit.
        let rate = circuit.explicit_rate().as_bps() as f64 / 1e6;
        assert!((rate - (70.0 - 16.0)).abs() < 1.0, "{rate}");
    }

    #[test]
    fn the_explicit_rate_follows_the_background_but_not_below_the_promise() {
        let mut circuit = circuit(None);
        assert_eq!(circuit.explicit_rate(), BitRate::from_mbps(70));
        circuit.set_background(BitRate::from_mbps(120), Time::ZERO);
        assert_eq!(circuit.explicit_rate(), BitRate::from_mbps(30));
        circuit.set_background(BitRate::from_mbps(149), Time::ZERO);
        assert_eq!(circuit.explicit_rate(), BitRate::from_mbps(20));
    }
}
