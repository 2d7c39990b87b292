//! Crowds: what one application does over many connections, that come and go.
//!
//! A crowd has places, each a flow of the network (or two, where its clients ask). A connection opens in a place that is free, and
//! frees it when all of it has been acknowledged; the place that has been free longest is taken next. So a run of a million transfers
//! needs the memory of those that are under way at once, of which `places` is the bound: what comes beyond it is refused, and counted.
//!
//! The application itself, [`Activity`], is without connections: it is told that time passed or a message arrived whole, and says what
//! to open, send and close. [`crate::simulation`] does it (`simulation/crowds.rs`).
//!
//! Source: the arrival of finite transfers as the evaluations of queues have it since RFC 7928, section 3.2. Deviations: a place has the
//! same ports each time, so that a queue with hashes sees as many flows as there are places, and not a new one each time.

mod arrivals;
mod sizes;
mod tally;
mod transfers;

use std::collections::VecDeque;

use tidegate_mechanism::random::{Seed, Substream};
use tidegate_mechanism::tcp::TcpConfig;
use tidegate_units::{Span, Time};

pub use self::arrivals::ArrivalsSpec;
pub use self::sizes::SizesSpec;
pub use self::tally::{IdleTimes, SizeClass, Times, TransferTally};
use self::transfers::Transfers;
use crate::network::StartSpec;
use crate::simulation::ConnectionCounters;
use crate::world::Alarm;

/// A crowd of a network: see the module.
#[derive(Clone, Debug)]
pub struct CrowdSpec {
    /// The flows that are its places, as positions in [`crate::Network::flows`]; all alike, TCP, with
    /// [`crate::ApplicationSpec::Crowd`]. The first one has its name.
    pub places: Vec<u32>,
    /// What it does.
    pub activity: ActivitySpec,
}

/// What a crowd does.
#[derive(Clone, Debug)]
pub enum ActivitySpec {
    /// Transfers, each over a connection of its own.
    Transfers {
        /// When they come.
        arrivals: ArrivalsSpec,
        /// How large they are.
        sizes: SizesSpec,
    },
    /// Transfers of these sizes, one by one; each begins so long after the last one: how long they take where nothing else is.
    Probe {
        /// Payload bytes of each.
        sizes: Vec<u64>,
        /// Between them.
        pause: Span,
    },
}

/// Names a place of a crowd.
pub(crate) type Place = u32;

/// What a crowd wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// A connection begins in this place.
    Open(Place),
    /// So many bytes are sent over it.
    Send(Place, u64),
    /// Nothing more will be.
    Close(Place),
}

/// A connection, or the room for one.
#[derive(Clone, Copy, Debug)]
struct Seat {
    /// The connection in the simulation.
    connection: u32,
    /// Since when; what was sent before belongs to the one before.
    opened: Time,
    /// Bytes that were to be sent over it so far.
    ordered: u64,
    /// Nothing more is sent.
    is_closed: bool,
    is_free: bool,
}

/// The connections of a crowd.
#[derive(Debug)]
struct Room {
    seats: Vec<Seat>,
    /// The longest free first.
    free: VecDeque<Place>,
}

impl Room {
    fn take(&mut self, now: Time) -> Option<Place> {
        let place = self.free.pop_front()?;
        let seat = &mut self.seats[place as usize];
        *seat = Seat { opened: now, ordered: 0, is_closed: false, is_free: false, ..*seat };
        Some(place)
    }
}

/// What decides; see the module.
#[derive(Debug)]
enum Activity {
    Transfers(Transfers),
}

/// A crowd at work.
#[derive(Debug)]
pub(crate) struct Crowd {
    activity: Activity,
    room: Room,
    /// Of each connection.
    pub(crate) config: TcpConfig,
    pub(crate) alarm: Alarm,
    /// Counts of connections that are over.
    pub(crate) over: ConnectionCounters,
    /// Counts of all when the statistics began.
    pub(crate) before: ConnectionCounters,
    orders: VecDeque<Order>,
    stop: Time,
}

impl Crowd {
    /// The crowd of `spec`, whose places have these connections.
    pub(crate) fn new(
        spec: &CrowdSpec,
        connections: impl Iterator<Item = u32>,
        config: TcpConfig,
        start: StartSpec,
        stop: Option<Time>,
        seed: Seed,
    ) -> Self {
        let mut random = Substream::new(seed);
        let start = start.draw(&mut random);
        let seats: Vec<Seat> = connections
            .map(|connection| Seat {
                connection,
                opened: Time::ZERO,
                ordered: 0,
                is_closed: true,
                is_free: true,
            })
            .collect();
        let free = (0..seats.len() as u32).collect();
        let activity = match &spec.activity {
            ActivitySpec::Transfers { arrivals, sizes } => {
                Activity::Transfers(Transfers::new(arrivals, sizes, start, random))
            }
            ActivitySpec::Probe { sizes, pause } => {
                Activity::Transfers(Transfers::probing(sizes, *pause, start, random))
            }
        };
        Self {
            activity,
            room: Room { seats, free },
            config,
            alarm: Alarm::default(),
            over: ConnectionCounters::default(),
            before: ConnectionCounters::default(),
            orders: VecDeque::new(),
            stop: stop.unwrap_or(Time::MAX),
        }
    }

    /// When it wants to be woken.
    pub(crate) fn next(&self) -> Option<Time> {
        let Activity::Transfers(transfers) = &self.activity;
        transfers.next().filter(|&at| at < self.stop)
    }

    /// Time passed.
    pub(crate) fn on_alarm(&mut self, now: Time) {
        if now < self.stop {
            let Activity::Transfers(transfers) = &mut self.activity;
            transfers.on_alarm(now, &mut self.room, &mut self.orders);
        }
    }

    /// What is to be done; until there is nothing.
    pub(crate) fn poll(&mut self) -> Option<Order> {
        let order = self.orders.pop_front()?;
        match order {
            Order::Open(_) => {}
            Order::Send(place, bytes) => self.room.seats[place as usize].ordered += bytes,
            Order::Close(place) => self.room.seats[place as usize].is_closed = true,
        }
        Some(order)
    }

    /// The connection in `place`.
    pub(crate) fn connection(&self, place: Place) -> u32 {
        self.room.seats[place as usize].connection
    }

    /// Since when it has been the one that it is.
    pub(crate) fn opened(&self, place: Place) -> Time {
        self.room.seats[place as usize].opened
    }

    /// All of the places' connections that are not over.
    pub(crate) fn live(&self) -> impl Iterator<Item = u32> {
        self.room.seats.iter().filter(|seat| !seat.is_free).map(|seat| seat.connection)
    }

    /// The receiver in `place` has so many bytes in order.
    pub(crate) fn on_delivered(&mut self, place: Place, bytes: u64, now: Time) {
        let seat = &self.room.seats[place as usize];
        if bytes == seat.ordered && !seat.is_free {
            let Activity::Transfers(transfers) = &mut self.activity;
            transfers.on_arrived_whole(place, now, &mut self.orders);
        }
    }

    /// So many bytes of what was sent in `place` are acknowledged: whether the connection is over.
    pub(crate) fn is_over(&self, place: Place, acknowledged: u64) -> bool {
        let seat = &self.room.seats[place as usize];
        seat.is_closed && !seat.is_free && acknowledged == seat.ordered
    }

    /// The connection in `place`, which counted so much, is over.
    pub(crate) fn release(&mut self, place: Place, counted: &ConnectionCounters, now: Time) {
        self.over.add(counted);
        self.room.seats[place as usize].is_free = true;
        self.room.free.push_back(place);
        let Activity::Transfers(transfers) = &mut self.activity;
        transfers.on_released(now);
    }

    /// The statistics begin; connections have counted so much before.
    pub(crate) fn restart_statistics(&mut self, counted: &ConnectionCounters) {
        self.before = *counted;
        let Activity::Transfers(transfers) = &mut self.activity;
        transfers.tally.restart();
    }

    /// What came of transfers.
    pub(crate) fn tally(&self) -> &TransferTally {
        let Activity::Transfers(transfers) = &self.activity;
        &transfers.tally
    }

    /// How long transfers take where nothing else is.
    pub(crate) fn set_idle_times(&mut self, times: IdleTimes) {
        let Activity::Transfers(transfers) = &mut self.activity;
        transfers.tally.idle = times;
    }

    /// How long each transfer of a probe took, in its order.
    pub(crate) fn probed(&self) -> &[(u64, Span)] {
        let Activity::Transfers(transfers) = &self.activity;
        transfers.probed()
    }

    /// An inner variable by name.
    pub(crate) fn variable(&self, name: &str) -> Option<f64> {
        let Activity::Transfers(transfers) = &self.activity;
        transfers.variable(name)
    }
}
