//! What gateways take each other for: who answers, moves, starts anew, falls silent, or goes.

use super::*;
use crate::core::peer::Why;
use crate::tunnel::{Addressed, Opened, Refusal, Source};

#[test]
fn gateways_greet_and_control_the_link() {
    let mut world = World::two(Some(&path()));
    world.run_for(Span::from_millis(200));
    assert_eq!([world.state(0), world.state(1)], [State::Controlled; 2]);
}

#[test]
fn an_end_that_does_not_understand_has_a_fixed_rate() {
    // The other one has been told to hold nothing.
    let mut world = World::new(vec![config(0, 2, Some(&path()), None), config(1, 2, None, None)]);
    world.load(0, 1, 5000);
    assert_eq!(world.state(0), State::Fixed(Why::Unanswered));
    let rate = world.delivered.iter().filter(|(at, ..)| *at >= Time::from_nanos(4_000_000_000)).count();
    // 2 Mbit/s of 1068 bytes outside, as 1000 are padded to 1008 and wrapped in 60.
    assert!((225..245).contains(&rate), "{rate}");
}

#[test]
fn mechanisms_that_differ_are_noticed() {
    let iec = EdgeConfig::Iec(Box::default());
    let mut world = World::new(vec![config(0, 2, Some(&path()), None), config(1, 2, Some(&iec), None)]);
    world.run_for(Span::from_secs(1));
    assert_eq!([world.state(0), world.state(1)], [State::Fixed(Why::Differs); 2]);
}

#[test]
fn who_moves_is_followed_and_begins_with_half_of_the_rate() {
    let mut world = World::two(Some(&path()));
    world.load(0, 1, 3000);
    let rate = |of: &World| of.gateways[0].status()[0].links[0].rate.as_bps_f64();
    let before = rate(&world);
    world.seen_as[0] = SocketAddr::new(IpAddr::from([198, 51, 100, 7]), 4000);
    world.load(0, 1, 60);
    assert_eq!(world.gateways[1].status()[0].endpoint, Some(world.seen_as[0]));
    assert!(rate(&world) < 0.8 * before, "{} of {before}", rate(&world));
    world.delivered.clear();
    world.load(0, 1, 3000);
    assert!(world.delivered.len() > 2700, "{}", world.delivered.len());
    assert_eq!([world.state(0), world.state(1)], [State::Controlled; 2]);
}

#[test]
fn who_moves_and_has_nothing_to_send_is_found_again() {
    let mut world = World::two(Some(&path()));
    world.load(0, 1, 2000);
    // What is sent to the old address gets lost.
    world.seen_as[1] = SocketAddr::new(IpAddr::from([198, 51, 100, 9]), 4000);
    world.load(0, 1, 2000);
    world.delivered.clear();
    world.load(0, 1, 1000);
    assert!(world.delivered.len() > 800, "{}", world.delivered.len());
}

#[test]
fn a_site_is_answered_from_where_it_reached_us() {
    let near = |last| Some(Near { address: IpAddr::from([192, 0, 2, last]), interface: 3 });
    let mut world = World::two(Some(&path()));
    for reached in [near(1), near(2), None, near(1)] {
        world.reached_at[1] = reached;
        world.load(0, 1, 200);
        assert_eq!((world.sent_from[1], world.sent_from[0]), (reached, None));
    }
    assert_eq!(world.gateways[1].status()[0].counters.lives, 1, "the path is the same");
    world.gateways[1].on_routes(0, near(1).expect("it is one"), true);
    world.load(0, 1, 200);
    assert_eq!(world.sent_from[1], None, "from there packets would leave by another device");
    world.gateways[1].on_routes(0, near(1).expect("it is one"), false);
    world.load(0, 1, 20);
    assert_eq!(world.sent_from[1], near(1));
    // Nothing is heard any more: it is asked from there once.
    world.is_cut = true;
    world.load(1, 0, 2500);
    assert_eq!(world.sent_from[1], near(1));
    world.load(1, 0, 2500);
    assert_eq!(world.sent_from[1], None);
    world.is_cut = false;
    world.load(1, 0, 3000);
    assert_eq!(world.sent_from[1], near(1), "it is heard there again");
}

#[test]
fn who_starts_anew_is_known_again_at_once() {
    for restarted in 0..2 {
        let mut world = World::two(Some(&path()));
        world.load(0, 1, 3000);
        let now = world.now;
        world.gateways[restarted] = start(restarted, 2, config(restarted, 2, Some(&path()), None), now);
        world.load(0, 1, 1000);
        assert_eq!([world.state(0), world.state(1)], [State::Controlled; 2], "{restarted}");
        world.delivered.clear();
        world.load(0, 1, 1000);
        assert!(world.delivered.len() > 900, "{restarted}: {}", world.delivered.len());
    }
}

#[test]
fn an_end_that_falls_silent_gets_the_fallback_after_a_while_and_is_controlled_again_when_it_speaks() {
    let mut world = World::two(Some(&path()));
    world.load(0, 1, 1000);
    world.is_cut = true;
    world.load(0, 1, 40_000);
    assert!(matches!(world.state(0), State::Fixed(Why::Silent) | State::Down), "{:?}", world.state(0));
    world.is_cut = false;
    world.load(0, 1, 12_000);
    assert_eq!([world.state(0), world.state(1)], [State::Controlled; 2]);
}

#[test]
fn goodbye_is_said_and_nothing_is_taken_any_more() {
    let mut world = World::two(Some(&path()));
    world.load(0, 1, 500);
    let now = world.now;
    world.gateways[0].drain(now);
    assert_eq!(world.state(0), State::Drained);
    world.load(0, 1, 300);
    assert_eq!(world.state(0), State::Drained, "it stays so");
    assert!(world.gateways[0].is_drained());
    assert_eq!(world.state(1), State::Fixed(Why::Silent));
    assert_eq!(world.gateways[0].stray().unrouted_packets, 300);
}

#[test]
fn an_idle_pair_of_gateways_does_next_to_nothing() {
    let mut world = World::two(Some(&path()));
    world.run_for(Span::from_secs(60));
    let (polls, sent) = (world.polls, world.wire.len());
    world.run_for(Span::from_secs(60));
    assert!(world.polls - polls < 400, "{} calls in a minute", world.polls - polls);
    assert!(world.wire.len() - sent < 60, "{} datagrams in a minute", world.wire.len() - sent);
}

#[test]
fn sessions_are_renewed_under_load_without_a_loss() {
    let mut world = World::two(None);
    for number in 0..15_000 {
        world.send(0, &udp(0, 1, number, 300, 0));
        world.run_for(Span::from_millis(20));
    }
    world.run_for(Span::from_secs(1));
    assert_eq!(world.delivered.len(), 15_000);
    let initiations = world.wire.iter().filter(|(.., bytes)| bytes[0] == 1).count();
    assert!((3..=6).contains(&initiations), "{initiations}");
}

/// A tunnel of which others say whether it has a session, and that counts how often one is wanted.
#[derive(Default)]
struct Fickle {
    is_up: bool,
    wanted: u32,
    next: Time,
}

impl Tunnel for Fickle {
    fn is_up(&mut self, _: Time) -> bool {
        self.is_up
    }
    fn want(&mut self, _: Time) {
        self.wanted += 1;
    }
    fn seal(&mut self, _: &[u8], _: Time, _: &mut [u8]) -> Option<usize> {
        None
    }
    fn open(&mut self, _: &[u8], _: SocketAddr, _: Time, _: &mut [u8]) -> Opened {
        Opened::Refused(Refusal::Unknown)
    }
    fn poll(&mut self, now: Time, _: &mut [u8]) -> Option<usize> {
        self.next = now + Span::from_millis(250);
        None
    }
    fn timeout(&mut self) -> Option<Time> {
        Some(self.next)
    }
}

impl Tunnels for Fickle {
    type Tunnel<'a> = &'a mut Self;
    fn addressed(&mut self, _: &[u8], _: Source, _: Time, _: &mut [u8]) -> Addressed {
        Addressed::Refused(Refusal::Unknown)
    }
    fn tunnel(&mut self, _: u32) -> &mut Self {
        self
    }
}

#[test]
fn a_session_that_ends_is_asked_for_again_unless_nobody_is_there_to_be_asked() {
    for control in [None, Some(path())] {
        for is_known in [true, false] {
            let mut config = config(0, 2, control.as_ref(), None);
            if !is_known {
                config.sites[0].endpoint = None;
            }
            let mut gateway = Gateway::new(config, Fickle::default(), Time::ZERO);
            let mut room = [0; BUFFER_BYTES];
            let mut now = Time::ZERO;
            let mut wanted = Vec::new();
            for is_up in [false, true, false, true, false] {
                gateway.tunnels_mut().is_up = is_up;
                for _ in 0..40 {
                    now += Span::from_millis(250);
                    while gateway.poll_output(now, &mut room).is_some() {}
                }
                wanted.push(gateway.tunnels().wanted);
            }
            let expected = if is_known { [1, 1, 2, 2, 3] } else { [0; 5] };
            assert_eq!(wanted, expected, "{control:?}");
        }
    }
}

#[test]
fn what_is_said_of_many_flows_is_divided_so_that_every_path_takes_it() {
    let mut world = World::two(Some(&EdgeConfig::Nbp(Box::default())));
    world.run_for(Span::from_secs(1));
    assert_eq!(world.state(0), State::Controlled);
    world.wire.clear();
    for round in 0..20_u16 {
        for flow in 0..400 {
            world.send(0, &udp(0, 1, 1000 + flow, 20, 0));
        }
        world.run_for(Span::from_millis(if round == 0 { 200 } else { 50 }));
    }
    let longest = |to: usize| {
        let sent = world.wire.iter().filter(|(end, ..)| *end == to);
        sent.map(|(.., bytes)| bytes.len()).max().expect("they talk")
    };
    let most = crate::tunnel::sealed_bytes(mtu::BASE.into());
    assert!(longest(0) > most / 2 && longest(0) <= most, "{} of {most}", longest(0));
}

#[test]
fn who_says_again_what_a_site_has_asked_is_answered_and_not_followed() {
    // Also where nobody has said yet where the site is.
    for known in [Some(address(0)), None] {
        let mut world = World::two(Some(&path()));
        world.load(0, 1, 500);
        let (.., asked) = world.wire.iter().find(|(to, ..)| *to == 1).cloned().expect("it has asked");
        // The one that was asked starts anew, and knows of no question; somebody else has kept it.
        let mut anew = config(1, 2, Some(&path()), None);
        anew.sites[0].endpoint = known;
        world.gateways[1] = start(1, 2, anew, world.now);
        let elsewhere = SocketAddr::new(IpAddr::from([198, 51, 100, 66]), 6);
        let heard = Input::Wan { from: elsewhere.into(), traffic_class: 0, datagram: &asked };
        world.gateways[1].handle(heard, world.now);
        assert_eq!(world.gateways[1].refused(), 0, "it is genuine");
        let mut room = [0; BUFFER_BYTES];
        let mut answers = 0;
        while let Some(output) = world.gateways[1].poll_output(world.now, &mut room) {
            let Output::Wan { to, .. } = output else { continue };
            answers += usize::from(to.far == elsewhere);
        }
        assert_eq!(answers, 1);
        assert_eq!(world.gateways[1].status()[0].endpoint, known);
        if known.is_none() {
            // Who does not know where to ask waits until the other end notices.
            world.load(0, 1, 20_000);
        }
        world.delivered.clear();
        world.load(0, 1, 8000);
        assert!(world.delivered.len() > 2000, "the site itself is heard: {}", world.delivered.len());
        assert_eq!(world.gateways[1].status()[0].endpoint, Some(address(0)));
    }
}
