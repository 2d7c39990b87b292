//! Packet traces in pcapng, for Wireshark, tshark and whatever else reads it.
//!
//! A [`Capture`] says where frames are taken. Each place is an interface: the host `hosts.<host>` for what a host sends and what
//! reaches it, the direction of a link, named as in the summary (`links.bottleneck.forward`), for what has reached its far
//! end. Time stamps are nanoseconds since the start of the run. Analyses of TCP take a packet that they see twice for a
//! retransmission: only where each is seen once, at the hosts that send data or at one direction of a link, do they find what
//! happened.
//!
//! Drops and marks are a trace of their own ([`Capture::fates`]): the packet at the moment and on the interface where it
//! happened, with a comment (`drop: overflow`, `mark: early`). What happens in front of an edge's shapers is on the interface
//! `domains.<domain>.<node>`, what happens inside a node on `nodes.<node>`.
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
use tidegate_engine::{Carried, DirectionSpec, LinkId, Network, NodeId, Observer, Place};
use tidegate_packet::{DropReason, MarkReason, Packet};
use tidegate_units::{BitRate, Time};

use synthesis::{Look, Synthesis};

/// `if_tsresol`: time stamps count units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// What readers are told about the whole trace.
const ABOUT: &str = "Packets of a simulation. Addresses, ports and headers are synthetic; payload is not stored. Time \
                     stamps count from the start of the run.";

/// Where frames are taken.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capture {
    at_senders: bool,
    hosts: Vec<NodeId>,
    every_link: bool,
    links: Vec<LinkId>,
    fates: bool,
}

impl Capture {
    /// At the hosts that send data: that, and the acknowledgments and reports that come back. No packet is there twice.
    pub fn at_senders() -> Self {
        Self { at_senders: true, ..Self::default() }
    }

    /// At the far end of each direction of each link: a packet is there once for each that it crosses.
    pub fn at_links() -> Self {
        Self { every_link: true, ..Self::default() }
    }

    /// At these hosts, and at the far ends of these directions of links.
    pub fn at(hosts: Vec<NodeId>, links: Vec<LinkId>) -> Self {
        Self { hosts, links, ..Self::default() }
    }

    /// What is dropped or marked, wherever that is.
    pub fn fates() -> Self {
        Self { fates: true, ..Self::default() }
    }
}

/// Writes a trace of the packets of a run.
///
/// Give `&mut trace` to [`Network::build`] as observer, run, and [`PcapTrace::finish`]. Writes are buffered here.
#[derive(Debug)]
pub struct PcapTrace<W: Write> {
    output: Output<W>,
    synthesis: Synthesis,
    looks: Vec<Look>,
    capture: Capture,
    /// By identity of a flow: which host sends its packets, and whether these are data; none for messages.
    origins: Vec<(NodeId, bool)>,
    /// By direction of a link: where it leads to.
    far_ends: Vec<NodeId>,
    names: Names,
    /// The numbers of interfaces, in the order in which they were needed first.
    interfaces: HashMap<Spot, u32>,
}

/// Where a frame was taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Spot {
    Host(NodeId),
    At(Place),
}

/// What interfaces are called.
#[derive(Debug)]
struct Names {
    /// By direction of a link: name, rate and description.
    links: Vec<(String, BitRate, String)>,
    /// By number of an edge, as the engine builds them: domain by domain.
    edges: Vec<String>,
    markers: Vec<String>,
    nodes: Vec<String>,
}

impl Names {
    fn of(network: &Network) -> Self {
        let node = |id: NodeId| &network.nodes[id.0 as usize].name;
        let links = network.links.iter().flat_map(|link| {
            let [first, second] = link.ends.map(node);
            let way = |way: &str, direction: &DirectionSpec, from: &String, to: &String| {
                (format!("links.{}.{way}", link.name), direction.rate, format!("from {from} to {to}"))
            };
            [way("forward", &link.forward, first, second), way("reverse", &link.reverse, second, first)]
        });
        let edges = network.domains.iter().flat_map(|domain| {
            domain.edges.iter().map(|edge| format!("domains.{}.{}", domain.name, node(*edge)))
        });
        Self {
            links: links.collect(),
            edges: edges.collect(),
            markers: network.markers.iter().map(|marker| format!("markers.{}", marker.name)).collect(),
            nodes: network.nodes.iter().map(|each| each.name.clone()).collect(),
        }
    }

    /// The interface of `spot`.
    fn describe(&self, spot: Spot) -> Vec<InterfaceDescriptionOption<'static>> {
        // A packet without a route may be nowhere in particular.
        let node = |number: u32| self.nodes.get(number as usize).map_or("nowhere", String::as_str);
        let mut more = Vec::new();
        let name = match spot {
            Spot::Host(host) => format!("hosts.{}", node(host.0)),
            Spot::At(Place::Link(link)) => {
                let (name, rate, description) = &self.links[link.0 as usize];
                more.push(InterfaceDescriptionOption::IfDescription(description.clone().into()));
                more.push(InterfaceDescriptionOption::IfSpeed(rate.as_bps()));
                name.clone()
            }
            Spot::At(Place::Edge(edge)) => self.edges[edge as usize].clone(),
            Spot::At(Place::Marker(marker)) => self.markers[marker as usize].clone(),
            Spot::At(Place::Node(number)) => format!("nodes.{}", node(number)),
        };
        let mut options = vec![InterfaceDescriptionOption::IfName(name.into())];
        options.append(&mut more);
        options.push(InterfaceDescriptionOption::IfTsResol(NANOSECONDS));
        options
    }
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
    /// A trace of a run of `network`, written to `writer`, with what `capture` takes.
    ///
    /// # Errors
    /// The first bytes cannot be written. Later errors are kept for [`PcapTrace::finish`].
    pub fn new(writer: W, network: &Network, capture: Capture) -> io::Result<Self> {
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
        // In the order of `FlowIds`: data, then what comes back from the first receiver.
        let origins = network.flows.iter().flat_map(|flow| [(flow.from, true), (flow.to[0], false)]);
        Ok(Self {
            output: Output::Open(writer),
            synthesis: Synthesis::default(),
            looks: synthesis::looks(network),
            capture,
            origins: origins.collect(),
            far_ends: network.links.iter().flat_map(|link| [link.ends[1], link.ends[0]]).collect(),
            names: Names::of(network),
            interfaces: HashMap::new(),
        })
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

    fn interface_of(&mut self, spot: Spot) -> u32 {
        if let Some(&interface) = self.interfaces.get(&spot) {
            return interface;
        }
        let options = self.names.describe(spot);
        // A snap length of zero is no limit.
        self.output.write(InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 0, options });
        let interface = self.interfaces.len() as u32;
        self.interfaces.insert(spot, interface);
        interface
    }

    /// The host at which a packet that has crossed `link` is to be seen: it leads there, and no further.
    fn host_at(&self, link: LinkId, packet: &Packet) -> Option<NodeId> {
        let &(origin, is_data) = self.origins.get(packet.flow.0 as usize)?;
        let host = self.far_ends[link.0 as usize];
        if self.capture.hosts.contains(&host) {
            return Some(host);
        }
        // What comes back to who sends the data of the flow.
        let sender = self.origins[packet.flow.0 as usize ^ 1].0;
        (self.capture.at_senders && !is_data && host == sender && host != origin).then_some(host)
    }

    fn record(
        &mut self,
        now: Time,
        spot: Spot,
        packet: &Packet,
        carried: &Carried,
        message: Option<&[u8]>,
        comment: Option<String>,
    ) {
        if matches!(self.output, Output::Failed(_)) {
            return;
        }
        let interface_id = self.interface_of(spot);
        let look = &self.looks[synthesis::look_of(packet.flow)];
        let (data, original_len) = self.synthesis.packet(look, packet, carried, message);
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
    fn on_sent(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        let Some(&(host, is_data)) = self.origins.get(packet.flow.0 as usize) else { return };
        if (self.capture.at_senders && is_data) || self.capture.hosts.contains(&host) {
            self.record(now, Spot::Host(host), packet, carried, None, None);
        }
    }

    fn on_delivered(
        &mut self,
        now: Time,
        link: LinkId,
        packet: &Packet,
        carried: &Carried,
        message: Option<&[u8]>,
    ) {
        if self.capture.every_link || self.capture.links.contains(&link) {
            self.record(now, Spot::At(Place::Link(link)), packet, carried, message, None);
        }
        if let Some(host) = self.host_at(link, packet) {
            self.record(now, Spot::Host(host), packet, carried, message, None);
        }
    }

    fn on_drop(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: DropReason) {
        if self.capture.fates {
            self.record(now, Spot::At(place), packet, carried, None, Some(format!("drop: {}", why.name())));
        }
    }

    fn on_mark(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: MarkReason) {
        if self.capture.fates {
            self.record(now, Spot::At(place), packet, carried, None, Some(format!("mark: {}", why.name())));
        }
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
            lies: Vec::new(),
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
        let mut trace = PcapTrace::new(&mut disk, &network(), Capture::fates()).unwrap();
        for _ in 0..10_000 {
            drop_at(&mut trace, Place::Edge(0));
        }
        assert_eq!(trace.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.refusals, 1);
    }

    #[test]
    fn a_disk_that_is_full_only_when_the_buffer_is_written_out_is_noticed() {
        let mut disk = Disk { room_bytes: 0, refusals: 0 };
        let mut trace = PcapTrace::new(&mut disk, &network(), Capture::fates()).unwrap();
        drop_at(&mut trace, Place::Edge(0));
        assert_eq!(trace.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn places_get_interfaces_when_something_happens_there_first() {
        let mut trace = PcapTrace::new(Vec::new(), &network(), Capture::fates()).unwrap();
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
        assert_eq!(names, ["nodes.east", "domains.isp.east", "nodes.nowhere"]);
        assert_eq!(seen, [0, 1, 2, 0]);
    }
}
