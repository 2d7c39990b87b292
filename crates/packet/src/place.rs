//! Where something happened to a packet.

/// One direction of a link. Directions of the `k`-th link are 2k (forward) and 2k + 1 (reverse).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

impl LinkId {
    /// The direction of the `index`-th link.
    pub const fn of(index: u32, reverse: bool) -> Self {
        Self(index * 2 + reverse as u32)
    }
    /// The other direction.
    pub const fn reversed(self) -> Self {
        Self(self.0 ^ 1)
    }
    /// Position of the link among links.
    pub const fn index(self) -> u32 {
        self.0 / 2
    }
}

/// Where something happened to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// One direction of a link.
    Link(LinkId),
    /// The shapers of an edge, by its number.
    Edge(u32),
    /// A marker, by its number.
    Marker(u32),
    /// A node, by its number: no route, TTL.
    Node(u32),
}
