//! The way of a packet, prepared: each flow has a short program of steps, and a packet carries its position in it. So
//! forwarding is one array access, however large the network is.

use tidegate_mechanism::random::Substream;

use crate::ids::LinkId;

/// One step. Four bits of operation and 28 bits of operand in a pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Step {
    /// Join the queue of this link.
    Link(LinkId),
    /// The same, where a hop mechanism of the router sees to it.
    Hop(LinkId),
    /// Enter a domain: index of a [`Passage`].
    Ingress(u32),
    /// Get a CSFQ label at this border.
    Label(u32),
    /// Pass this marker.
    Mark(u32),
    /// Leave a domain: index of a [`Passage`] among the departures.
    Egress(u32),
    /// Go on along each branch: index into the branches.
    Branch(u32),
    /// A TCP segment for the receiver of this flow.
    TcpData(u32),
    /// An acknowledgment for the sender of this flow.
    TcpAck(u32),
    /// The same two, of connections that come and go in the places of a crowd.
    CrowdData(u32),
    /// An acknowledgment for the sender of such a place.
    CrowdAck(u32),
    /// Data of a stream for its receiver.
    StreamData(u32),
    /// A report of a stream for its sender.
    StreamReport(u32),
    /// A datagram for this sink.
    Datagram(u32),
    /// A packet from outside goes there again, by way of this sink.
    External(u32),
    /// A control message for the half of this border where traffic enters, from a border number that the message's
    /// packet names by its flow.
    Control(u32),
    /// A message for the mechanism of this node, from the neighbour behind the port by which it came.
    Neighbor(u32),
    /// Stay at the host for a moment, then go on elsewhere: index of a [`Pause`].
    Pause(u32),
    /// The flow has no route at the moment.
    Nowhere,
}

impl Step {
    /// Whether the step behind it in the program is the packet's next one.
    const fn goes_on(self) -> bool {
        match self {
            Self::Link(_)
            | Self::Hop(_)
            | Self::Ingress(_)
            | Self::Label(_)
            | Self::Mark(_)
            | Self::Egress(_) => true,
            Self::Branch(_)
            | Self::TcpData(_)
            | Self::TcpAck(_)
            | Self::CrowdData(_)
            | Self::CrowdAck(_)
            | Self::StreamData(_)
            | Self::StreamReport(_)
            | Self::Datagram(_)
            | Self::External(_)
            | Self::Control(_)
            | Self::Neighbor(_)
            | Self::Pause(_)
            | Self::Nowhere => false,
        }
    }

    /// Whether a packet for which this comes next does not end here.
    pub(crate) const fn leads_on(self) -> bool {
        self.goes_on() || matches!(self, Self::Branch(_))
    }
}

const OPERAND_BITS: u32 = 28;
const OPERAND: u32 = (1 << OPERAND_BITS) - 1;

/// The operand of step `kind` among those that share an operation.
fn shared(index: u32, kind: u32) -> u32 {
    assert!(index <= OPERAND >> 2, "a network has fewer than 2^26 of each such part");
    index << 2 | kind
}

/// Where traffic enters a domain, and by which borders it leaves; or where it leaves, and by which it entered.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    pub(crate) border: u32,
    pub(crate) peers: Vec<tidegate_mechanism::edge::PeerId>,
}

/// What the packets of one direction of a flow do before they leave their host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    /// The program that they go on with.
    pub(crate) then: u32,
    /// Twice the number of the flow, and one more for what goes back.
    pub(crate) way: u32,
}

/// All programs of a network.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    pool: Vec<u32>,
    pub(crate) passages: Vec<Passage>,
    pub(crate) departures: Vec<Passage>,
    /// Starts of the programs of each branching.
    pub(crate) branches: Vec<Vec<u32>>,
    pub(crate) pauses: Vec<Pause>,
    /// Where the program of those without a route is, once there are some.
    nowhere: Option<u32>,
}

impl Programs {
    /// The position at which the next step will stand.
    pub(crate) fn position(&self) -> u32 {
        u32::try_from(self.pool.len()).expect("programs have fewer than 2^32 steps")
    }

    /// Appends a step.
    pub(crate) fn push(&mut self, step: Step) {
        let (operation, operand) = match step {
            Step::Link(link) => (0, link.0),
            Step::Ingress(index) => (1, index),
            Step::Label(index) => (2, index),
            Step::Egress(index) => (3, index),
            Step::Branch(index) => (4, index),
            Step::TcpData(index) => (5, index),
            Step::TcpAck(index) => (6, index),
            Step::Datagram(index) => (7, index),
            Step::Control(index) => (8, index),
            Step::Mark(index) => (9, index),
            Step::Hop(link) => (10, link.0),
            Step::Neighbor(node) => (11, node),
            Step::External(index) => (12, index),
            // The operations are used up: these share one.
            Step::Nowhere => (13, 0),
            Step::Pause(index) => (13, shared(index, 1)),
            Step::CrowdData(index) => (13, shared(index, 2)),
            Step::CrowdAck(index) => (13, shared(index, 3)),
            Step::StreamData(index) => (14, index),
            Step::StreamReport(index) => (15, index),
        };
        assert!(operand <= OPERAND, "a network has fewer than 2^28 of each part");
        self.pool.push(operation << OPERAND_BITS | operand);
    }

    /// The program of packets without a route.
    pub(crate) fn nowhere(&mut self) -> u32 {
        if let Some(position) = self.nowhere {
            return position;
        }
        let position = self.position();
        self.push(Step::Nowhere);
        self.nowhere = Some(position);
        position
    }

    /// A program that pauses, and goes on with the one at `then`, of `way`.
    pub(crate) fn pause(&mut self, then: u32, way: u32) -> u32 {
        let index = self.pauses.len() as u32;
        self.pauses.push(Pause { then, way });
        let position = self.position();
        self.push(Step::Pause(index));
        position
    }

    /// The first entrance on the way from `position` that is one of the borders in question; none behind a branching.
    pub(crate) fn passage_into(&self, mut position: u32, is_one: impl Fn(u32) -> bool) -> Option<&Passage> {
        loop {
            match self.step(position) {
                Step::Pause(index) => position = self.pauses[index as usize].then,
                Step::Ingress(index) if is_one(self.passages[index as usize].border) => {
                    return Some(&self.passages[index as usize]);
                }
                step if step.goes_on() => position += 1,
                _ => return None,
            }
        }
    }

    /// The steps from `position` on until the packet is there; `None` if it goes several ways, or none.
    pub(crate) fn way(&self, mut position: u32) -> Option<Vec<Step>> {
        let mut way = Vec::new();
        loop {
            match self.step(position) {
                Step::Branch(_) | Step::Nowhere => return None,
                Step::Pause(index) => {
                    position = self.pauses[index as usize].then;
                    continue;
                }
                step if step.goes_on() => way.push(step),
                _ => return Some(way),
            }
            position += 1;
        }
    }

    /// The link that the step at `position` leads to, if it is one without a hop mechanism.
    #[inline]
    pub(crate) fn link(&self, position: u32) -> Option<LinkId> {
        let word = self.pool[position as usize];
        if word <= OPERAND { Some(LinkId(word)) } else { None }
    }

    /// Fetches the step at `position`.
    #[inline]
    pub(crate) fn fetch(&self, position: u32) {
        prefetch_index::prefetch_index(&self.pool, position as usize);
    }

    /// The step at `position`.
    #[inline]
    pub(crate) fn step(&self, position: u32) -> Step {
        let word = self.pool[position as usize];
        let operand = word & OPERAND;
        match word >> OPERAND_BITS {
            0 => Step::Link(LinkId(operand)),
            1 => Step::Ingress(operand),
            2 => Step::Label(operand),
            3 => Step::Egress(operand),
            4 => Step::Branch(operand),
            5 => Step::TcpData(operand),
            6 => Step::TcpAck(operand),
            7 => Step::Datagram(operand),
            8 => Step::Control(operand),
            9 => Step::Mark(operand),
            10 => Step::Hop(LinkId(operand)),
            11 => Step::Neighbor(operand),
            12 => Step::External(operand),
            13 => match operand & 3 {
                0 => Step::Nowhere,
                1 => Step::Pause(operand >> 2),
                2 => Step::CrowdData(operand >> 2),
                _ => Step::CrowdAck(operand >> 2),
            },
            14 => Step::StreamData(operand),
            _ => Step::StreamReport(operand),
        }
    }
}

/// The programs among which a flow's packets choose.
#[derive(Clone, Debug)]
pub(crate) enum Routes {
    One(u32),
    /// Each packet draws one.
    Many(Box<Spread>),
}

/// Several programs, and the flow's own stream to draw from.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub(crate) programs: Vec<u32>,
    pub(crate) random: Substream,
}

impl Routes {
    #[inline]
    pub(crate) fn choose(&mut self) -> u32 {
        match self {
            Self::One(program) => *program,
            Self::Many(spread) => spread.programs[spread.random.below(spread.programs.len() as u32) as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: [Step; 10] = [
        Step::TcpData(0),
        Step::TcpAck(0),
        Step::CrowdData(0),
        Step::CrowdAck(5),
        Step::StreamData(0),
        Step::StreamReport(0),
        Step::Datagram(0),
        Step::External(0),
        Step::Control(0),
        Step::Neighbor(0),
    ];

    #[test]
    fn a_way_ends_where_the_packet_is_delivered_whatever_carries_it() {
        let links = [Step::Link(LinkId(1)), Step::Mark(0), Step::Hop(LinkId(2)), Step::Egress(0)];
        for end in ENDS {
            let mut programs = Programs::default();
            for step in links.into_iter().chain([end]) {
                programs.push(step);
            }
            assert_eq!(programs.way(0).as_deref(), Some(&links[..]), "{end:?}");
            assert_eq!(programs.way(4), Some(Vec::new()));
        }
    }

    #[test]
    fn what_follows_a_pause_is_part_of_the_way() {
        let mut programs = Programs::default();
        programs.passages.push(Passage { border: 7, peers: Vec::new() });
        for step in [Step::Link(LinkId(1)), Step::Ingress(0), Step::TcpData(0)] {
            programs.push(step);
        }
        let start = programs.pause(0, 3);
        assert_eq!(programs.step(start), Step::Pause(0));
        assert_eq!(programs.pauses[0].way, 3);
        assert_eq!(programs.way(start), programs.way(0));
        assert!(programs.passage_into(start, |border| border == 7).is_some());
        programs.push(Step::Nowhere);
        assert_eq!(programs.way(start + 1), None, "nowhere is no pause");
    }

    #[test]
    fn an_entrance_is_found_behind_markers_and_routers_with_mechanisms() {
        let mut programs = Programs::default();
        programs.passages.push(Passage { border: 7, peers: Vec::new() });
        for step in [Step::Mark(0), Step::Hop(LinkId(2)), Step::Ingress(0), Step::StreamData(0)] {
            programs.push(step);
        }
        assert_eq!(programs.passage_into(0, |border| border == 7).map(|passage| passage.border), Some(7));
        assert!(programs.passage_into(0, |border| border == 8).is_none());
    }
}
