//! What a peer is taken for, and what has passed between it and us.

/// What a peer is taken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// There is no session.
    Down,
    /// It was greeted, and has not answered yet.
    Greeting,
    /// Its mechanism answers to ours.
    Controlled,
    /// The rate is one that was chosen.
    Fixed(Why),
    /// Goodbye was said to it, and what hosts send there is dropped.
    Drained,
}

/// Why the rate is a fixed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The configuration says so.
    Chosen,
    /// It has not answered.
    Unanswered,
    /// It has another mechanism.
    Differs,
    /// It answers no more.
    Silent,
}

impl State {
    /// The name in results, and for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Greeting => "greeting",
            Self::Controlled => "controlled",
            Self::Fixed(Why::Chosen) => "fixed",
            Self::Fixed(Why::Unanswered) => "fixed: no answer",
            Self::Fixed(Why::Differs) => "fixed: another mechanism there",
            Self::Fixed(Why::Silent) => "fixed: silent",
            Self::Drained => "drained",
        }
    }
}

/// What has passed. Packets and bytes are those inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Came from hosts here for the other site.
    pub entered_packets: u64,
    /// Their bytes.
    pub entered_bytes: u64,
    /// Went to the other site.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Came from the other site for hosts here.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Came from the other site and were none of what it may send: wrong addresses, or no packets.
    pub strange_packets: u64,
    /// Passed on for others.
    pub relayed_packets: u64,
    /// Were too large for the path.
    pub too_large_packets: u64,
    /// Messages said to the other gateway, and their bytes outside.
    pub said_messages: u64,
    /// See `said_messages`.
    pub said_bytes: u64,
    /// Messages heard from it.
    pub heard_messages: u64,
    /// Messages of it that were too many.
    pub unheard_messages: u64,
    /// How often it asked for a session.
    pub asked: u64,
    /// How often it began a new life, or a new path.
    pub lives: u64,
    /// Datagrams that counted for nothing, by why: see [`crate::tunnel::Refusal`].
    pub refused: [u64; 5],
}
