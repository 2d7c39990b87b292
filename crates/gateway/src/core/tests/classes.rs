//! Classes of packets: their links, codepoints and markers.

use tidegate_mechanism::mark::{MarkerConfig, OutOfProfile, ProfileConfig};
use tidegate_units::{Bytes, Limit};

use super::*;
use crate::core::config::ClassConfig;

#[test]
fn classes_have_links_of_their_own_with_codepoints_outside() {
    let voice = ClassConfig {
        name: "voice".into(),
        dscp: tidegate_packet::DscpSet::NONE.with(Dscp::EF),
        ports: Vec::new(),
        class: 3,
        own_link: Some(Dscp::EF),
        marker: None,
    };
    let with = |here| GatewayConfig { classes: vec![voice.clone()], ..config(here, 2, Some(&path()), None) };
    let mut world = World::new(vec![with(0), with(1)]);
    world.run_for(Span::from_millis(300));
    world.wire.clear();
    for number in 0..100 {
        world.send(0, &udp(0, 1, number, 700, 0));
        world.send(0, &udp(0, 1, number, 100, Dscp::EF.get() << 2));
        world.run_for(Span::from_millis(5));
    }
    world.run_for(Span::from_millis(100));
    let status = &world.gateways[0].status()[0];
    assert_eq!(status.links.iter().map(|link| link.link).collect::<Vec<_>>(), [0, 1]);
    let outside = |codepoint: Dscp| {
        world.wire.iter().filter(move |(.., class, _)| class >> 2 == codepoint.get()).count()
    };
    assert!(outside(Dscp::EF) >= 100 && outside(Dscp::BEST_EFFORT) >= 100);
    assert_eq!(world.delivered.len(), 200);
}

/// What a site that is passed on calls its packets may be no class here: then it is as all that is none.
#[test]
fn a_class_that_there_is_not_is_that_of_all_others() {
    let of = |name: &str, class| ClassConfig {
        name: name.into(),
        dscp: tidegate_packet::DscpSet::NONE,
        ports: Vec::new(),
        class,
        own_link: None,
        marker: None,
    };
    let with = |classes| start(0, 2, GatewayConfig { classes, ..config(0, 2, None, None) }, Time::ZERO);
    let gateway = with(vec![of("voice", 2), of("other", 4)]);
    assert_eq!([0, 2, 3, 4, 255].map(|class| gateway.passed_class(class)), [4, 2, 4, 4, 4]);
    assert_eq!([0, 2, 255].map(|class| with(Vec::new()).passed_class(class)), [0; 3]);
}

#[test]
fn classes_are_marked_and_policed_where_they_enter() {
    let profile = |beyond| {
        MarkerConfig::Profile(ProfileConfig {
            depth: Limit::Bytes(Bytes::new(10_000)),
            beyond,
            ..ProfileConfig::with(BitRate::from_bps(80_000))
        })
    };
    for (beyond, arrive) in [(OutOfProfile::Unmark, 100), (OutOfProfile::Drop, 20)] {
        let bulk = ClassConfig {
            name: "bulk".into(),
            dscp: tidegate_packet::DscpSet::NONE,
            ports: vec![7],
            class: 1,
            own_link: None,
            marker: Some(profile(beyond)),
        };
        let with =
            |here| GatewayConfig { classes: vec![bulk.clone()], ..config(here, 2, Some(&path()), None) };
        let mut world = World::new(vec![with(0), with(1)]);
        world.run_for(Span::from_millis(300));
        // A second of 100 packets of 1000 bytes: ten fit into the bucket, and ten more come in this time.
        for number in 0..100 {
            world.send(0, &udp(0, 1, number, 972, 0));
            world.run_for(Span::from_millis(10));
        }
        world.run_for(Span::from_millis(100));
        let marked = |packet: &[u8]| packet[1] >> 2 == Dscp::AF11.get();
        assert!(world.delivered.len().abs_diff(arrive) <= 2, "{beyond:?}: {}", world.delivered.len());
        let in_profile = world.delivered.iter().filter(|(.., packet)| marked(packet)).count();
        assert!(in_profile.abs_diff(20) <= 2, "{beyond:?}: {in_profile}");
        let header = etherparse::Ipv4Header::from_slice(&world.delivered[0].2).expect("it is one").0;
        assert_eq!(header.header_checksum, header.calc_header_checksum());
    }
}
