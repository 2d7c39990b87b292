//! The status page: one document without scripts and without anything from elsewhere, which a phone shows as well.

use std::fmt::Write as _;

use tidegate_units::Span;

use super::look::{Look, Moment, SECONDS};
use crate::core::peer::State;
use crate::core::status::{LinkStatus, SiteStatus};

/// How often a browser asks again, in seconds.
const AGAIN: u32 = 5;
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 90.0;
/// A picture shows no less time than this, seconds: what just began is not blown up.
const SHOWN_LEAST: usize = 60;
/// Timers that are later than this make queues of their own: the machine is too busy.
const LATE: Span = Span::from_millis(5);

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1a1a1a;--paper:#fff;--faint:#666;--line:#ddd;--a:#0b6bcb;--b:#c2410c;--good:#15803d;--bad:#b91c1c}
@media screen and (prefers-color-scheme:dark){:root{--ink:#eee;--paper:#161616;--faint:#999;--line:#333;--a:#60a5fa;--b:#fb923c;--good:#4ade80;--bad:#f87171}}
body{font:16px/1.4 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0 auto;padding:1rem;max-width:56rem}
h1{font-size:1.2rem;margin:0}h2{font-size:1.1rem;margin:0}
section{border-top:1px solid var(--line);padding:1rem 0}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.5rem;margin:.7rem 0}
dt{color:var(--faint);font-size:.8rem}dd{margin:0;font-size:1.15rem;font-variant-numeric:tabular-nums}
figure{margin:.6rem 0}figcaption{font-size:.8rem;color:var(--faint)}
svg{width:100%;height:auto;display:block;border-bottom:1px solid var(--line)}
.when{display:flex;justify-content:space-between;font-size:.75rem;color:var(--faint)}
polyline{fill:none;stroke-width:1.5;vector-effect:non-scaling-stroke}.a{stroke:var(--a)}.b{stroke:var(--b)}
@media print{:root{color-scheme:light}body{max-width:none}section,figure{break-inside:avoid}}
.ka{color:var(--a)}.kb{color:var(--b)}.good{color:var(--good)}.bad{color:var(--bad)}.faint{color:var(--faint)}
";

/// Letters that would be marks of the document.
fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn rate(bps: f64) -> String {
    match bps {
        bps if bps >= 1e9 => format!("{:.2} Gbit/s", bps / 1e9),
        bps if bps >= 1e6 => format!("{:.1} Mbit/s", bps / 1e6),
        bps => format!("{:.0} kbit/s", bps / 1e3),
    }
}

fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        bytes if bytes >= 1e3 => format!("{:.0} kB", bytes / 1e3),
        bytes => format!("{bytes:.0} B"),
    }
}

fn time(seconds: f64) -> String {
    if seconds >= 1.0 { format!("{seconds:.1} s") } else { format!("{:.1} ms", seconds * 1e3) }
}

/// A line of a picture: its class, its name, its values.
type Line = (&'static str, &'static str, fn(&Moment) -> f64);

/// One picture of the last minutes: lines of the same unit.
fn picture(moments: &[Moment], lines: &[Line], show: fn(f64) -> String, out: &mut String) {
    let most = lines.iter().flat_map(|(.., of)| moments.iter().map(of)).fold(0.0, f64::max);
    let scale = if most > 0.0 { most } else { 1.0 };
    let names: Vec<String> =
        lines.iter().map(|(class, name, _)| format!("<span class=k{class}>{name}</span>")).collect();
    let _ = write!(
        out,
        "<figure><figcaption>{}, up to {}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=none role=img \
         aria-label=\"{}\">",
        names.join(" and "),
        show(most),
        lines.iter().map(|(_, name, _)| *name).collect::<Vec<_>>().join(" and "),
    );
    let shown = moments.len().clamp(SHOWN_LEAST, SECONDS);
    let first = shown - moments.len();
    for (class, _, of) in lines {
        let _ = write!(out, "<polyline class={class} points=\"");
        for (at, moment) in moments.iter().enumerate() {
            let x = (first + at) as f64 / (shown - 1) as f64 * WIDTH;
            let y = HEIGHT - of(moment) / scale * (HEIGHT - 4.0);
            let _ = write!(out, "{x:.0},{y:.1} ");
        }
        out.push_str("\"/>");
    }
    let ago = duration(Span::from_secs(shown as u64));
    let _ = write!(out, "</svg><div class=when><span>{ago} ago</span><span>now</span></div></figure>");
}

/// A value that is marked where it `is_bad`.
fn marked(value: &str, is_bad: bool) -> String {
    if is_bad { format!("<span class=bad>{value}</span>") } else { value.to_owned() }
}

fn term(name: &str, value: &str, out: &mut String) {
    let _ = write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
}

fn site(site: &SiteStatus, moments: &[Moment], out: &mut String) {
    let last = moments.last().copied().unwrap_or_default();
    let is_up = !matches!(site.state, State::Down | State::Drained);
    let _ = write!(
        out,
        "<section><h2>{} <span class={}>{}</span></h2><div class=faint>{}</div><dl>",
        plain(&site.name),
        if is_up { "good" } else { "bad" },
        plain(site.state.name()),
        plain(&match (&site.via, site.endpoint) {
            (Some(via), _) => format!("by way of {via}"),
            (None, Some(endpoint)) => endpoint.to_string(),
            (None, None) => "not heard yet".to_owned(),
        }),
    );
    // A way that nobody uses is not controlled, and what is not measured is no zero.
    let link = site.links.first();
    let used = |value: Option<String>| value.unwrap_or_else(|| "idle".to_owned());
    let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    term("may leave at", &used(link.map(|_| rate(last.rate))), out);
    term("arrives at", &used(link.map(|_| rate(last.output))), out);
    term("sent", &rate(last.sent), out);
    term("received", &rate(last.received), out);
    term("waits here", &size(last.queue), out);
    term("path delay in excess", &known(link.and_then(|link| link.excess).map(|_| time(last.excess))), out);
    term("round trip", &known(link.and_then(|link| link.rtt).map(|rtt| time(rtt.as_secs_f64()))), out);
    term("dropped here", &site.drops.total().to_string(), out);
    let refused: u64 = site.counters.refused.iter().sum();
    term("refused", &refused.to_string(), out);
    let less = if site.takes_base == Some(false) { "less than " } else { "" };
    term("largest packet", &format!("{less}{} B", site.mtu), out);
    let path = |of: &LinkStatus| if of.is_pressed { "congested" } else { "free" }.to_owned();
    term("the path is", &used(link.map(path)), out);
    out.push_str("</dl>");
    picture(moments, &[("a", "may leave", |m| m.rate), ("b", "arrives", |m| m.output)], rate, out);
    picture(moments, &[("a", "sent", |m| m.sent), ("b", "received", |m| m.received)], rate, out);
    picture(moments, &[("a", "waits here", |m| m.queue)], size, out);
    picture(moments, &[("a", "path delay in excess", |m| m.excess)], time, out);
    picture(moments, &[("b", "packets dropped here in a second", |m| m.dropped)], |n| format!("{n:.0}"), out);
    out.push_str("</section>");
}

/// The whole page. `moments` has those of a site, by its number: one after the other, so that there is no copy of all of them.
pub fn page(look: &Look, moments: impl Fn(usize) -> Vec<Moment>, name: &str, uptime: Span) -> String {
    let mut out = String::with_capacity(64 << 10);
    let _ = write!(
        out,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=refresh content={AGAIN}><title>{0}: tidegate gateway</title><style>{STYLE}</style>\
         <h1>{0}</h1><p class=faint>tidegate gateway {1}, up for {2}. It asks again every {AGAIN} s; pictures show ten minutes at most.</p>",
        plain(name),
        env!("CARGO_PKG_VERSION"),
        duration(uptime),
    );
    for (number, one) in look.sites.iter().enumerate() {
        site(one, &moments(number), &mut out);
    }
    let stray: u64 = look.stray.refused.iter().sum();
    let lost = look.wire.lost_between;
    let between = if look.wire.handed_over + lost > 0 {
        entry("lost between threads", &marked(&lost.to_string(), lost > 0))
    } else {
        String::new()
    };
    let _ = write!(
        out,
        "<section><h2>This machine</h2><dl>{}{}{}{}{between}</dl></section></html>",
        entry("datagrams of strangers", &stray.to_string()),
        entry("packets for nobody", &look.stray.unrouted_packets.to_string()),
        entry("timers late by", &marked(&time(look.wire.late.as_secs_f64()), look.wire.late > LATE)),
        entry("processor time", &time(look.wire.spent.as_secs_f64())),
    );
    out
}

fn entry(name: &str, value: &str) -> String {
    let mut out = String::new();
    term(name, value, &mut out);
    out
}

/// A long time for people, by its two largest units; by the first alone where the second has nothing.
pub fn duration(span: Span) -> String {
    let seconds = span.as_nanos() / 1_000_000_000;
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(parts.len() - 1);
    let shown = parts[first..].iter().take(2).enumerate().filter(|(at, (count, _))| *at == 0 || *count > 0);
    shown.map(|(_, (count, unit))| format!("{count} {unit}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_have_two_units_and_whole_ones_one() {
        let said = [0, 59, 60, 61, 3600, 3660, 86_400, 90_000, 90_061].map(|s| duration(Span::from_secs(s)));
        assert_eq!(
            said,
            ["0 s", "59 s", "1 min", "1 min 1 s", "1 h", "1 h 1 min", "1 d", "1 d 1 h", "1 d 1 h"]
        );
    }
}
