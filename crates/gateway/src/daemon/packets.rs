//! A packet thread: what is due goes, what comes in is handled, and in between it sleeps. There may be several
//! ([`super::threads`]); what comes to the wrong one is handed over.
//!
//! The core is told the instants at which things are due, not those at which the machine got round to them: a shaper whose timer
//! fires late then sends what it owes at once, and several packets go with one call. Being late by more than [`LATE_MAX`] is
//! forgiven to nobody. So it is with what comes: datagrams have come when the kernel stamped them, however long they waited here.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::sched_yield;
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use tidegate_packet::Dscp;
use tidegate_units::{Span, Time};
use tidegate_wire::recording::recorder::Recorder;

use super::batch::Batch;
use super::io::clock;
use super::io::tun::Tun;
use super::io::udp::{Refusals, Udp};
use super::look::{Look, Wire};
use super::order::{Change, Order, Shared};
use super::recording::Ended;
use super::rounds::{Pace, Rounds};
use super::threads::accord::{Decided, Proposal};
use super::threads::beside::{Beside, Wan};
use super::threads::lane::Kind;
use super::threads::share::Share;
use crate::core::store::Way;
use crate::core::{Input, Output};
use crate::record;
use crate::tunnel::wireguard::WireguardTunnels;

/// What is later than this, besides what rounds are apart, counts as due now: a burst of what was owed would be a queue elsewhere.
const LATE_MAX: Span = Span::from_millis(2);
/// It wakes up at least so often, which tells others that it is alive.
const IDLE_MAX: Span = Span::from_millis(500);
/// How often it leaves a look at itself.
const LOOK_EVERY: Span = Span::from_millis(250);
/// Packets that are read of one device or socket before the others get their turn. One read may give 64 kB of them.
const TURN_PACKETS: usize = 256;
/// So long what waits may take to leave at the end.
const DRAIN_MAX: Span = Span::from_millis(500);

/// The core of the daemon.
pub type Core = record::Core<WireguardTunnels, Recorder>;

/// See the module.
pub struct Packets {
    /// Always there but for a moment in a reload.
    gateway: Option<Core>,
    /// Who is told how the recording ended.
    recording: Option<SyncSender<Ended>>,
    tun: Tun,
    sockets: Vec<Udp>,
    /// The threads beside this one, if there are any.
    beside: Option<Beside>,
    batch: Batch,
    room: Vec<u8>,
    orders: Receiver<Order>,
    shared: Arc<Shared>,
    /// A change that other threads are still to hear of.
    laid: Option<Proposal<Box<Change>>>,
    /// It was told to say goodbye.
    drains: bool,
    look_at: Time,
    /// The latest instant that the core was told: for it, time does not go back.
    told: Time,
    rounds: Rounds,
    /// The greatest lateness since the last look.
    late: Span,
    reads: u64,
}

impl Packets {
    /// A thread's work, with what was opened for it; and who is told how the recording ended, if there is one.
    pub fn new(
        (gateway, recording): (Core, Option<SyncSender<Ended>>),
        (tun, sockets): (Tun, Vec<Udp>),
        beside: Option<Beside>,
        pace: Pace,
        orders: Receiver<Order>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            gateway: Some(gateway),
            recording,
            tun,
            sockets,
            beside,
            batch: Batch::default(),
            room: vec![0; 1 << 16],
            orders,
            shared,
            laid: None,
            drains: false,
            look_at: Time::ZERO,
            told: Time::ZERO,
            rounds: Rounds::new(pace),
            late: Span::ZERO,
            reads: 0,
        }
    }

    fn gateway(&mut self) -> &mut Core {
        self.gateway.as_mut().expect("there is one between reloads")
    }

    /// Until somebody ends it.
    ///
    /// # Errors
    /// When the device breaks.
    pub fn run(mut self) -> io::Result<()> {
        // The kernel may wake us late by 50 us otherwise. Without it we are late, and nothing else.
        let _ = prctl::set_timerslack(1);
        let mut ends_at = None;
        let mut reads_all = false;
        loop {
            let now = clock::now();
            if now >= self.look_at {
                self.look_at = now + LOOK_EVERY;
                self.leave_look(now);
            }
            while let Ok(order) = self.orders.try_recv() {
                // What was decided before the order was given is so before it is obeyed.
                self.settle(now);
                self.told = self.told.max(now);
                if self.obey(order, now) {
                    ends_at = Some(now + DRAIN_MAX);
                }
            }
            self.settle(now);
            if ends_at.is_some_and(|at| now >= at || self.gateway().is_drained()) {
                let end = clock::now();
                self.run_due(end);
                self.end_recording(end);
                return Ok(());
            }
            self.shared.beats.fetch_add(1, Ordering::Relaxed);
            let ready = if reads_all { None } else { Some(self.wait(now)) };
            let began = clock::now();
            let has_more = self.read(ready.as_deref())?;
            let sleeps = self.rounds.has_much(began) && !has_more && self.rounds.together() > Span::ZERO;
            if sleeps {
                sleep_until(began + self.rounds.together());
            }
            // After a sleep where much goes there is something everywhere: reading it costs less than asking whether there is.
            reads_all = sleeps;
        }
    }

    /// Whether it is to end.
    fn obey(&mut self, order: Order, now: Time) -> bool {
        match order {
            Order::Reload(proposal) => {
                proposal.accept();
                self.laid = Some(proposal);
                false
            }
            Order::EndRecording => {
                self.end_recording(now);
                false
            }
            Order::Find(number, endpoint) => {
                self.gateway().find(number, endpoint, now);
                false
            }
            Order::Routes { site, near, is_elsewhere } => {
                self.gateway().on_routes(site, near, is_elsewhere);
                false
            }
            Order::Restamp => {
                self.gateway().tunnels_mut().restamp();
                false
            }
            Order::Drain { ends } => {
                self.drains = true;
                self.gateway().drain(now);
                ends
            }
        }
    }

    /// What lies before it begins, if all threads have it.
    fn settle(&mut self, now: Time) {
        let Some(laid) = self.laid.take() else { return };
        match laid.decided() {
            Decided::Open(still) => self.laid = Some(still),
            Decided::Begins(change, says) => {
                self.told = self.told.max(now);
                self.reload(*change, now);
                // Whoever asked may have gone away.
                let _ = says.try_send(());
            }
            Decided::Off => {}
        }
    }

    /// Another core, with the tunnels of the one before: sessions go on, and whoever waits is lost. So does a
    /// recording, unless there is nothing left to record. Sites that were on another thread have no session yet.
    fn reload(&mut self, change: Change, now: Time) {
        let Change { share, pace, recording, owners, moved } = change;
        let Share { mut config, text, numbers, peers } = share;
        if config.sites.is_empty() {
            self.end_recording(now);
        }
        let Some(old) = self.gateway.take() else { return };
        self.rounds.change(pace);
        // Where a site was heard last counts more than where its name leads, and another place in the file more than both.
        let before = old.status();
        let names: Vec<String> = config.sites.iter().map(|site| site.name.clone()).collect();
        for site in config.sites.iter_mut().filter(|site| !moved.contains(&site.name)) {
            // Names are in order.
            let known = before.binary_search_by(|status| status.name.cmp(&site.name));
            site.endpoint = known.ok().and_then(|at| before[at].endpoint).or(site.endpoint);
        }
        if let Some(beside) = &mut self.beside {
            beside.change(owners);
        }
        let (tape, ended) = recording.unzip();
        self.recording = self.recording.take().or(ended);
        let anew = |tunnels: &mut WireguardTunnels| tunnels.change(numbers, &peers, now);
        self.gateway = Some(old.reload(config, &text, tape, now, anew));
        for (number, name) in (0..).zip(&names).filter(|(_, name)| !moved.contains(*name)) {
            if let Ok(at) = before.binary_search_by(|status| status.name.cmp(name)) {
                self.gateway().settle(number, before[at].home);
            }
        }
        if self.drains {
            self.gateway().drain(now);
        }
        // Who asks after it sees the sites where they are.
        self.leave_look(now);
    }

    /// The recording ends, if there is one. What is still to be written others wait for.
    fn end_recording(&mut self, now: Time) {
        let tape = self.gateway().stop(now);
        if let Some((tape, ended)) = tape.zip(self.recording.take()) {
            // Whoever began it may have gone away.
            let _ = ended.try_send(tape.finish(now));
        }
    }

    /// Sleeps until something is due or comes in: what can be read.
    fn wait(&mut self, now: Time) -> Vec<bool> {
        let due = self.gateway().poll_timeout().unwrap_or(Time::MAX);
        // What others have handed over is due.
        let is_idle = self.beside.as_ref().is_none_or(Beside::lies_down);
        let at = if is_idle { due.min(now + IDLE_MAX) } else { now };
        let looks_on = self.rounds.looks_on(now, at);
        let descriptors = [self.tun.as_fd(), self.shared.bell.wake.as_fd()].into_iter();
        let sockets = self.sockets.iter().map(AsFd::as_fd);
        let mut waits: Vec<PollFd<'_>> =
            descriptors.chain(sockets).map(|one| PollFd::new(one, PollFlags::POLLIN)).collect();
        let polled = poll(&mut waits, now, at, looks_on);
        if looks_on > Span::ZERO {
            self.rounds.on_looked(clock::now().since(now).min(looks_on));
        }
        let ready = waits.iter().map(|one| one.any().unwrap_or(false)).collect();
        if let Some(beside) = &self.beside {
            beside.gets_up();
        }
        if polled == Ok(0) {
            self.late = self.late.max(clock::now().since(at.max(now)));
        }
        ready
    }

    /// Reads what is `ready`, or everything: whether there may be more than was read.
    ///
    /// Where much goes, what comes out of it goes at the end, together; else at once.
    fn read(&mut self, ready: Option<&[bool]>) -> io::Result<bool> {
        let is_ready = |which: usize| ready.is_none_or(|ready| ready[which]);
        let mut reads_left = false;
        if ready.is_some_and(|ready| ready[1]) {
            // Its orders are read in any case.
            let _ = self.shared.bell.wake.read();
        }
        // Sockets first: what has come there has its own time, which may be before that of the device.
        let offset_ns = clock::wall_offset_ns();
        for which in 0..self.sockets.len() {
            let mut packets = if is_ready(2 + which) { 0 } else { TURN_PACKETS };
            while packets < TURN_PACKETS {
                let Some(received) = self.sockets[which].receive(&mut self.room) else { break };
                let now = clock::now();
                let came = received.stamped_ns.map_or(now, |stamped| clock::of_wall(stamped, offset_ns));
                let came = came.clamp(self.told.min(now), now);
                self.collect_due(came);
                let Self { gateway: Some(gateway), tun, rounds, room, beside, .. } = self else { break };
                let (from, traffic_class) = (received.from, received.traffic_class);
                for datagram in datagrams(&room[..received.bytes], received.segment) {
                    packets += 1;
                    let wan = Wan { from, traffic_class, came, datagram };
                    if beside.as_mut().is_none_or(|beside| beside.keeps_datagram(&wan, gateway.tunnels_mut()))
                    {
                        gateway.handle(Input::Wan { from, traffic_class, datagram }, came);
                        deliver(gateway, tun, rounds, came);
                    }
                }
                self.reads += 1;
                reads_left |= packets >= TURN_PACKETS;
                if ready.is_some() {
                    // A packet may be behind a message: what that is answered with follows.
                    self.tun.flush();
                }
            }
        }
        if ready.is_some() {
            self.run_due(clock::now());
        }
        reads_left |= self.take_over();
        let mut packets = if is_ready(0) { 0 } else { TURN_PACKETS };
        while packets < TURN_PACKETS {
            let now = clock::now();
            self.collect_due(now);
            let Self { gateway: Some(gateway), tun, beside, .. } = self else { break };
            // What cannot be read counts as well: a turn ends.
            let most = packets + 1;
            let is_some = tun.read(|packet| {
                packets += 1;
                if beside.as_mut().is_none_or(|beside| beside.keeps_packet(packet, now)) {
                    gateway.handle(Input::Lan(packet), now);
                }
            })?;
            if !is_some {
                break;
            }
            packets = packets.max(most);
            self.reads += 1;
            self.rounds.on_packet(Way::Out);
            reads_left |= packets >= TURN_PACKETS;
            if ready.is_some() {
                self.run_due(clock::now());
            }
        }
        self.run_due(clock::now());
        Ok(reads_left)
    }

    /// Takes what others have handed over: whether there may be more.
    fn take_over(&mut self) -> bool {
        for _ in 0..TURN_PACKETS {
            let Some((head, bytes)) = self.beside.as_mut().and_then(|beside| beside.take(&mut self.room))
            else {
                return false;
            };
            let now = clock::now();
            let came = head.came.clamp(self.told.min(now), now);
            self.collect_due(came);
            let Self { gateway: Some(gateway), beside: Some(beside), room, .. } = self else { return false };
            let (from, traffic_class, datagram) = (head.from, head.traffic_class, &room[..bytes]);
            if head.kind == Kind::Lan {
                gateway.handle(Input::Lan(datagram), came);
            } else if beside.keeps_taken(
                head.kind,
                &Wan { from, traffic_class, came, datagram },
                gateway.tunnels_mut(),
            ) {
                gateway.handle(Input::Wan { from, traffic_class, datagram }, came);
            }
        }
        true
    }

    /// Everything that is due by `now`, each at its own instant.
    fn run_due(&mut self, now: Time) {
        self.collect_due(now);
        self.hand_over();
    }

    /// The same, but what has room stays here, for more to follow with the same call, until [`Self::hand_over`].
    fn collect_due(&mut self, now: Time) {
        self.told = self.told.max(now);
        let late_max = LATE_MAX + self.rounds.together();
        let earliest = Time::from_nanos(now.as_nanos().saturating_sub(late_max.as_nanos()));
        while let Some((to, reply)) = self.beside.as_mut().and_then(Beside::next_reply) {
            self.batch.room(&mut self.sockets)[..reply.len()].copy_from_slice(&reply);
            self.batch.add((to, Dscp::CONTROL.get() << 2), reply.len(), &mut self.sockets);
        }
        loop {
            let gateway = self.gateway.as_mut().expect("there is one between reloads");
            deliver(gateway, &mut self.tun, &mut self.rounds, now);
            let Some(due) = gateway.poll_timeout().filter(|&due| due <= now) else { break };
            let at = due.max(earliest);
            loop {
                let room = self.batch.room(&mut self.sockets);
                match gateway.poll_output(at, room) {
                    None => break,
                    Some(Output::Lan(bytes)) => {
                        self.tun.write(&room[..bytes]);
                        self.rounds.count();
                    }
                    Some(Output::Wan { to, traffic_class, bytes }) => {
                        self.batch.add((to, traffic_class), bytes, &mut self.sockets);
                        self.rounds.count();
                    }
                }
            }
        }
    }

    /// Packets of hosts first: what was said of them to who sent them may follow.
    fn hand_over(&mut self) {
        self.tun.flush();
        self.batch.flush(&mut self.sockets);
        if let Some(beside) = &mut self.beside {
            beside.wake_others();
        }
    }

    fn leave_look(&mut self, now: Time) {
        if self.gateway().has_failed() {
            self.end_recording(now);
        }
        let counts = self.beside.as_ref().map(|beside| beside.counts).unwrap_or_default();
        let wire = Wire {
            handed_over: counts.handed_over,
            lost_between: counts.lost,
            unsent: self.sockets.iter().map(|socket| socket.unsent).sum(),
            refusals: self.sockets.iter().fold(Refusals::default(), |all, socket| all.and(&socket.refusals)),
            too_large: self.sockets.iter().map(|socket| socket.too_large).sum(),
            refused_packets: self.tun.refused_packets,
            bad_reads: self.tun.bad_reads,
            reads: self.reads,
            late: std::mem::replace(&mut self.late, Span::ZERO),
            spent: clock::thread_time(),
        };
        let gateway = self.gateway.as_ref().expect("there is one between reloads");
        let mut stray = gateway.stray();
        for (all, count) in stray.refused.iter_mut().zip(counts.refused) {
            *all += count;
        }
        let sites = gateway.status();
        let look = Look { at: now, threads: vec![0; sites.len()], sites, stray, wire };
        self.shared.look.store(Some(Arc::new(look)));
    }
}

/// Packets for hosts here go to the device as soon as they are there, while the nearest cache has them.
fn deliver(gateway: &mut Core, tun: &mut Tun, rounds: &mut Rounds, now: Time) {
    while let Some(packet) = gateway.poll_lan(now) {
        tun.write(packet);
        rounds.count();
        rounds.on_packet(Way::In);
    }
}

/// The datagrams that came together in `bytes`, of `segment` bytes each. One without any bytes is one as well.
fn datagrams(bytes: &[u8], segment: usize) -> impl Iterator<Item = &[u8]> {
    bytes.is_empty().then_some(bytes).into_iter().chain(bytes.chunks(segment.max(1)))
}

/// Waits until `at`, and of that for `looks_on` without sleeping; others that want the processor have it before.
fn poll(waits: &mut [PollFd<'_>], now: Time, at: Time, looks_on: Span) -> nix::Result<i32> {
    let (until, mut is) = (at.min(now + looks_on), now);
    while is < until {
        let polled = ppoll(waits, Some(TimeSpec::from_duration(std::time::Duration::ZERO)), None);
        if polled != Ok(0) {
            return polled;
        }
        let _ = sched_yield();
        is = clock::now();
    }
    let wait = std::time::Duration::from_nanos(at.since(is).as_nanos());
    ppoll(waits, Some(TimeSpec::from_duration(wait)), None)
}

fn sleep_until(at: Time) {
    let wait = at.since(clock::now());
    if wait > Span::ZERO {
        std::thread::sleep(std::time::Duration::from_nanos(wait.as_nanos()));
    }
}
