//! Crowds: what one application does over many connections, that come and go.
//!
//! A crowd has places, each a flow of the network (or two, where its clients ask). A connection opens in a place that is free, and
//! frees it when all of it has been acknowledged; the place that has been free longest is taken next. So a run of a million transfers
//! needs the memory of those that are under way at once, of which `places` is the bound: what comes beyond it is refused, and counted.
//!
//! The application itself, [`Activity`], is without connections: it is told that time passed or bytes arrived, and says what to open,
//! send and close. Clients that ask have connections with data in both directions: `Up` is what they ask, `Down` what they get. [`crate::simulation`] does it (`simulation/crowds.rs`).
//!
//! Source: the arrival of finite transfers as the evaluations of queues have it since RFC 7928, section 3.2. Deviations: a place has the
//! same ports each time, so that a queue with hashes sees as many flows as there are places, and not a new one each time.

mod arrivals;
mod pages;
mod sizes;
mod tally;
mod transfers;
mod video;

use std::collections::VecDeque;

use tidegate_mechanism::random::{Seed, Substream};
use tidegate_mechanism::tcp::TcpConfig;
use tidegate_units::{Span, Time};

pub use self::arrivals::ArrivalsSpec;
use self::pages::Pages;
pub use self::pages::{ObjectsSpec, PageTally, PagesSpec};
pub use self::sizes::SizesSpec;
pub use self::tally::{IdleTimes, SizeClass, Times, TransferTally};
use self::transfers::Transfers;
use self::video::Video;
pub use self::video::{VideoRule, VideoSpec, VideoTally};
use crate::network::StartSpec;
use crate::simulation::ConnectionCounters;
use crate::world::Alarm;

/// A crowd of a network: see the module.
#[derive(Clone, Debug)]
pub struct CrowdSpec {
    /// The flows that are its places, as positions in [`crate::Network::flows`]; all alike, TCP, with
    /// [`crate::ApplicationSpec::Crowd`]. The first one has its name.
    pub places: Vec<u32>,
    /// Where its clients ask: by place, the flow that goes back, paired with it ([`crate::Network::pairs`]); else empty.
    pub asking: Vec<u32>,
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
    /// Pages of a client who asks for them.
    Pages(PagesSpec),
    /// A film of a client who asks for its segments.
    Video(VideoSpec),
}

/// Names a place of a crowd.
pub(crate) type Place = u32;

/// Which way over a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// As the flow goes.
    Down,
    /// What clients ask.
    Up,
}

/// What a crowd wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// A connection begins in this place.
    Open(Place),
    /// Its handshake begins, although nothing is to be sent yet.
    Connect(Place),
    /// So many bytes are sent over it.
    Send(Place, Way, u64),
    /// Nothing more will be.
    Close(Place),
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// The connection in the simulation.
    connection: u32,
    /// Bytes that were to be sent over it so far.
    ordered: u64,
    /// Those of them that arrived in order.
    delivered: u64,
}

/// A connection, or the room for one.
#[derive(Clone, Copy, Debug)]
struct Seat {
    down: Line,
    up: Option<Line>,
    /// Since when; what was sent before belongs to the one before.
    opened: Time,
    /// Nothing more is sent.
    is_closed: bool,
    is_free: bool,
}

impl Seat {
    const fn line(&mut self, way: Way) -> Option<&mut Line> {
        match way {
            Way::Down => Some(&mut self.down),
            Way::Up => self.up.as_mut(),
        }
    }
}

/// The connections of a crowd, and what is to be done with them.
#[derive(Debug)]
struct Room {
    seats: Vec<Seat>,
    /// Whether connections begin with a handshake.
    has_handshake: bool,
    /// The longest free first.
    free: VecDeque<Place>,
    orders: VecDeque<Order>,
}

impl Room {
    /// Opens a connection in the place that has been free longest.
    fn open(&mut self, now: Time) -> Option<Place> {
        let place = self.free.pop_front()?;
        let seat = &mut self.seats[place as usize];
        for way in [Way::Down, Way::Up] {
            if let Some(line) = seat.line(way) {
                *line = Line { ordered: 0, delivered: 0, ..*line };
            }
        }
        *seat = Seat { opened: now, is_closed: false, is_free: false, ..*seat };
        self.orders.push_back(Order::Open(place));
        Some(place)
    }

    /// Begins the handshake in `place`, although nothing is to be sent yet.
    fn connect(&mut self, place: Place) {
        self.orders.push_back(Order::Connect(place));
    }

    /// Sends `bytes` more in `place`: how many were sent over it then.
    fn send(&mut self, place: Place, way: Way, bytes: u64) -> u64 {
        let line = self.seats[place as usize].line(way).expect("who does not ask has one way");
        line.ordered += bytes;
        self.orders.push_back(Order::Send(place, way, bytes));
        line.ordered
    }

    /// Sends no more in `place`.
    fn close(&mut self, place: Place) {
        self.seats[place as usize].is_closed = true;
        self.orders.push_back(Order::Close(place));
    }
}

/// What decides; see the module.
#[derive(Debug)]
enum Activity {
    Transfers(Box<Transfers>),
    Pages(Box<Pages>),
    Video(Box<Video>),
}

/// Asks the activity, whichever it is.
macro_rules! ask {
    ($activity:expr, $one:ident => $what:expr) => {
        match $activity {
            Activity::Transfers($one) => $what,
            Activity::Pages($one) => $what,
            Activity::Video($one) => $what,
        }
    };
}

/// What came of a crowd since the statistics began.
#[derive(Clone, Debug)]
pub enum CrowdTally {
    /// Of transfers, also of a probe.
    Transfers(Box<TransferTally>),
    /// Of pages.
    Pages(Box<PageTally>),
    /// Of a film.
    Video(VideoTally),
}

/// A crowd at work.
#[derive(Debug)]
pub(crate) struct Crowd {
    activity: Activity,
    room: Room,
    /// Of each connection.
    pub(crate) config: TcpConfig,
    /// The same for those that answer, where clients ask.
    answers: Option<TcpConfig>,
    pub(crate) alarm: Alarm,
    /// Counts of connections that are over: of what goes down.
    pub(crate) over: ConnectionCounters,
    /// Counts of all when the statistics began.
    pub(crate) before: ConnectionCounters,
    stop: Time,
}

impl Crowd {
    /// The crowd of `spec`, whose places have these connections, down and where its clients ask up.
    pub(crate) fn new(
        spec: &CrowdSpec,
        connections: &[(u32, Option<u32>)],
        config: TcpConfig,
        start: StartSpec,
        stop: Option<Time>,
        seed: Seed,
    ) -> Self {
        let mut random = Substream::new(seed);
        let start = start.draw(&mut random);
        let line = |connection| Line { connection, ordered: 0, delivered: 0 };
        let seat = |&(down, up): &(u32, Option<u32>)| Seat {
            down: line(down),
            up: up.map(line),
            opened: Time::ZERO,
            is_closed: true,
            is_free: true,
        };
        let seats: Vec<Seat> = connections.iter().map(seat).collect();
        let free = (0..seats.len() as u32).collect();
        let activity = match &spec.activity {
            ActivitySpec::Transfers { arrivals, sizes } => {
                Activity::Transfers(Box::new(Transfers::new(arrivals, sizes, start, random)))
            }
            ActivitySpec::Probe { sizes, pause } => {
                Activity::Transfers(Box::new(Transfers::probing(sizes, *pause, start, random)))
            }
            ActivitySpec::Pages(pages) => Activity::Pages(Box::new(Pages::new(pages, start, random))),
            ActivitySpec::Video(video) => {
                Activity::Video(Box::new(Video::new(video, start, stop.unwrap_or(Time::MAX))))
            }
        };
        Self {
            activity,
            room: Room { seats, has_handshake: config.handshake, free, orders: VecDeque::new() },
            // Who asks opens the connection, for both directions.
            answers: (!spec.asking.is_empty()).then(|| TcpConfig { handshake: false, ..config.clone() }),
            config,
            alarm: Alarm::default(),
            over: ConnectionCounters::default(),
            before: ConnectionCounters::default(),
            stop: stop.unwrap_or(Time::MAX),
        }
    }

    /// What connections begin with, down.
    pub(crate) fn down_config(&self) -> &TcpConfig {
        self.answers.as_ref().unwrap_or(&self.config)
    }

    /// When it wants to be woken.
    pub(crate) fn next(&self) -> Option<Time> {
        ask!(&self.activity, one => one.next(self.stop))
    }

    /// Time passed.
    pub(crate) fn on_alarm(&mut self, now: Time) {
        ask!(&mut self.activity, one => one.on_alarm(now, self.stop, &mut self.room));
    }

    /// What is to be done; until there is nothing.
    pub(crate) fn poll(&mut self) -> Option<Order> {
        self.room.orders.pop_front()
    }

    /// The connection in `place`, down, and up where there is one.
    pub(crate) fn connections(&self, place: Place) -> (u32, Option<u32>) {
        let seat = &self.room.seats[place as usize];
        (seat.down.connection, seat.up.map(|line| line.connection))
    }

    /// Since when it has been the one that it is.
    pub(crate) fn opened(&self, place: Place) -> Time {
        self.room.seats[place as usize].opened
    }

    /// The places whose connections are not over.
    pub(crate) fn live(&self) -> impl Iterator<Item = Place> {
        (0..).zip(&self.room.seats).filter(|(_, seat)| !seat.is_free).map(|(place, _)| place)
    }

    /// The receiver in `place` has so many bytes in order. Whether that was news.
    pub(crate) fn on_delivered(&mut self, place: Place, way: Way, bytes: u64, now: Time) -> bool {
        let seat = &mut self.room.seats[place as usize];
        let is_free = seat.is_free;
        let Some(line) = seat.line(way).filter(|line| line.delivered < bytes && !is_free) else {
            return false;
        };
        line.delivered = bytes;
        ask!(&mut self.activity, one => one.on_delivered(place, way, bytes, now, &mut self.room));
        true
    }

    /// The handshake of the connection in `place` is over, which its client began.
    pub(crate) fn on_connected(&mut self, place: Place, now: Time) {
        if let Activity::Pages(pages) = &mut self.activity {
            pages.on_connected(place, now);
        }
    }

    /// So many bytes of what was sent in `place` are acknowledged, down and up: whether the connection is over.
    pub(crate) fn is_over(&self, place: Place, down: u64, up: u64) -> bool {
        let seat = &self.room.seats[place as usize];
        let all_up = seat.up.map_or(0, |line| line.ordered);
        seat.is_closed && !seat.is_free && down == seat.down.ordered && up == all_up
    }

    /// The connection in `place`, which counted so much, is over.
    pub(crate) fn release(&mut self, place: Place, counted: &ConnectionCounters, now: Time) {
        self.over.add(counted);
        self.room.seats[place as usize].is_free = true;
        self.room.free.push_back(place);
        ask!(&mut self.activity, one => one.on_released(now, &mut self.room));
    }

    /// The statistics begin; connections have counted so much before.
    pub(crate) fn restart_statistics(&mut self, counted: &ConnectionCounters, now: Time) {
        self.before = *counted;
        ask!(&mut self.activity, one => one.restart(now));
    }

    /// What came of it until now.
    pub(crate) fn tally(&self, now: Time) -> CrowdTally {
        match &self.activity {
            Activity::Transfers(transfers) => CrowdTally::Transfers(Box::new(transfers.tally.clone())),
            Activity::Pages(pages) => CrowdTally::Pages(Box::new(pages.tally.clone())),
            Activity::Video(video) => CrowdTally::Video(video.tally(now)),
        }
    }

    /// How long transfers take where nothing else is; nothing for others.
    pub(crate) fn set_idle_times(&mut self, times: IdleTimes) {
        if let Activity::Transfers(transfers) = &mut self.activity {
            transfers.tally.idle = times;
        }
    }

    /// How long each transfer of a probe took, in its order; nothing for others.
    pub(crate) fn probed(&self) -> &[(u64, Span)] {
        match &self.activity {
            Activity::Transfers(transfers) => transfers.probed(),
            Activity::Pages(_) | Activity::Video(_) => &[],
        }
    }

    /// An inner variable by name.
    pub(crate) fn variable(&self, name: &str, now: Time) -> Option<f64> {
        ask!(&self.activity, one => one.variable(name, now))
    }
}
