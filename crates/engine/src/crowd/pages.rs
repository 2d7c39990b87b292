//! Pages of the web: objects that depend on each other, over several connections; with one object a page is a request and its answer.
//!
//! Source: RFC 9112, section 9.4 (several connections; browsers have six), section 9.3 (they persist); RFC 9113, section 5 (several
//! answers over one). Deviations: an object is named by what must be there before it is asked for, in groups, and not one by one; the
//! answers to several requests over one connection come in the order of the requests, whole.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tidegate_mechanism::random::Substream;
use tidegate_units::{Span, Time};

use super::{Place, Room, SizesSpec, Times, Way};

/// Objects of a page that are asked for together.
#[derive(Clone, Debug)]
pub struct ObjectsSpec {
    /// How many; at least one.
    pub count: u32,
    /// How large each is.
    pub sizes: SizesSpec,
    /// The group of which all must be there first, by its position before this one; `None`: they are asked for at once.
    pub after: Option<usize>,
    /// How long after that they are asked for.
    pub delay: Span,
}

/// A client that loads a page, thinks, and loads the next.
#[derive(Clone, Debug)]
pub struct PagesSpec {
    /// What a page is made of.
    pub objects: Vec<ObjectsSpec>,
    /// Bytes of a request.
    pub request: u64,
    /// How long the server needs before an answer, on average; exponentially distributed.
    pub work: Span,
    /// The same of the client before a request, from when its connection is there.
    pub react: Span,
    /// Connections that open with a page, also those for which there is no request yet.
    pub early: u32,
    /// Requests without an answer over one connection.
    pub streams: u32,
    /// Exchanges over a new connection before the first request, bytes up and down.
    pub setup: Vec<[u64; 2]>,
    /// The mean time from a page until the next.
    pub think: Span,
    /// Whether thinking lasts exactly so long; else its length is exponentially distributed.
    pub is_even: bool,
    /// Whether connections stay open while the client thinks.
    pub keep: bool,
}

/// What came of pages since the statistics began.
#[derive(Clone, Default, Debug)]
pub struct PageTally {
    /// Pages that clients began with.
    pub begun: u64,
    /// Those of them that were there whole.
    pub loaded: u64,
    /// From the beginning until the last object was there.
    pub loads: Times,
    /// From the request for an object, which may have waited for a connection, until it was there.
    pub objects: Times,
    /// Connections opened.
    pub connections: u64,
}

/// An object that is asked for.
#[derive(Clone, Copy, Debug)]
struct Object {
    group: usize,
    bytes: u64,
    wanted: Time,
}

/// What happens over one connection.
#[derive(Clone, Debug, Default)]
struct Exchange {
    is_open: bool,
    /// Its handshake is over.
    is_connected: bool,
    /// Exchanges of the set-up that are to come.
    setup_left: usize,
    /// Requests that the client is about to send.
    about: VecDeque<Object>,
    /// Requests under way: where each ends, and what it asks for; nothing in a set-up.
    up: VecDeque<(u64, Option<Object>)>,
    /// The same of answers.
    down: VecDeque<(u64, Option<Object>)>,
    /// What the server works on.
    work: VecDeque<Option<Object>>,
}

impl Exchange {
    /// Requests and answers under way.
    fn busy(&self) -> usize {
        self.about.len() + self.up.len() + self.work.len() + self.down.len()
    }
}

/// What a host will have got round to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Done {
    /// The client, to the next request in this place.
    Request(Place),
    /// The server, to the next answer.
    Answer(Place),
}

/// The page that is being loaded.
#[derive(Debug)]
struct Load {
    began: Time,
    period: u32,
    /// By group: how many objects are still to come.
    missing: Vec<u32>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pages {
    spec: PagesSpec,
    random: Substream,
    next_page: Option<Time>,
    load: Option<Load>,
    /// Groups that will be asked for: when, and which.
    due: BinaryHeap<Reverse<(Time, usize)>>,
    /// Objects for which no connection was free yet.
    wanted: VecDeque<Object>,
    /// By place.
    exchanges: Vec<Exchange>,
    /// What hosts work on, and when each is done.
    works: BinaryHeap<Reverse<(Time, Done)>>,
    period: u32,
    pub(super) tally: PageTally,
}

impl Pages {
    pub(super) fn new(spec: &PagesSpec, start: Time, random: Substream) -> Self {
        Self {
            spec: spec.clone(),
            random,
            next_page: Some(start),
            load: None,
            due: BinaryHeap::new(),
            wanted: VecDeque::new(),
            exchanges: Vec::new(),
            works: BinaryHeap::new(),
            period: 0,
            tally: PageTally::default(),
        }
    }

    /// When something is to be asked for; no page begins at `stop` or later.
    pub(super) fn next(&self, stop: Time) -> Option<Time> {
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        let page = self.next_page.filter(|&at| at < stop);
        let done = self.works.peek().map(|Reverse((at, _))| *at);
        due.into_iter().chain(page).chain(done).min()
    }

    pub(super) fn on_alarm(&mut self, now: Time, stop: Time, room: &mut Room) {
        while let Some(&Reverse((at, done))) = self.works.peek()
            && at <= now
        {
            self.works.pop();
            match done {
                Done::Request(place) => self.send_request(place, room),
                Done::Answer(place) => self.answer(place, room),
            }
        }
        let begins = self.next_page.is_some_and(|at| at <= now && at < stop);
        if begins {
            self.begin(now);
        }
        while let Some(&Reverse((at, group))) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            for _ in 0..self.spec.objects[group].count {
                let bytes = self.spec.objects[group].sizes.draw(&mut self.random);
                self.wanted.push_back(Object { group, bytes, wanted: now });
            }
        }
        self.ask(now, room);
        if begins {
            self.open_early(now, room);
        }
    }

    /// A page begins.
    fn begin(&mut self, now: Time) {
        self.next_page = None;
        let missing = self.spec.objects.iter().map(|group| group.count).collect();
        self.load = Some(Load { began: now, period: self.period, missing });
        self.tally.begun += 1;
        self.make_due(None, now);
    }

    /// What waited for `group` is asked for in its time.
    fn make_due(&mut self, group: Option<usize>, now: Time) {
        for (position, objects) in self.spec.objects.iter().enumerate() {
            if objects.after == group {
                self.due.push(Reverse((now.saturating_add(objects.delay), position)));
            }
        }
    }

    /// Asks for what is wanted, over connections that have room, and over new ones.
    fn ask(&mut self, now: Time, room: &mut Room) {
        self.exchanges.resize_with(room.seats.len(), Exchange::default);
        while !self.wanted.is_empty() {
            let has_room =
                |exchange: &Exchange| exchange.is_open && exchange.busy() < self.spec.streams as usize;
            // The one with the least to do; of those the first.
            let busy = |&(_, exchange): &(usize, &Exchange)| exchange.busy();
            let idle = self.exchanges.iter().enumerate().filter(|(_, one)| has_room(one)).min_by_key(busy);
            let idle = idle.map(|(place, exchange)| (place as Place, busy(&(place, exchange)) == 0));
            // Those that are being set up will take one each.
            let coming = self.exchanges.iter().filter(|one| one.is_open && one.setup_left > 0).count();
            match idle {
                Some((place, true)) => self.request(place, now, room),
                _ if coming >= self.wanted.len() => return,
                // Before two requests share a connection, a new one is opened.
                other => match (self.open(now, room), other) {
                    (true, _) => {}
                    (false, Some((place, _))) => self.request(place, now, room),
                    (false, None) => return,
                },
            }
        }
    }

    /// Opens those connections that open with a page, as far as `ask` has not.
    fn open_early(&mut self, now: Time, room: &mut Room) {
        let open = self.exchanges.iter().filter(|exchange| exchange.is_open).count();
        for _ in open..self.spec.early as usize {
            let Some(place) = self.open_place(now, room) else { return };
            if self.spec.setup.is_empty() {
                room.connect(place);
            } else {
                self.exchange(place, room);
            }
        }
    }

    /// Opens a connection, if there is a place.
    fn open_place(&mut self, now: Time, room: &mut Room) -> Option<Place> {
        let place = room.open(now)?;
        self.tally.connections += 1;
        let setup_left = self.spec.setup.len();
        let is_connected = !room.has_handshake;
        self.exchanges[place as usize] =
            Exchange { is_open: true, is_connected, setup_left, ..Exchange::default() };
        Some(place)
    }

    /// Opens a connection, whether there was a place.
    fn open(&mut self, now: Time, room: &mut Room) -> bool {
        let Some(place) = self.open_place(now, room) else { return false };
        if self.spec.setup.is_empty() {
            self.request(place, now, room);
        } else {
            self.exchange(place, room);
        }
        true
    }

    /// The next exchange of the set-up begins.
    fn exchange(&mut self, place: Place, room: &mut Room) {
        let exchange = &mut self.exchanges[place as usize];
        let [up, _] = self.spec.setup[self.spec.setup.len() - exchange.setup_left];
        exchange.up.push_back((room.send(place, Way::Up, up), None));
    }

    /// Asks for the object that has been wanted longest.
    fn request(&mut self, place: Place, now: Time, room: &mut Room) {
        let Some(object) = self.wanted.pop_front() else { return };
        let exchange = &mut self.exchanges[place as usize];
        exchange.about.push_back(object);
        if self.spec.react.is_zero() {
            self.send_request(place, room);
        } else if exchange.is_connected {
            self.work(self.spec.react, Done::Request(place), now);
        } else {
            room.connect(place);
        }
    }

    /// The client has the next request in `place` ready.
    fn send_request(&mut self, place: Place, room: &mut Room) {
        let exchange = &mut self.exchanges[place as usize];
        let Some(object) = exchange.about.pop_front() else { return };
        exchange.up.push_back((room.send(place, Way::Up, self.spec.request), Some(object)));
    }

    /// A host begins with what takes `mean` on average.
    fn work(&mut self, mean: Span, what: Done, now: Time) {
        let takes = Span::from_secs_f64(self.random.exponential(mean.as_secs_f64()));
        self.works.push(Reverse((now.saturating_add(takes), what)));
    }

    /// The handshake in `place` is over.
    pub(super) fn on_connected(&mut self, place: Place, now: Time) {
        let Some(exchange) = self.exchanges.get_mut(place as usize).filter(|one| one.is_open) else { return };
        if core::mem::replace(&mut exchange.is_connected, true) {
            return;
        }
        for _ in 0..self.exchanges[place as usize].about.len() {
            self.work(self.spec.react, Done::Request(place), now);
        }
    }

    /// The server has the next answer in `place` ready.
    fn answer(&mut self, place: Place, room: &mut Room) {
        let exchange = &mut self.exchanges[place as usize];
        let Some(what) = exchange.work.pop_front() else { return };
        let setup = self.spec.setup.len() - exchange.setup_left;
        let bytes = what.map_or_else(|| self.spec.setup[setup][1], |object| object.bytes);
        exchange.down.push_back((room.send(place, Way::Down, bytes), what));
    }

    /// So many bytes arrived in `place`.
    pub(super) fn on_delivered(&mut self, place: Place, way: Way, bytes: u64, now: Time, room: &mut Room) {
        loop {
            let exchange = &mut self.exchanges[place as usize];
            let line = if way == Way::Up { &mut exchange.up } else { &mut exchange.down };
            if line.front().is_none_or(|(end, _)| *end > bytes) {
                return;
            }
            let Some((_, what)) = line.pop_front() else { return };
            match (way, what) {
                (Way::Up, what) => {
                    exchange.work.push_back(what);
                    if self.spec.work.is_zero() {
                        self.answer(place, room);
                    } else {
                        self.work(self.spec.work, Done::Answer(place), now);
                    }
                }
                (Way::Down, Some(object)) => self.on_object(&object, now, room),
                (Way::Down, None) => {
                    exchange.setup_left -= 1;
                    if exchange.setup_left > 0 {
                        self.exchange(place, room);
                    } else {
                        self.ask(now, room);
                    }
                }
            }
        }
    }

    /// An object is there.
    fn on_object(&mut self, object: &Object, now: Time, room: &mut Room) {
        let Some(load) = &mut self.load else { return };
        if load.period == self.period {
            self.tally.objects.add(now.since(object.wanted), None);
        }
        load.missing[object.group] -= 1;
        if load.missing[object.group] == 0 {
            if load.missing.iter().all(|&missing| missing == 0) {
                return self.on_loaded(now, room);
            }
            self.make_due(Some(object.group), now);
        }
        self.on_alarm(now, Time::ZERO, room);
    }

    /// The page is there.
    fn on_loaded(&mut self, now: Time, room: &mut Room) {
        let Some(load) = self.load.take() else { return };
        if load.period == self.period {
            self.tally.loaded += 1;
            self.tally.loads.add(now.since(load.began), None);
        }
        if !self.spec.keep {
            for (place, exchange) in (0..).zip(&mut self.exchanges) {
                if core::mem::take(&mut exchange.is_open) {
                    room.close(place);
                }
            }
        }
        let mean = self.spec.think.as_secs_f64();
        let think = if self.spec.is_even {
            self.spec.think
        } else {
            Span::from_secs_f64(self.random.exponential(mean))
        };
        // At least a nanosecond, so that time moves on.
        self.next_page = Some(now.saturating_add(think.max(Span::from_nanos(1))));
    }

    /// A connection is over: its place may take another one.
    pub(super) fn on_released(&mut self, now: Time, room: &mut Room) {
        self.ask(now, room);
    }

    pub(super) fn restart(&mut self, _now: Time) {
        self.period = self.period.wrapping_add(1);
        self.tally = PageTally::default();
    }

    pub(super) fn variable(&self, name: &str, _now: Time) -> Option<f64> {
        match name {
            "loaded_pages" => Some(self.tally.loaded as f64),
            "open_connections" => {
                Some(self.exchanges.iter().filter(|exchange| exchange.is_open).count() as f64)
            }
            _ => None,
        }
    }
}
