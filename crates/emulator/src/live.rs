//! The live view as text: what two looks at an emulation, one after the other, say together.

use std::fmt::Write as _;

use crate::look::{FlowLook, LinkLook, Look};

/// A table of a few columns that stays within the width of a terminal.
struct Page {
    width: usize,
    lines: Vec<String>,
}

impl Page {
    fn line(&mut self, text: &str) {
        // Whatever a name contains, it cannot leave its line.
        let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        self.lines.push(plain.take(self.width).collect());
    }
}

/// Bits per second between two counts of bytes. Counts begin anew when the warm-up ends.
fn rate(before: u64, after: u64, seconds: f64) -> f64 {
    if seconds > 0.0 && after >= before { (after - before) as f64 * 8.0 / seconds } else { 0.0 }
}

fn name_of(look: &Look, link: &LinkLook) -> String {
    let spec = &look.scenario.links[link.link];
    let (a, b) = (&look.scenario.nodes[spec.a.index()].name, &look.scenario.nodes[spec.b.index()].name);
    let (from, to) = if link.is_reverse { (b, a) } else { (a, b) };
    format!("{} {from} > {to}", spec.name)
}

/// What changed of each link between two looks: name, bits per second, part of its rate.
fn links<'a>(
    before: &'a Look,
    now: &'a Look,
) -> impl Iterator<Item = (String, f64, f64, &'a LinkLook, &'a LinkLook)> {
    let seconds = now.at.since(before.at).as_secs_f64();
    before.links.iter().zip(&now.links).map(move |(old, new)| {
        let bps = rate(old.counters.delivered_bytes, new.counters.delivered_bytes, seconds);
        (name_of(now, new), bps, bps / new.rate.as_bps_f64().max(1.0), old, new)
    })
}

/// The flows, the fastest first: bits per second, and the flow.
fn flows<'a>(before: &'a Look, now: &'a Look) -> Vec<(f64, &'a FlowLook)> {
    let seconds = now.at.since(before.at).as_secs_f64();
    let old = |flow: &FlowLook, position: usize| {
        before.flows.get(position).filter(|old| old.name == flow.name).map_or(0, |old| old.received_bytes)
    };
    let mut list: Vec<_> = now
        .flows
        .iter()
        .enumerate()
        .map(|(position, flow)| (rate(old(flow, position), flow.received_bytes, seconds), flow))
        .collect();
    list.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    list
}

/// A page for a terminal of this size: what happened between two looks.
pub fn page(before: &Look, now: &Look, (width, height): (u16, u16)) -> Vec<String> {
    let mut page = Page { width: usize::from(width), lines: Vec::new() };
    let height = usize::from(height);
    let title = if now.scenario.title.is_empty() { "Emulation" } else { &now.scenario.title };
    page.line(&format!(
        "{title}: {:.1} s; events late by {:.0} us, packets by {:.0} us (p99); {} found no buffer, {} were dropped by devices",
        now.at.as_secs_f64(),
        now.events.p99_us,
        now.deliveries.p99_us,
        now.counts.unbuffered_packets,
        now.counts.device_dropped_packets,
    ));
    page.line("");
    page.line(&format!(
        "{:<30} {:>9} {:>6} {:>8} {:>9} {:>9} {:>9}",
        "link", "Mbit/s", "used", "queue p", "queue kB", "dropped", "marked"
    ));
    let all: Vec<_> = links(before, now).collect();
    // Flows get half of the page at least, if there are so many.
    let links_shown = all.len().min((height / 2).saturating_sub(4).max(2));
    for (name, bps, used, _, link) in &all[..links_shown] {
        page.line(&format!(
            "{name:<30} {:>9.3} {:>5.1}% {:>8} {:>9.1} {:>9} {:>9}",
            bps / 1e6,
            used * 100.0,
            link.queue.0,
            link.queue.1 as f64 / 1e3,
            link.counters.dropped_packets(),
            link.counters.marked_packets(),
        ));
    }
    if links_shown < all.len() {
        page.line(&format!("and {} more", all.len() - links_shown));
    }
    page.line("");
    page.line(&format!("{:<46} {:>9} {:>10} {:>8} {:>8}", "flow", "Mbit/s", "sent", "lost", "marked"));
    let list = flows(before, now);
    let room = height.saturating_sub(page.lines.len() + 1);
    for (bps, flow) in list.iter().take(room) {
        page.line(&format!(
            "{:<46} {:>9.3} {:>10} {:>8} {:>8}",
            flow.name,
            bps / 1e6,
            flow.sent_packets,
            flow.lost_packets,
            flow.marked_packets
        ));
    }
    if room < list.len() {
        page.line(&format!("and {} more", list.len() - room));
    }
    page.lines.truncate(height);
    page.lines
}

/// Lines for where there is no terminal: one for each link and flow that carries something.
pub fn lines(before: &Look, now: &Look) -> String {
    let mut out = String::new();
    let at = now.at.as_secs_f64();
    for (name, bps, used, old, link) in links(before, now) {
        let (dropped, marked) = (link.counters.dropped_packets(), link.counters.marked_packets());
        // Writing to a string cannot fail.
        if bps > 0.0 || dropped != old.counters.dropped_packets() || link.queue.0 > 0 {
            let _ = writeln!(
                out,
                "{at:.1} s, link {name}: {:.3} Mbit/s ({:.1} %), queue {} p, {} B, dropped {dropped}, marked {marked}",
                bps / 1e6,
                used * 100.0,
                link.queue.0,
                link.queue.1,
            );
        }
    }
    for (bps, flow) in flows(before, now).into_iter().filter(|(bps, _)| *bps > 0.0) {
        let _ = writeln!(
            out,
            "{at:.1} s, flow {}: {:.3} Mbit/s, sent {}, lost {}, marked {}",
            flow.name,
            bps / 1e6,
            flow.sent_packets,
            flow.lost_packets,
            flow.marked_packets
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Emulation, Setup, one_link};
    use tidegate_scenario::Document;
    use tidegate_units::{Span, Time};

    fn looks() -> (Look, Look) {
        let rate = one_link::Rate::Constant("8Mbit");
        let document = Document::from_text("one link", &one_link::toml(rate, "1ms", "droptail")).unwrap();
        let setup = Setup::new(document, &[], None, 4).unwrap();
        let mut emulation = Emulation::start(setup, 100, 1500, None::<Vec<u8>>).unwrap();
        let before = emulation.look(Time::ZERO);
        let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(4000, 5001);
        let mut packet = Vec::new();
        builder.write(&mut packet, &[0; 972]).unwrap();
        let mut now = Time::ZERO;
        for _ in 0..250 {
            now += Span::from_millis(2);
            emulation.room().unwrap()[..1000].copy_from_slice(&packet);
            emulation.arrive(0, 1000, now);
            while let Some(departure) = emulation.next_departure() {
                emulation.release(departure);
                emulation.delivered(departure.due, now, true);
            }
        }
        (before, emulation.look(now))
    }

    #[test]
    fn rates_are_those_between_two_looks() {
        let (before, now) = looks();
        let text = page(&before, &now, (120, 30)).join("\n");
        // The last packet is still under way.
        assert!(
            text.contains("link A > B                         3.984  49.8%        1       1.0"),
            "{text}"
        );
        assert!(
            text.contains("udp 10.0.0.1:4000 > 10.0.0.2:5001                  3.984        250"),
            "{text}"
        );
        let in_lines = lines(&before, &now);
        let forward = "0.5 s, link link A > B: 3.984 Mbit/s (49.8 %), queue 1 p, 1000 B";
        assert!(in_lines.contains(forward), "{in_lines}");
        assert!(!in_lines.contains("B > A"), "nothing went back: {in_lines}");
    }

    #[test]
    fn a_page_stays_within_its_terminal() {
        let (before, now) = looks();
        for size in [(1, 1), (20, 5), (80, 24), (300, 4)] {
            let page = page(&before, &now, size);
            assert!(page.len() <= usize::from(size.1), "{size:?}");
            assert!(page.iter().all(|line| line.chars().count() <= usize::from(size.0)), "{size:?}");
        }
    }
}
