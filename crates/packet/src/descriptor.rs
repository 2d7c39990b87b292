//! The packet descriptor and the small types in it.

use tidegate_units::{BitRate, Time};

/// A flow as the world numbers them: dense, from zero. All packets of one transport connection in one direction, or of
/// one stream of control messages, share it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FlowId(pub u32);

/// The ECN field (RFC 3168, section 5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not understand marks: 00.
    #[default]
    NotEct = 0b00,
    /// ECN-capable, codepoint ECT(1): 01.
    Ect1 = 0b01,
    /// ECN-capable, codepoint ECT(0): 10.
    Ect0 = 0b10,
    /// Congestion experienced: 11.
    Ce = 0b11,
}

impl Ecn {
    /// Whether a queue may mark instead of dropping.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }

    /// The codepoint of the two low bits of `byte`.
    pub const fn from_bits(byte: u8) -> Self {
        match byte & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// What a promise is worth where packets must be dropped: the drop precedence of assured forwarding (RFC 2597), in the
/// words of the three-colour markers (RFC 2697, RFC 2698). Ordered from the best to the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Colour {
    /// Within its promise, dropped last: "marked" in the thesis of Feng.
    Green,
    /// Beyond its promise by a little.
    Yellow,
    /// Nothing was promised, or much more is used: "unmarked" in the thesis of Feng.
    #[default]
    Red,
}

/// The differentiated services codepoint, six bits (RFC 2474).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Dscp(u8);

impl Dscp {
    /// Best effort.
    pub const BEST_EFFORT: Self = Self(0);
    /// Expedited forwarding (RFC 3246).
    pub const EF: Self = Self(46);
    /// Assured forwarding class 1, low drop precedence (RFC 2597).
    pub const AF11: Self = Self(10);
    /// Assured forwarding class 1, medium drop precedence.
    pub const AF12: Self = Self(12);
    /// Assured forwarding class 1, high drop precedence.
    pub const AF13: Self = Self(14);
    /// Network control (class selector 6): feedback between edges and between neighbours.
    pub const CONTROL: Self = Self(48);

    /// The codepoint of the six low bits.
    pub const fn new(codepoint: u8) -> Self {
        Self(codepoint & 0x3f)
    }
    /// The six bits.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Assured forwarding in `class`, 1 to 4, with the drop precedence of `colour` (RFC 2597, section 6). A class out of
    /// range is the nearest one.
    pub const fn assured(class: u8, colour: Colour) -> Self {
        let class = if class < 1 {
            1
        } else if class > 4 {
            4
        } else {
            class
        };
        Self(class << 3 | (colour as u8 + 1) << 1)
    }

    /// The class of assured forwarding, 1 to 4; `None` for other codepoints.
    pub const fn assured_class(self) -> Option<u8> {
        let (class, precedence) = (self.0 >> 3, self.0 & 0b111);
        if class >= 1 && class <= 4 && matches!(precedence, 0b010 | 0b100 | 0b110) {
            Some(class)
        } else {
            None
        }
    }

    /// What the codepoint promises: the drop precedence of assured forwarding; expedited forwarding and the network's own
    /// control are green; all else, best effort first, is red.
    pub const fn colour(self) -> Colour {
        match self.assured_class() {
            Some(_) if self.0 & 0b111 == 0b010 => Colour::Green,
            Some(_) if self.0 & 0b111 == 0b100 => Colour::Yellow,
            None if self.0 == Self::EF.0 || self.0 >= Self::CONTROL.0 => Colour::Green,
            _ => Colour::Red,
        }
    }
}

/// Some of the 64 codepoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DscpSet(u64);

impl DscpSet {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// The same with `dscp`.
    pub const fn with(self, dscp: Dscp) -> Self {
        Self(self.0 | 1 << dscp.get())
    }
    /// Whether `dscp` is one of them.
    #[inline]
    pub const fn contains(self, dscp: Dscp) -> bool {
        self.0 >> dscp.get() & 1 != 0
    }
    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Dscp> for DscpSet {
    fn from_iter<I: IntoIterator<Item = Dscp>>(codepoints: I) -> Self {
        codepoints.into_iter().fold(Self::NONE, Self::with)
    }
}

/// The rate that an edge wrote on a packet (CSFQ's label), in bytes per second; up to 34 Gbit/s, then saturated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RateLabel(pub u32);

impl RateLabel {
    /// The label for `rate`.
    pub fn from_rate(rate: BitRate) -> Self {
        Self(u32::try_from(rate.as_bps() / 8).unwrap_or(u32::MAX))
    }
    /// The label for real-valued bytes per second (`as` saturates).
    pub fn from_bytes_per_second(rate: f64) -> Self {
        Self(rate as u32)
    }
    /// Real-valued bytes per second.
    pub fn bytes_per_second(self) -> f64 {
        f64::from(self.0)
    }
}

/// The ECN fields of a packet's headers inside of tunnels, by the depth at which the tunnel is nested: three deep, each of
/// them there or not, in one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InnerEcn(u8);

impl InnerEcn {
    /// In no tunnel.
    pub const NONE: Self = Self(0);
    /// How deep tunnels can be nested.
    pub const LEVELS: u8 = 3;
    /// A digit for each level: 0 for none, or one more than the codepoint.
    const WEIGHTS: [u8; Self::LEVELS as usize] = [1, 5, 25];

    const fn digit(self, level: u8) -> u8 {
        self.0 / Self::WEIGHTS[level as usize] % 5
    }

    /// A tunnel at this level begins around a header with `ecn`. One that was there ends.
    pub const fn put(&mut self, level: u8, ecn: Ecn) {
        self.take(level);
        self.0 += (ecn as u8 + 1) * Self::WEIGHTS[level as usize];
    }

    /// The tunnel at this level ends; the field of the header in it.
    pub const fn take(&mut self, level: u8) -> Option<Ecn> {
        let digit = self.digit(level);
        self.0 -= digit * Self::WEIGHTS[level as usize];
        if digit == 0 { None } else { Some(Ecn::from_bits(digit - 1)) }
    }
}

/// A packet as a mechanism sees it: 32 bytes, copied, never owned. Authoritative for ECN, DSCP, label and TTL: the
/// world writes changes back when the packet departs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Packet {
    /// When it joined the queue that holds it now; set by the world before each `enqueue`.
    pub arrived: Time,
    /// The world's handle on everything else it knows about the packet.
    pub slot: u32,
    /// Bytes on the wire, headers included.
    pub wire_bytes: u32,
    /// Which flow it belongs to.
    pub flow: FlowId,
    /// CSFQ's label; zero means "none".
    pub label: RateLabel,
    /// The port by which it entered the present router.
    pub in_port: u16,
    /// Which class of the scenario it was put into; zero unless a classifier says otherwise.
    pub class: u8,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its DSCP.
    pub dscp: Dscp,
    /// Hops it may still make.
    pub ttl: u8,
    /// What the manager of the queue that holds it wrote down at its arrival; means nothing to anybody else.
    pub note: u8,
    /// The ECN fields of the inner headers, while the packet is in tunnels between edges; `ecn` is then the outermost one.
    pub inner_ecn: InnerEcn,
}

const _: () = assert!(core::mem::size_of::<Packet>() == 32, "two descriptors share a cache line");

impl Packet {
    /// A best-effort packet of `flow` in `slot`, with a full TTL and nothing else set.
    pub const fn new(slot: u32, flow: FlowId, wire_bytes: u32) -> Self {
        Self {
            arrived: Time::ZERO,
            slot,
            wire_bytes,
            flow,
            label: RateLabel(0),
            in_port: 0,
            class: 0,
            ecn: Ecn::NotEct,
            dscp: Dscp::BEST_EFFORT,
            ttl: 255,
            note: 0,
            inner_ecn: InnerEcn::NONE,
        }
    }
}

/// What waits in a queue. The packet in transmission is not part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Packets waiting.
    pub packets: u32,
    /// Their bytes on the wire.
    pub bytes: u64,
}

impl Backlog {
    /// Nothing waits.
    pub const EMPTY: Self = Self { packets: 0, bytes: 0 };

    /// Whether nothing waits.
    pub const fn is_empty(self) -> bool {
        self.packets == 0
    }
    /// `packet` joins.
    pub fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.wire_bytes);
    }
    /// `packet` leaves.
    pub fn remove(&mut self, packet: &Packet) {
        debug_assert!(
            self.packets > 0 && self.bytes >= u64::from(packet.wire_bytes),
            "left but never joined"
        );
        self.packets -= 1;
        self.bytes -= u64::from(packet.wire_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tunnel_keeps_its_own_header_whichever_others_there_are() {
        let all = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
        for (outer, middle, inner) in all.iter().flat_map(|a| all.map(move |b| (*a, b, Ecn::Ce))) {
            let mut tunnels = InnerEcn::NONE;
            tunnels.put(0, outer);
            tunnels.put(2, inner);
            assert_eq!(tunnels.take(1), None, "there is no tunnel of this level");
            tunnels.put(1, middle);
            assert_eq!([2, 1, 0].map(|level| tunnels.take(level)), [Some(inner), Some(middle), Some(outer)]);
            assert_eq!(tunnels, InnerEcn::NONE);
        }
    }
}
