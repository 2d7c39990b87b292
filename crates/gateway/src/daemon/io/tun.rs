//! The device from which hosts here are heard. With segmentation offload one read gives many packets, and one write takes many.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::net::if_::if_nametoindex;
use tidegate_units::Time;
use tidegate_wire::offload::{Inbound, Outbox, ROOM_BYTES};
use tun_rs::DeviceBuilder;

use crate::core::store::BUFFER_BYTES;

/// Packets that the kernel keeps for us; the shapers behind are where packets are to wait.
const QUEUE_PACKETS: u32 = 500;
/// Connections whose packets are joined at once: fair queues send those of many in turn, and each would end what came before.
const OUTBOXES: usize = 16;

/// See the module.
pub struct Tun {
    device: File,
    read: Vec<u8>,
    outboxes: [Outbox; OUTBOXES],
    /// Packets that the kernel did not take, and reads that were no packets.
    pub refused_packets: u64,
    /// See `refused_packets`.
    pub bad_reads: u64,
}

impl Tun {
    /// Makes the device `name`, which is up from then on, with so many queues: one for each that is to read and
    /// write it. The kernel gives packets of a connection to the queue in which others of it, either way, were
    /// written last.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn create(name: &str, mtu: u16, queues: u8) -> io::Result<Vec<Self>> {
        let is_there = if_nametoindex(name).is_ok();
        // The kernel would add queues to a device of another daemon, which would lose packets to them.
        if queues > 1 && is_there {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let made = Self::make(name, mtu, queues);
        // One that has several takes no other.
        let is_other = made.as_ref().is_err_and(|why| is_there && why.kind() == io::ErrorKind::InvalidInput);
        if is_other { Err(io::ErrorKind::ResourceBusy.into()) } else { made }
    }

    fn make(name: &str, mtu: u16, queues: u8) -> io::Result<Vec<Self>> {
        let first = DeviceBuilder::new()
            .name(name)
            .mtu(mtu)
            .tx_queue_len(QUEUE_PACKETS)
            .with(|builder| {
                builder.offload(true).multi_queue(queues > 1);
            })
            .build_sync()?;
        let more = (1..queues).map(|_| first.try_clone()).collect::<io::Result<Vec<_>>>()?;
        std::iter::once(&first)
            .chain(&more)
            .map(|device| {
                device.set_nonblocking(true)?;
                // The library's own is not needed any more; the device lives as long as a descriptor of it.
                Ok(Self::from_descriptor(device.as_fd().try_clone_to_owned()?))
            })
            .collect()
    }

    /// A queue of the device that an earlier daemon made as [`Self::create`] does.
    pub fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self {
            device: descriptor.into(),
            read: vec![0; ROOM_BYTES],
            outboxes: std::array::from_fn(|_| Outbox::default()),
            refused_packets: 0,
            bad_reads: 0,
        }
    }

    /// Reads what is there once, and gives each packet to `each`; whether there was anything.
    ///
    /// # Errors
    /// When the device is broken.
    pub fn read(&mut self, each: impl FnMut(&[u8])) -> io::Result<bool> {
        let bytes = match self.device.read(&mut self.read) {
            Ok(bytes) => bytes,
            Err(why) if is_temporary(&why) => return Ok(false),
            Err(why) => return Err(why),
        };
        let Ok(inbound) = Inbound::new(&mut self.read[..bytes]) else {
            self.bad_reads += 1;
            return Ok(true);
        };
        // What cannot be split is none, nor what is larger than the device's packets were when it was made.
        if inbound.largest_bytes() > BUFFER_BYTES || inbound.each(each).is_err() {
            self.bad_reads += 1;
        }
        Ok(true)
    }

    /// Gives the kernel `packet`, with others of its connection that follow; [`Self::flush`] hands over what is kept.
    pub fn write(&mut self, packet: &[u8]) {
        let which = outbox_of(packet);
        if !self.outboxes[which].add(packet, Time::ZERO) {
            self.hand_over(which);
            self.outboxes[which].add(packet, Time::ZERO);
        }
    }

    /// Hands over what is kept.
    pub fn flush(&mut self) {
        for which in 0..OUTBOXES {
            self.hand_over(which);
        }
    }

    fn hand_over(&mut self, which: usize) {
        let outbox = &mut self.outboxes[which];
        if outbox.is_empty() {
            return;
        }
        let count = outbox.dues.len() as u64;
        if self.device.write(outbox.packet()).is_err() {
            self.refused_packets += count;
        }
        outbox.clear();
    }
}

/// Packets of a connection are kept at one place, in their order. Which connections share one matters to nobody.
fn outbox_of(packet: &[u8]) -> usize {
    let of_hosts_and_ports = match packet.first().map(|first| first >> 4) {
        Some(4) => packet.get(12..24),
        _ => packet.get(8..44),
    };
    let mix = |sum: u32, byte: &u8| sum.wrapping_mul(31).wrapping_add(u32::from(*byte));
    of_hosts_and_ports.map_or(0, |bytes| bytes.iter().fold(0, mix) as usize % OUTBOXES)
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

fn is_temporary(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    #[test]
    fn a_connection_has_one_place_and_many_have_many() {
        let packet = |port: u16, payload: &[u8]| {
            let mut bytes = Vec::new();
            let builder = PacketBuilder::ipv4([10, 1, 0, 1], [10, 2, 0, 1], 60).tcp(port, 80, 7, 9);
            builder.write(&mut bytes, payload).unwrap();
            bytes
        };
        let places: std::collections::BTreeSet<usize> =
            (0..200).map(|port| outbox_of(&packet(port, &[]))).collect();
        assert!(places.len() > OUTBOXES / 2);
        assert_eq!(outbox_of(&packet(5, &[1])), outbox_of(&packet(5, &[2; 900])));
        assert!(outbox_of(&[]) < OUTBOXES);
    }
}
