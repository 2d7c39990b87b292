//! A gateway whose peer is a liar, and whose hosts are: whatever is in its tunnel and in front of it, nothing breaks, rates keep their
//! bounds, buffers are counted, and it ends.
#![no_main]

use std::net::SocketAddr;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::gateway::{self, control, site};
use tidegate_gateway::core::config::{GatewayConfig, SiteConfig};
use tidegate_gateway::core::envelope::Envelope;
use tidegate_gateway::core::{Gateway, Input, Output};
use tidegate_gateway::tunnel::plain::PlainTunnels;
use tidegate_gateway::tunnel::{Tunnel, Tunnels};
use tidegate_mechanism::random::Seed;
use tidegate_units::{Span, Time};
use tidegate_wire::ip;

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    /// A host sends these bytes; or a packet to the other site with so many.
    Lan(&'a [u8]),
    Send(u8, u16),
    /// These bytes are in the tunnel; or behind an envelope of this kind, with the right incarnations or not.
    Inside(&'a [u8]),
    Message {
        kind: u8,
        link: u8,
        knows: bool,
        number: u32,
        body: &'a [u8],
    },
    /// A datagram of a stranger.
    Stranger(&'a [u8]),
    Wait(u16),
}

fn config(which: u8) -> GatewayConfig {
    let site = |number: u8| SiteConfig {
        endpoint: Some(SocketAddr::from(([192, 0, 2, number], 1))),
        ..site(number, control(which))
    };
    gateway::config(vec![site(2), site(3)])
}

fuzz_target!(|input: (u8, Vec<Step<'_>>)| {
    let (control, steps) = input;
    let mut now = Time::ZERO;
    let tunnels = PlainTunnels::new(&[(3, 4), (5, 6)], None, 1, Seed(1));
    let mut here = Gateway::new(config(control), tunnels, now);
    // Only the tunnel of the other end is honest.
    let mut there = PlainTunnels::new(&[(3, 4)], None, 1, Seed(2));
    let (mut room, mut sealed) = ([0; 2048], [0; 4096]);
    let mut heard = (0, 0);
    let from = SocketAddr::from(([192, 0, 2, 2], 1));
    let handshake = [Step::Wait(1), Step::Wait(1), Step::Wait(1)];
    for step in handshake.into_iter().chain(steps.into_iter().take(100)) {
        let mut inside = |packet: &[u8], here: &mut Gateway<PlainTunnels>, now: Time| {
            if let Some(length) = there.tunnel(0).seal(packet, now, &mut sealed) {
                here.handle(
                    Input::Wan { from: from.into(), traffic_class: 0, datagram: &sealed[..length] },
                    now,
                );
            }
        };
        match step {
            Step::Lan(bytes) => here.handle(Input::Lan(bytes), now),
            Step::Send(site, bytes) => {
                let length = 20 + bytes % 1480;
                let mut packet = gateway::header(2 + site % 2, length).to_vec();
                packet.resize(usize::from(length), 0);
                here.handle(Input::Lan(&packet), now);
            }
            Step::Inside(bytes) => inside(&bytes[..bytes.len().min(1500)], &mut here, now),
            Step::Message { kind, link, knows, number, body } => {
                let body = &body[..body.len().min(1300)];
                let mut packet = [0; 1500];
                // Any kind, by writing one and changing it.
                let (incarnation, echo) = if knows { (9, heard.0) } else { (u64::from(number), 7) };
                let kinds = tidegate_gateway::core::envelope::Kind::Hello;
                let envelope = Envelope { kind: kinds, link, incarnation, number, echo };
                if let Some(length) = envelope.write(body, &mut packet) {
                    packet[49] = 1 + kind % 9;
                    inside(&packet[..length], &mut here, now);
                }
            }
            Step::Stranger(bytes) => {
                here.handle(Input::Wan { from: from.into(), traffic_class: 3, datagram: bytes }, now)
            }
            Step::Wait(micros) => now = now + Span::from_micros(u64::from(micros) * 50),
        }
        let mut outputs = 0;
        while let Some(output) = here.poll_output(now, &mut room) {
            outputs += 1;
            assert!(outputs < 20_000, "it goes on for ever");
            if let Output::Wan { to, bytes, .. } = output
                && to.far == from
            {
                let mut opening = [0; 2048];
                there.tunnel(0).open(&room[..bytes], from, now, &mut opening);
                if let Some(read) = ip::read(&opening)
                    && let Some((envelope, _)) = Envelope::read(&opening, &read)
                {
                    heard = (envelope.incarnation, envelope.number);
                }
                while let Some(length) = there.tunnel(0).poll(now, &mut opening) {
                    here.handle(
                        Input::Wan { from: from.into(), traffic_class: 0, datagram: &opening[..length] },
                        now,
                    );
                }
            }
        }
        for status in here.status() {
            assert!(status.buffers.0 <= status.buffers.1, "{status:?}");
            for link in &status.links {
                let bps = link.rate.as_bps();
                assert!((100_000..=100_000_000).contains(&bps), "{status:?}");
            }
        }
    }
});
