//! Packet traces in pcapng, for Wireshark, tshark and whatever else reads it.
//!
//! Each direction of each link is an interface, named as in the summary (`links.bottleneck.forward`). A packet is
//! written there when its last bit has reached the far end; time stamps are nanoseconds since the start of the run.
//! Drops and marks are written as packets as well, at the moment and on the interface where they happened, with a
//! comment (`drop: overflow`, `mark: early`): `frame.comment` finds them and `!frame.comment` leaves the packets that
//! were delivered. What happens in front of an edge's shapers is on the interface `domains.<domain>.<node>`, what
//! happens inside a node on `nodes.<node>`.
//!
//! A trace of several links shows each packet on each of them, which dissectors of TCP take for retransmissions:
//! [`PcapTrace::limited_to`] one direction where that matters.
//!
//! How packets are made to look is told in [`synthesis`](self).

mod synthesis;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapError};
use tidegate_engine::{Carried, LinkId, Network, Observer, Place};
use tidegate_packet::{DropReason, MarkReason, Packet};
use tidegate_units::{BitRate, Time};

use synthesis::{Look, Synthesis};

/// `if_tsresol`: time stamps count units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// What readers are told about the whole trace.
const ABOUT: &str = "Packets of a simulation. Addresses, ports and headers are synthetic; payload is not stored. Time \
                     stamps count from the start of the run.";

/// Writes a trace of all packets of a run.
///
/// Give `&mut trace` to [`Network::build`] as observer, run, and [`PcapTrace::finish`]. Writes are buffered here.
#[derive(Debug)]
pub struct PcapTrace<W: Write> {
    output: Output<W>,
    synthesis: Synthesis,
    looks: Vec<Look>,
    /// Interfaces written so far: one per direction of a link, then one per edge, then nodes as they are needed.
    interfaces: u32,
    first_edge_interface: u32,
    first_marker_interface: u32,
    node_names: Vec<String>,
    node_interfaces: HashMap<u32, u32>,
    only: Option<Vec<LinkId>>,
}

/// Where blocks go.
enum Output<W: Write> {
    Open(PcapNgWriter<BufWriter<W>>),
    /// Nothing is written after an error: blocks would follow half a block.
    Failed(io::Error),
}

impl<W: Write> std::fmt::Debug for Output<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open(_) => f.write_str("Open"),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
        }
    }
}

impl<W: Write> Output<W> {
    fn write<'a, B: PcapNgBlock<'a>>(&mut self, block: B) {
        if let Self::Open(writer) = self
            && let Err(error) = writer.write_pcapng_block(block)
        {
            let failed = Self::Failed(into_io(error));
            if let Self::Open(abandoned) = std::mem::replace(self, failed) {
                // Taken apart, for dropping it would try to write what is left.
                drop(abandoned.into_inner().into_parts());
            }
        }
    }
}

impl<W: Write> PcapTrace<W> {
    /// A trace of a run of `network`, written to `writer`.
    ///
    /// # Errors
    /// The first bytes cannot be written. Later errors are kept for [`PcapTrace::finish`].
    pub fn new(writer: W, network: &Network) -> io::Result<Self> {
        let application = concat!("tidegate ", env!("CARGO_PKG_VERSION"));
        let section = SectionHeaderBlock {
            // The same bytes on every machine.
            endianness: Endianness::Little,
            options: vec![
                SectionHeaderOption::Comment(ABOUT.into()),
                SectionHeaderOption::UserApplication(application.into()),
            ],
            ..SectionHeaderBlock::default()
        };
        let writer = PcapNgWriter::with_section_header(BufWriter::new(writer), section).map_err(into_io)?;
        let mut trace = Self {
            output: Output::Open(writer),
            synthesis: Synthesis::default(),
            looks: synthesis::looks(network),
            interfaces: 0,
            first_edge_interface: network.links.len() as u32 * 2,
            first_marker_interface: network.links.len() as u32 * 2
                + network.domains.iter().map(|domain| domain.edges.len() as u32).sum::<u32>(),
            node_names: network.nodes.iter().map(|node| node.name.clone()).collect(),
            node_interfaces: HashMap::new(),
            only: None,
        };
        trace.describe(network);
        Ok(trace)
    }

    /// Keeps only what happens on these directions of links.
    pub fn limited_to(mut self, links: &[LinkId]) -> Self {
        self.only = Some(links.to_vec());
        self
    }

    /// Writes what is still buffered, and gives the writer back.
    ///
    /// # Errors
    /// The first error that there was; nothing was written after it.
    pub fn finish(self) -> io::Result<W> {
        match self.output {
            Output::Open(writer) => writer.into_inner().into_inner().map_err(io::IntoInnerError::into_error),
            Output::Failed(error) => Err(error),
        }
    }

    /// Writes the interfaces that are known beforehand.
    fn describe(&mut self, network: &Network) {
        for link in &network.links {
            let [first, second] = link.ends.map(|end| &network.nodes[end.0 as usize].name);
            let directions =
                [("forward", &link.forward, first, second), ("reverse", &link.reverse, second, first)];
            for (way, direction, from, to) in directions {
                let description = format!("from {from} to {to}");
                self.add_interface(format!("links.{}.{way}", link.name), Some((direction.rate, description)));
            }
        }
        // Edges are numbered as the engine builds them: domain by domain.
        for domain in &network.domains {
            for node in &domain.edges {
                let name = format!("domains.{}.{}", domain.name, network.nodes[node.0 as usize].name);
                self.add_interface(name, None);
            }
        }
        for marker in &network.markers {
            self.add_interface(format!("markers.{}", marker.name), None);
        }
    }

    fn add_interface(&mut self, name: String, link: Option<(BitRate, String)>) -> u32 {
        let mut options = vec![InterfaceDescriptionOption::IfName(name.into())];
        if let Some((rate, description)) = link {
            options.push(InterfaceDescriptionOption::IfDescription(description.into()));
            options.push(InterfaceDescriptionOption::IfSpeed(rate.as_bps()));
        }
        options.push(InterfaceDescriptionOption::IfTsResol(NANOSECONDS));
        // A snap length of zero is no limit.
        self.output.write(InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 0, options });
        self.interfaces += 1;
        self.interfaces - 1
    }

    fn interface_of(&mut self, place: Place) -> u32 {
        match place {
            Place::Link(link) => link.0,
            Place::Edge(edge) => self.first_edge_interface + edge,
            Place::Marker(marker) => self.first_marker_interface + marker,
            Place::Node(node) => {
                if let Some(&interface) = self.node_interfaces.get(&node) {
                    return interface;
                }
                // A packet without a route may be nowhere in particular.
                let name = self.node_names.get(node as usize).map_or("nowhere", String::as_str);
                let interface = self.add_interface(format!("nodes.{name}"), None);
                self.node_interfaces.insert(node, interface);
                interface
            }
        }
    }

    #[inline]
    fn wants(&self, place: Place) -> bool {
        match &self.only {
            None => true,
            Some(links) => matches!(place, Place::Link(link) if links.contains(&link)),
        }
    }

    fn record(
        &mut self,
        now: Time,
        place: Place,
        packet: &Packet,
        carried: &Carried,
        message: Option<&[u8]>,
        comment: Option<String>,
    ) {
        if matches!(self.output, Output::Failed(_)) || !self.wants(place) {
            return;
        }
        let interface_id = self.interface_of(place);
        let look = &self.looks[synthesis::look_of(packet.flow)];
        let (data, original_len) = self.synthesis.packet(look, packet, &carried.tcp, message);
        self.output.write(EnhancedPacketBlock {
            interface_id,
            timestamp: Duration::from_nanos(now.as_nanos()),
            original_len,
            data: Cow::Borrowed(data),
            options: comment.into_iter().map(|text| EnhancedPacketOption::Comment(text.into())).collect(),
        });
    }
}

/// The observer is the trace borrowed, for a simulation keeps its observer and the trace is to be finished after it.
impl<W: Write> Observer for PcapTrace<W> {
    fn on_delivered(
        &mut self,
        now: Time,
        link: LinkId,
        packet: &Packet,
        carried: &Carried,
        message: Option<&[u8]>,
    ) {
        self.record(now, Place::Link(link), packet, carried, message, None);
    }

    fn on_drop(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: DropReason) {
        self.record(now, place, packet, carried, None, Some(format!("drop: {}", why.name())));
    }

    fn on_mark(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: MarkReason) {
        self.record(now, place, packet, carried, None, Some(format!("mark: {}", why.name())));
    }
}

/// The error of the writer beneath.
fn into_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tidegate_engine::{NodeKind, NodeSpec};
    use tidegate_packet::{FlowId, TcpHeader};

    /// Takes so many bytes, then the disk is full.
    #[derive(Debug)]
    struct Disk {
        room_bytes: usize,
        refusals: u32,
    }

    impl Write for &mut Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room_bytes == 0 {
                self.refusals += 1;
                return Err(io::ErrorKind::StorageFull.into());
            }
            let taken = bytes.len().min(self.room_bytes);
            self.room_bytes -= taken;
            Ok(taken)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Two nodes, a domain whose edges they are, no links, no flows: the only packets are control messages.
    fn network() -> Network {
        let node = |name: &str| NodeSpec { name: name.into(), kind: NodeKind::Router };
        let domain = tidegate_engine::DomainSpec {
            name: "isp".into(),
            edges: vec![tidegate_engine::NodeId(0), tidegate_engine::NodeId(1)],
            core: Vec::new(),
            mechanism: None,
            unpoliced: Vec::new(),
            control_loss: 0.0,
            clocks: Vec::new(),
            labels: None,
        };
        Network { nodes: vec![node("west"), node("east")], domains: vec![domain], ..Network::default() }
    }

    fn drop_at<W: Write>(trace: &mut PcapTrace<W>, place: Place) {
        let packet = Packet::new(0, FlowId(0), 100);
        let carried = Carried { created: Time::ZERO, route: 0, message: 0, tcp: TcpHeader::default() };
        trace.on_drop(Time::from_nanos(1_000_000_001), place, &packet, &carried, DropReason::NoRoute);
    }

    #[test]
    fn the_first_error_of_a_full_disk_comes_with_finish_and_nothing_is_written_after_it() {
        let mut disk = Disk { room_bytes: 20_000, refusals: 0 };
        let mut trace = PcapTrace::new(&mut disk, &network()).unwrap();
        for _ in 0..10_000 {
            drop_at(&mut trace, Place::Edge(0));
        }
        assert_eq!(trace.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.refusals, 1);
    }

    #[test]
    fn a_disk_that_is_full_only_when_the_buffer_is_written_out_is_noticed() {
        let mut disk = Disk { room_bytes: 0, refusals: 0 };
        let mut trace = PcapTrace::new(&mut disk, &network()).unwrap();
        drop_at(&mut trace, Place::Edge(0));
        assert_eq!(trace.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn drops_inside_nodes_get_interfaces_when_the_first_one_happens() {
        let mut trace = PcapTrace::new(Vec::new(), &network()).unwrap();
        for place in [Place::Node(1), Place::Edge(1), Place::Node(u32::MAX), Place::Node(1)] {
            drop_at(&mut trace, place);
        }
        let bytes = trace.finish().unwrap();
        let mut reader = pcap_file::pcapng::PcapNgReader::new(&bytes[..]).unwrap();
        let mut seen = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Some(packet) = block.unwrap().into_enhanced_packet() {
                assert_eq!(packet.timestamp, Duration::from_nanos(1_000_000_001));
                assert_eq!(packet.options, [EnhancedPacketOption::Comment("drop: no_route".into())]);
                seen.push(packet.interface_id);
            }
        }
        let names: Vec<&str> = reader
            .interfaces()
            .iter()
            .flat_map(|interface| &interface.options)
            .filter_map(|option| match option {
                InterfaceDescriptionOption::IfName(name) => Some(&**name),
                _ => None,
            })
            .collect();
        assert_eq!(names, ["domains.isp.west", "domains.isp.east", "nodes.east", "nodes.nowhere"]);
        assert_eq!(seen, [2, 1, 3, 2]);
    }

    #[test]
    fn a_limited_trace_leaves_out_the_rest() {
        let mut trace = PcapTrace::new(Vec::new(), &network()).unwrap().limited_to(&[LinkId(0)]);
        let empty = PcapTrace::new(Vec::new(), &network()).unwrap().finish().unwrap();
        drop_at(&mut trace, Place::Edge(1));
        assert_eq!(trace.finish().unwrap(), empty);
    }
}
