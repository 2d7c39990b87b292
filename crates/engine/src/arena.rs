//! What the simulator knows of a packet beyond its descriptor, by slot.

use std::num::NonZeroU32;

use tidegate_mechanism::scream::Report;
use tidegate_packet::{FlowId, InnerEcn, OutsideTcp, Packet, TcpHeader};
use tidegate_units::Time;

use crate::outside;

/// The rest of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// When its source made it.
    pub created: Time,
    /// Where it stands in its flow's route; kept here while a discipline or shaper holds the packet.
    pub route: u32,
    /// Index of the message it carries; [`Carried::NO_MESSAGE`] for data.
    pub message: u32,
    /// Its TCP header, if it has one.
    pub tcp: TcpHeader,
}

impl Carried {
    /// Not a control packet.
    pub const NO_MESSAGE: u32 = u32::MAX;

    /// Whether it is a control packet.
    pub const fn is_message(&self) -> bool {
        self.message != Self::NO_MESSAGE
    }

    /// What its owner calls a packet that came from outside; meaningless for others.
    ///
    /// The handle stands where the sequence number of a simulated segment would: a field of its own would cost every
    /// simulated packet.
    pub const fn handle(&self) -> u64 {
        self.tcp.sequence
    }

    /// The TCP header of a packet that came from outside, as the network left it; all zero without such a header.
    pub const fn outside_tcp(&self) -> OutsideTcp {
        outside::unpack(&self.tcp)
    }
}

/// Slots, reused last in first out so that a fresh packet finds its line in the cache.
#[derive(Debug, Default)]
pub struct Arena {
    slots: Vec<Carried>,
    free: Vec<u32>,
}

impl Arena {
    /// Stores `carried`.
    #[inline]
    pub fn insert(&mut self, carried: Carried) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = carried;
            slot
        } else {
            self.slots.push(carried);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 packets exist at once")
        }
    }

    /// The rest of `packet`.
    #[inline]
    pub fn get(&self, packet: &Packet) -> &Carried {
        &self.slots[packet.slot as usize]
    }

    /// The rest of `packet`, to change.
    #[inline]
    pub fn get_mut(&mut self, packet: &Packet) -> &mut Carried {
        &mut self.slots[packet.slot as usize]
    }

    /// `packet` is gone.
    #[inline]
    pub fn release(&mut self, packet: &Packet) {
        self.free.push(packet.slot);
    }

    /// Fetches the rest of `packet`, of which most are on one line.
    #[inline]
    pub fn fetch(&self, packet: &Packet) {
        prefetch_index::prefetch_index(&self.slots, packet.slot as usize);
    }

    /// How many packets exist.
    pub const fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// What borders wrote on packets, by slot and by the level of their domain; empty unless they write.
#[derive(Debug, Default)]
pub struct Stamps(Vec<Stamp>);

/// A stamp, and when the packet that carries it was made: its slot may have become another's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    of: Time,
    stamp: u32,
}

impl Stamps {
    const LEVELS: usize = InnerEcn::LEVELS as usize;

    /// Where `packet` has its stamp of `level`.
    fn place(packet: &Packet, level: u8) -> usize {
        packet.slot as usize * Self::LEVELS + usize::from(level)
    }

    /// `packet`, which was made at `created`, carries `stamp` from now on. The table grows with the arena.
    pub fn write(&mut self, packet: &Packet, created: Time, level: u8, stamp: NonZeroU32) {
        let place = Self::place(packet, level);
        if place >= self.0.len() {
            self.0.resize((packet.slot as usize + 1) * Self::LEVELS, Stamp::default());
        }
        self.0[place] = Stamp { of: created, stamp: stamp.get() };
    }

    /// What `packet`, which was made at `created`, carries; nothing afterwards.
    pub fn take(&mut self, packet: &Packet, created: Time, level: u8) -> Option<NonZeroU32> {
        let place = self.0.get_mut(Self::place(packet, level))?;
        let stamp = if place.of == created { NonZeroU32::new(place.stamp) } else { None };
        place.stamp = 0;
        stamp
    }

    /// All that `packet` carries; nothing if nobody has written on it.
    pub fn copied(&self, packet: &Packet) -> Option<Box<[Stamp]>> {
        let begin = Self::place(packet, 0);
        let stamps = self.0.get(begin..begin + Self::LEVELS)?;
        stamps.iter().any(|stamp| stamp.stamp != 0).then(|| stamps.into())
    }

    /// `packet`, which is new here, carries `stamps`.
    pub fn put(&mut self, packet: &Packet, stamps: Option<&[Stamp]>) {
        let begin = Self::place(packet, 0);
        let end = begin + Self::LEVELS;
        match stamps {
            Some(stamps) => {
                if end > self.0.len() {
                    self.0.resize(end, Stamp::default());
                }
                self.0[begin..end].copy_from_slice(stamps);
            }
            None => self.0.get_mut(begin..end).into_iter().flatten().for_each(|stamp| stamp.stamp = 0),
        }
    }

    /// `copy` carries what `packet` does.
    pub fn copy(&mut self, packet: &Packet, copy: &Packet) {
        let begin = Self::place(packet, 0);
        if begin >= self.0.len() {
            return;
        }
        let needed = (copy.slot as usize + 1) * Self::LEVELS;
        if needed > self.0.len() {
            self.0.resize(needed, Stamp::default());
        }
        self.0.copy_within(begin..begin + Self::LEVELS, Self::place(copy, 0));
    }
}

/// Before which packets are not to leave their host, by slot; empty unless a host says so.
#[derive(Debug, Default)]
pub struct Departures(Vec<Departure>);

/// An instant, and when the packet that it is of was made: its slot may have become another's.
#[derive(Clone, Copy, Debug)]
struct Departure {
    of: Time,
    at: Time,
}

impl Departures {
    const NONE: Departure = Departure { of: Time::MAX, at: Time::ZERO };

    /// `packet`, which was made at `created`, is not to leave before `at`. The table grows with the arena.
    #[inline(never)]
    pub fn write(&mut self, packet: &Packet, created: Time, at: Time) {
        let place = packet.slot as usize;
        if place >= self.0.len() {
            self.0.resize(place + 1, Self::NONE);
        }
        self.0[place] = Departure { of: created, at };
    }

    /// Before which `packet`, which was made at `created`, is not to leave.
    pub fn of(&self, packet: &Packet, created: Time) -> Option<Time> {
        let departure = self.0.get(packet.slot as usize)?;
        (departure.of == created).then_some(departure.at)
    }

    /// `packet` is gone: what has its slot next may be made at the same instant.
    pub fn forget(&mut self, packet: &Packet) {
        if let Some(departure) = self.0.get_mut(packet.slot as usize) {
            *departure = Self::NONE;
        }
    }
}

/// What reports of media streams say that are too long for a header, by slot; empty where there are none. A place is used again and again.
#[derive(Debug, Default)]
pub struct Reports(Vec<Option<Box<Kept>>>);

/// A report, and which one it is: its slot may have become another's.
#[derive(Debug)]
struct Kept {
    flow: FlowId,
    number: u64,
    report: Report,
}

impl Reports {
    /// `packet` says `report`, which is number `number` of its flow. The table grows with the arena.
    pub fn write(&mut self, packet: &Packet, number: u64, report: &Report) {
        let place = packet.slot as usize;
        if place >= self.0.len() {
            self.0.resize_with(place + 1, || None);
        }
        let kept = Kept { flow: packet.flow, number, report: *report };
        match &mut self.0[place] {
            Some(there) => **there = kept,
            free @ None => *free = Some(Box::new(kept)),
        }
    }

    /// What `packet` says, which is number `number` of its flow; nothing if it is no report.
    pub fn of(&self, packet: &Packet, number: u64) -> Option<&Report> {
        let kept = self.0.get(packet.slot as usize)?.as_ref()?;
        (kept.flow == packet.flow && kept.number == number).then_some(&kept.report)
    }

    /// `copy` says what `packet` does.
    pub fn copy(&mut self, packet: &Packet, copy: &Packet, number: u64) {
        if let Some(report) = self.of(packet, number).copied() {
            self.write(copy, number, &report);
        }
    }
}

/// The bytes of control messages under way, in buffers that are reused.
#[derive(Debug, Default)]
pub struct Messages {
    buffers: Vec<Vec<u8>>,
    free: Vec<u32>,
}

impl Messages {
    /// Stores a copy of `bytes`.
    pub fn insert(&mut self, bytes: &[u8]) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.buffers.push(Vec::new());
            u32::try_from(self.buffers.len() - 1).expect("fewer than 2^32 messages exist at once")
        });
        let buffer = &mut self.buffers[index as usize];
        buffer.clear();
        buffer.extend_from_slice(bytes);
        index
    }

    /// Stores another copy of message `index`.
    pub fn duplicate(&mut self, index: u32) -> u32 {
        let bytes = self.take(index);
        let copy = self.insert(&bytes);
        self.buffers[index as usize] = bytes;
        copy
    }

    /// What message `index` says.
    pub fn bytes(&self, index: u32) -> &[u8] {
        &self.buffers[index as usize]
    }

    /// The same, to change it on its way.
    pub fn bytes_mut(&mut self, index: u32) -> &mut [u8] {
        &mut self.buffers[index as usize]
    }

    /// Takes the buffer of message `index` out, to be given back with [`Messages::release`].
    pub fn take(&mut self, index: u32) -> Vec<u8> {
        core::mem::take(&mut self.buffers[index as usize])
    }

    /// The message is gone; its buffer (if it was taken) may serve again.
    pub fn release(&mut self, index: u32, buffer: Option<Vec<u8>>) {
        if let Some(buffer) = buffer {
            self.buffers[index as usize] = buffer;
        }
        self.free.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_departure_is_of_one_packet_and_ends_with_it() {
        let (mut departures, packet) = (Departures::default(), Packet::new(3, FlowId(0), 1500));
        let at = |nanos| Time::from_nanos(nanos);
        assert_eq!(departures.of(&packet, at(5)), None);
        departures.write(&packet, at(5), at(9));
        assert_eq!(departures.of(&packet, at(5)), Some(at(9)));
        assert_eq!(departures.of(&packet, at(6)), None, "another that has its slot later");
        departures.forget(&packet);
        assert_eq!(departures.of(&packet, at(5)), None, "another that has its slot at the same instant");
    }
}
