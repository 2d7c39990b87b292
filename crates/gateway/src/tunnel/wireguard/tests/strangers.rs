//! Handshakes of strangers, of those who write another's address, and of sites that need theirs.

use super::*;
use crate::tunnel::wireguard::gate::Budget;

#[test]
fn a_flood_of_handshakes_is_answered_with_cookies_and_costs_no_more() {
    let mut here = WireguardTunnels::new(
        &key(0),
        &[PeerKeys { public: key(1).public(), shared: None, keepalive: None }],
        Time::ZERO,
    )
    .unwrap();
    let few = 5;
    here.gate.unshown = Budget::new(few, Time::ZERO);
    let mut room = vec![0; BUFFER_BYTES];
    let (mut cookies, mut refused, mut heard) = (0, 0, 0);
    let mut asked = Vec::new();
    // Strangers know the public key, and so can write what looks right.
    for number in 0..60_u32 {
        let peers = [PeerKeys { public: key(0).public(), shared: None, keepalive: None }];
        let mut stranger =
            WireguardTunnels::new(&PrivateKey::generate().unwrap(), &peers, Time::ZERO).unwrap();
        stranger.tunnel(0).want(Time::ZERO);
        let length = stranger.tunnel(0).poll(Time::ZERO, &mut room).unwrap();
        asked.push((SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + number), 9)), room[..length].to_vec()));
    }
    for (from, datagram) in asked {
        match here.addressed(&datagram, from.into(), Time::ZERO, &mut room) {
            Addressed::Reply(bytes) => {
                cookies += 1;
                assert!(bytes < datagram.len(), "an answer is shorter than the question");
            }
            Addressed::Refused(Refusal::Unknown) => refused += 1,
            other => heard += usize::from(matches!(other, Addressed::Peer(_))),
        }
    }
    assert_eq!((cookies, refused, heard), (60 - few, few, 0));
    // What another site passes on has no address to send a cookie to: it is heard meanwhile.
    let peers = [PeerKeys { public: key(0).public(), shared: None, keepalive: None }];
    let mut site = WireguardTunnels::new(&key(1), &peers, Time::ZERO).unwrap();
    site.tunnel(0).want(Time::ZERO);
    let length = site.tunnel(0).poll(Time::ZERO, &mut room).unwrap();
    let passed_on = room[..length].to_vec();
    assert_eq!(here.addressed(&passed_on, Source::Through(0), Time::ZERO, &mut room), Addressed::Peer(0));
    assert!(matches!(
        here.addressed(&passed_on, address(1).into(), Time::ZERO, &mut room),
        Addressed::Reply(_)
    ));
}

/// The end `own`, which knows `other` alone.
fn ends(own: usize, other: usize) -> WireguardTunnels {
    let peers = [PeerKeys { public: key(other).public(), shared: None, keepalive: None }];
    WireguardTunnels::new(&key(own), &peers, Time::ZERO).unwrap()
}

/// Handshakes of strangers with so many addresses that nothing is left of the budget; the site, and what comes from another one.
#[test]
fn who_was_heard_before_is_heard_while_strangers_take_all_there_is() {
    let (mut here, mut there) = (ends(0, 1), ends(1, 0));
    // All of these show the cookies that they are asked for.
    here.gate.cookies = RateLimiter::new(&here.gate.public, u64::MAX);
    let (mut room, mut opening) = ([0; BUFFER_BYTES], [0; BUFFER_BYTES]);
    let mut initiation = |end: &mut WireguardTunnels| {
        end.tunnel(0).want(Time::ZERO);
        let length = end.tunnel(0).poll(Time::ZERO, &mut room).unwrap();
        room[..length].to_vec()
    };
    let asked = initiation(&mut there);
    let at = address(1);
    assert_eq!(here.addressed(&asked, at.into(), Time::ZERO, &mut opening), Addressed::Peer(0));
    assert_eq!(here.tunnel(0).open(&asked, at, Time::ZERO, &mut opening), Opened::Asked);
    // What proves it is no question, which anybody may repeat, but what follows from there.
    let mut next = [0; BUFFER_BYTES];
    let answer = here.tunnel(0).poll(Time::ZERO, &mut next).unwrap();
    there.addressed(&next[..answer], address(0).into(), Time::ZERO, &mut opening);
    let agreed = there.tunnel(0).open(&next[..answer], address(0), Time::ZERO, &mut opening);
    assert_eq!(agreed, Opened::Handshake);
    let alive = there.tunnel(0).poll(Time::ZERO, &mut next).unwrap();
    assert!(!here.gate.known.has(at.ip()));
    assert_eq!(here.tunnel(0).open(&next[..alive], at, Time::ZERO, &mut opening), Opened::Packet(0));
    assert!(here.gate.known.has(at.ip()));
    let stranger = initiation(&mut ends(7, 0));
    let mut judged = |from: u32| {
        let from = SocketAddr::from((Ipv4Addr::from(from), 9));
        here.addressed(&stranger, from.into(), Time::ZERO, &mut opening)
    };
    let busy = Addressed::Refused(Refusal::Busy);
    assert!((0..2000).filter(|number| judged(0x0a00_0000 + number) == busy).count() > 1000);
    let again = initiation(&mut ends(1, 0));
    assert_eq!(here.addressed(&again, address(2).into(), Time::ZERO, &mut opening), busy, "nobody was there");
    assert_eq!(here.addressed(&again, at.into(), Time::ZERO, &mut opening), Addressed::Peer(0));
}

/// Somebody without a place says what a site has said, from its address, as often as it takes; the site shows that it is there.
#[test]
fn who_writes_the_address_of_a_site_takes_nothing_that_the_site_needs() {
    let (mut here, mut there) = (ends(0, 1), ends(1, 0));
    let (mut room, mut opening) = ([0; BUFFER_BYTES], [0; BUFFER_BYTES]);
    let at = address(1);
    let mut says = |end: &mut WireguardTunnels| {
        let length = end.tunnel(0).poll(Time::ZERO, &mut room).unwrap();
        room[..length].to_vec()
    };
    there.tunnel(0).want(Time::ZERO);
    let recorded = says(&mut there);
    let said: Vec<Addressed> =
        (0..60).map(|_| here.addressed(&recorded, at.into(), Time::ZERO, &mut opening)).collect();
    assert_eq!(said.iter().filter(|&&one| one == Addressed::Peer(0)).count(), 20);
    assert!(said[20..].iter().all(|one| matches!(one, Addressed::Reply(_))), "{said:?}");
    // The site hears the cookie, for it is where the answers go.
    let Addressed::Reply(bytes) = said[59] else { unreachable!("just looked at") };
    let cookie = opening[..bytes].to_vec();
    assert_eq!(there.addressed(&cookie, address(0).into(), Time::ZERO, &mut opening), Addressed::Peer(0));
    assert_eq!(there.tunnel(0).open(&cookie, address(0), Time::ZERO, &mut opening), Opened::Noted);
    // What it says then is heard in the same second, the answer to a question of ours.
    here.tunnel(0).want(Time::ZERO);
    let question = says(&mut here);
    assert_eq!(there.tunnel(0).open(&question, address(0), Time::ZERO, &mut opening), Opened::Asked);
    let answer = says(&mut there);
    assert_eq!(here.addressed(&answer, at.into(), Time::ZERO, &mut opening), Addressed::Peer(0));
    assert_eq!(here.tunnel(0).open(&answer, at, Time::ZERO, &mut opening), Opened::Handshake);
}

#[test]
fn a_site_behind_a_relay_has_handshakes_of_its_own() {
    let peers = [2, 3].map(|site| PeerKeys { public: key(site).public(), shared: None, keepalive: None });
    let mut here = WireguardTunnels::new(&key(0), &peers, Time::ZERO).unwrap();
    let (mut room, mut opening) = ([0; BUFFER_BYTES], [0; BUFFER_BYTES]);
    let mut asked = |site: usize| {
        let peer = [PeerKeys { public: key(0).public(), shared: None, keepalive: None }];
        let mut end = WireguardTunnels::new(&key(site), &peer, Time::ZERO).unwrap();
        end.tunnel(0).want(Time::ZERO);
        let length = end.tunnel(0).poll(Time::ZERO, &mut room).unwrap();
        room[..length].to_vec()
    };
    let (one, other) = (asked(2), asked(3));
    let mut heard = |datagram: &[u8], site: u32| {
        here.addressed(datagram, Source::Through(site), Time::ZERO, &mut opening) == Addressed::Peer(site)
    };
    assert_eq!((0..500).filter(|_| heard(&one, 0)).count(), 20);
    assert!(heard(&other, 1), "another site has taken nothing of it");
}
