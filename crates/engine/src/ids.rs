//! Numbers of the parts of a network, and of flows.

use tidegate_packet::FlowId;
pub use tidegate_packet::LinkId;

/// A node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// The flow identities of a network: data of the `k`-th flow is 2k, its acknowledgments 2k + 1, and the control
/// messages of the `e`-th edge follow after all flows, and those of the hop mechanisms after all edges.
#[derive(Clone, Copy, Debug)]
pub struct FlowIds {
    /// How many flows there are.
    pub flows: u32,
}

impl FlowIds {
    /// Data of flow `index`.
    pub const fn data(index: u32) -> FlowId {
        FlowId(index * 2)
    }
    /// Acknowledgments of flow `index`.
    pub const fn acknowledgments(index: u32) -> FlowId {
        FlowId(index * 2 + 1)
    }
    /// Control messages sent by edge `edge`, or by hop mechanism `edge` less the number of edges.
    pub const fn control(self, edge: u32) -> FlowId {
        FlowId(self.flows * 2 + edge)
    }
}
