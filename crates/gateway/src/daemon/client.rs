//! What `tidegatectl` asks a daemon, and how the answers are shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::log::show;

/// How long the daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than the answer of a daemon with as many sites as a file may name.
const ANSWER_BYTES_MAX: u64 = 1 << 28;
/// A table shows so much of a text.
const CELL_CHARS_MAX: usize = 80;
/// Looks of [`measure`].
const LOOKS_PER_S: u32 = 4;
/// So many of them in a row may go unanswered: the daemon starts anew meanwhile.
const UNANSWERED_MAX: u32 = 5 * LOOKS_PER_S;

/// A way to the daemon at `socket`.
///
/// # Errors
/// When it does not listen there, for people.
pub fn connect(socket: &Path) -> Result<UnixStream, String> {
    let connected = UnixStream::connect(socket).and_then(|stream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    });
    connected.map_err(|why| {
        let help = match why.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => "; does the daemon run?",
            io::ErrorKind::PermissionDenied => "; run it with sudo",
            _ => "",
        };
        format!("{}: {why}{help}", socket.display())
    })
}

/// What the daemon at `socket` answers to `command`.
///
/// # Errors
/// When it does not answer, or says that it failed.
pub fn ask(socket: &Path, command: &str) -> Result<Value, String> {
    let refused = |why: io::Error| {
        let said = match why.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::ConnectionReset => {
                "the daemon does not answer: it waits for something, like the address `gateway.listen`, or is stopped; its log says for what"
                    .to_owned()
            }
            _ => why.to_string(),
        };
        format!("{}: {said}", socket.display())
    };
    let mut stream = connect(socket)?;
    writeln!(stream, "{command}").map_err(refused)?;
    let mut line = String::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_line(&mut line).map_err(refused)?;
    understand(&line)
}

/// An answer of the daemon.
///
/// # Errors
/// When it says that it failed, or is broken.
pub fn understand(line: &str) -> Result<Value, String> {
    if line.is_empty() {
        return Err("the daemon has ended before it answered".to_owned());
    }
    let answer: Value =
        serde_json::from_str(line).map_err(|why| format!("the daemon's answer is broken: {why}"))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(why) => Err(why.to_owned()),
        None => Ok(answer),
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn milliseconds(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |seconds| format!("{:.1} ms", seconds * 1e3))
}

/// What a terminal shows of `text`, and does not obey; no more of it than a row has room for.
fn cell(text: &str) -> String {
    text.chars()
        .take(CELL_CHARS_MAX)
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// The sites of `status` as a table for people.
pub fn table(status: &Value) -> String {
    let mut rows = vec![
        ["site", "state", "rate", "arrives", "round trip", "excess", "waits", "dropped", "at"]
            .map(str::to_owned),
    ];
    for site in status["sites"].as_array().into_iter().flatten() {
        let link = &site["links"][0];
        let mbit = |value: &Value| format!("{:.2} Mbit/s", number(value) / 1e6);
        rows.push([
            cell(site["name"].as_str().unwrap_or("?")),
            cell(site["state"].as_str().unwrap_or("?")),
            mbit(&link["rate_bps"]),
            mbit(&link["output_bps"]),
            milliseconds(&link["rtt_s"]),
            milliseconds(&link["excess_s"]),
            format!("{} B", number(&link["queue_bytes"])),
            number(&site["dropped_packets"]).to_string(),
            cell(&match site["via"].as_str() {
                Some(via) => format!("by way of {via}"),
                None => site["endpoint"].as_str().unwrap_or("not heard yet").to_owned(),
            }),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let line = |row: &[String; 9]| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &wide)| format!("{cell:wide$}")).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Looks at the daemon at `socket` for so many seconds, and shows what came of each site meanwhile. A daemon that starts anew is waited for.
///
/// # Errors
/// When the daemon does not answer, at first or for some seconds.
pub fn measure(socket: &Path, seconds: u32, as_json: bool) -> Result<(), String> {
    let mut looks = Vec::new();
    let mut unanswered = 0;
    for _ in 0..seconds * LOOKS_PER_S {
        match ask(socket, "status") {
            Ok(look) => {
                looks.push(look);
                unanswered = 0;
            }
            Err(why) if looks.is_empty() || unanswered == UNANSWERED_MAX => return Err(why),
            Err(_) => unanswered += 1,
        }
        sleep(Duration::from_secs(1) / LOOKS_PER_S);
    }
    let results = measured(&looks);
    if as_json {
        return show(&format!("{:#}\n", Value::from(results)));
    }
    let mut said = String::new();
    for result in &results {
        let _ = writeln!(
            said,
            "{}: sent {:.2} Mbit/s, received {:.2} Mbit/s, {} dropped here; rate {:.2} Mbit/s; path delay in excess {} (half of the time), {} (95 %)",
            cell(result["site"].as_str().unwrap_or("?")),
            number(&result["sent_bps"]) / 1e6,
            number(&result["received_bps"]) / 1e6,
            number(&result["dropped_packets"]),
            number(&result["rate_bps"]["p50"]) / 1e6,
            milliseconds(&result["excess_s"]["p50"]),
            milliseconds(&result["excess_s"]["p95"]),
        );
    }
    show(&said)
}

/// What has been seen of a site.
#[derive(Default)]
struct Seen {
    /// The time between looks at it, and what was counted in it.
    span_s: f64,
    sent_bytes: f64,
    received_bytes: f64,
    dropped_packets: f64,
}

impl Seen {
    /// Between these two looks at the site, `span_s` apart.
    fn add(&mut self, before: &Value, after: &Value, span_s: f64) {
        let grown = |key: &str| grown(number(&before[key]), number(&after[key]));
        self.span_s += span_s;
        self.sent_bytes += grown("sent_bytes");
        self.received_bytes += grown("received_bytes");
        self.dropped_packets += grown("dropped_packets");
    }
}

/// By how much a count has grown, which has begun anew where it is smaller.
fn grown(before: f64, after: f64) -> f64 {
    if after < before { after } else { after - before }
}

/// What came of each site of the last of `looks` from its first one on. Sites are known by their names, whose order may change.
fn measured(looks: &[Value]) -> Vec<Value> {
    let sites = |look: &Value| -> BTreeMap<String, Value> {
        let all = look["sites"].as_array().into_iter().flatten();
        all.filter_map(|site| Some((site["name"].as_str()?.to_owned(), site.clone()))).collect()
    };
    let Some(last) = looks.last() else { return Vec::new() };
    let mut seen: BTreeMap<String, Seen> =
        sites(last).into_keys().map(|name| (name, Seen::default())).collect();
    for pair in looks.windows(2) {
        let span_s = grown(number(&pair[0]["uptime_s"]), number(&pair[1]["uptime_s"]));
        let (before, after) = (sites(&pair[0]), sites(&pair[1]));
        for (name, one) in &mut seen {
            if let (Some(before), Some(after)) = (before.get(name), after.get(name)) {
                one.add(before, after, span_s);
            }
        }
    }
    let series = |name: &str, key: &str| {
        let of = |look: &Value| {
            let site = look["sites"].as_array()?.iter().find(|site| site["name"].as_str() == Some(name))?;
            site["links"][0][key].as_f64()
        };
        let mut values: Vec<f64> = looks.iter().filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        quantiles(&values)
    };
    let result = |site: &Value| {
        let name = site["name"].as_str()?;
        let seen = seen.get(name)?;
        let span_s = seen.span_s.max(1e-3);
        Some(json!({
            "site": name,
            "seconds": seen.span_s,
            "sent_bps": seen.sent_bytes * 8.0 / span_s,
            "received_bps": seen.received_bytes * 8.0 / span_s,
            "dropped_packets": seen.dropped_packets,
            "rate_bps": series(name, "rate_bps"),
            "output_bps": series(name, "output_bps"),
            "excess_s": series(name, "excess_s"),
            "rtt_s": series(name, "rtt_s"),
            "queue_bytes": series(name, "queue_bytes"),
        }))
    };
    last["sites"].as_array().into_iter().flatten().filter_map(result).collect()
}

/// Of values in ascending order.
fn quantiles(values: &[f64]) -> Value {
    let at = |part: f64| values.get(((values.len().max(1) - 1) as f64 * part).round() as usize);
    json!({ "p5": at(0.05), "p50": at(0.5), "p95": at(0.95), "max": values.last() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look at sites with a name and the bytes that were sent.
    fn look(uptime_s: f64, sites: &[(&str, u64)]) -> Value {
        let site = |&(name, sent): &(&str, u64)| {
            let links = json!([{ "rate_bps": sent }]);
            json!({ "name": name, "sent_bytes": sent, "received_bytes": 0, "dropped_packets": 0, "links": links })
        };
        json!({ "uptime_s": uptime_s, "sites": sites.iter().map(site).collect::<Vec<_>>() })
    }

    fn sent(results: &[Value], at: usize) -> (&str, f64, f64) {
        let result = &results[at];
        (result["site"].as_str().unwrap(), number(&result["seconds"]), number(&result["sent_bps"]))
    }

    #[test]
    fn sites_are_measured_by_name_wherever_they_stand() {
        let looks = [
            look(10.0, &[("b", 1000), ("c", 500)]),
            look(11.0, &[("b", 2000), ("c", 500)]),
            // One more, in front of the others, and one less.
            look(12.0, &[("a", 9), ("b", 2500)]),
        ];
        let results = measured(&looks);
        assert_eq!(results.len(), 2);
        assert_eq!(sent(&results, 0), ("a", 0.0, 0.0));
        assert_eq!(sent(&results, 1), ("b", 2.0, 1500.0 * 8.0 / 2.0));
        assert_eq!(results[1]["rate_bps"]["max"], 2500.0);
    }

    #[test]
    fn a_daemon_that_starts_anew_counts_from_there() {
        let looks = [look(100.0, &[("b", 5000)]), look(101.0, &[("b", 6000)]), look(0.5, &[("b", 300)])];
        assert_eq!(sent(&measured(&looks), 0), ("b", 1.5, 1300.0 * 8.0 / 1.5));
    }

    #[test]
    fn nothing_seen_is_nothing_measured() {
        assert!(measured(&[]).is_empty());
        assert!(measured(&[json!({ "sites": 3 })]).is_empty());
        assert_eq!(sent(&measured(&[look(1.0, &[("b", 7)])]), 0), ("b", 0.0, 0.0));
    }
}
