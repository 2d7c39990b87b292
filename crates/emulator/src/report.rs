//! The summary for people.

use std::fmt::Write as _;

use serde_json::Value;

/// What only simulated hosts know of their flows is no result of real ones: how much of what arrived was new.
pub fn leave_out_unknown(summary: &mut Value, emulation: &Value) {
    for name in emulation["real_flows"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if let Some(flow) = summary["flows"][name].as_object_mut() {
            flow.remove("goodput_bps");
        }
    }
}

/// The summary of an emulation as text: `summary` as of a run, with `emulation` in it.
pub fn text(summary: &Value) -> String {
    let mut out = String::new();
    let number = |value: &Value, key: &str| value[key].as_f64().unwrap_or(0.0);
    let emulation = &summary["emulation"];
    let duration = number(summary, "duration_s") - number(summary, "warmup_s");
    let title = summary["title"].as_str().filter(|title| !title.is_empty()).unwrap_or("Emulation");
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{title}: {duration:.3} s, TCP {}",
        emulation["congestion_control"].as_str().unwrap_or("?")
    );
    let _ = writeln!(
        out,
        "\n{:<24} {:>12} {:>6} {:>10} {:>10} {:>9} {:>9}",
        "link", "Mbit/s", "used", "queue mean", "queue max", "dropped", "marked"
    );
    for (name, both) in summary["links"].as_object().into_iter().flatten() {
        for (way, link) in [(name.clone(), both), (format!("{name}.reverse"), &both["reverse"])] {
            let _ = writeln!(
                out,
                "{way:<24} {:>12.3} {:>5.1}% {:>10.1} {:>10} {:>9} {:>9}",
                number(link, "throughput_bps") / 1e6,
                number(link, "utilization") * 100.0,
                number(&link["queue_packets"], "mean"),
                number(&link["queue_packets"], "max"),
                number(link, "dropped_packets"),
                number(link, "marked_packets"),
            );
        }
    }
    let flows = summary["flows"].as_object().into_iter().flatten();
    let simulated = flows.map(|(name, flow)| (name.clone(), flow, number(&flow["delay_ms"], "mean")));
    // Those that are flows of the scenario are there already.
    let other = emulation["connections"].as_array().into_iter().flatten();
    let real = other.filter(|connection| connection["flow"].is_null()).map(|connection| {
        let end = |which: &str| {
            let address = connection[which].as_str().unwrap_or("?");
            format!("{address}:{}", connection[format!("{which}_port")])
        };
        let protocol = connection["protocol"].as_str().unwrap_or("?");
        let name = format!("{protocol} {} > {}", end("source"), end("destination"));
        (name, connection, number(connection, "delay_ms_mean"))
    });
    let _ = writeln!(
        out,
        "\n{:<46} {:>10} {:>9} {:>8} {:>8} {:>9}",
        "flow", "Mbit/s", "sent", "lost", "marked", "delay ms"
    );
    for (name, flow, delay) in simulated.chain(real) {
        let _ = writeln!(
            out,
            "{name:<46} {:>10.3} {:>9} {:>8} {:>8} {delay:>9.2}",
            number(flow, "throughput_bps") / 1e6,
            number(flow, "sent_packets"),
            number(flow, "lost_packets"),
            number(flow, "marked_packets"),
        );
    }
    let _ = writeln!(out);
    for (what, key) in [("events", "events"), ("packets handed over", "deliveries")] {
        let lateness = &emulation["lateness"][key];
        let _ = writeln!(
            out,
            "{:>9} {what}, late by {:.0} us (p50), {:.0} us (p99), {:.0} us (max)",
            number(lateness, "count"),
            number(lateness, "p50_us"),
            number(lateness, "p99_us"),
            number(lateness, "max_us"),
        );
    }
    out
}

/// What is to be said of how the results came about, if anything.
pub fn warnings(summary: &Value) -> Vec<String> {
    let emulation = &summary["emulation"];
    [too_slow(emulation), not_urgent(emulation), bursts(emulation)].into_iter().flatten().collect()
}

/// Commands beside the command that ended by themselves, and not well.
pub fn failed_commands(emulation: &Value) -> Vec<String> {
    let ended = emulation["ended_commands"].as_object().into_iter().flatten();
    let failed = ended.filter(|(_, code)| code.as_i64() != Some(0));
    failed
        .map(|(name, code)| match code.as_i64() {
            Some(code) => format!("the command `{name}` ended with exit status: {code}"),
            None => format!("the command `{name}` was ended by a signal"),
        })
        .collect()
}

/// If the system refused what keeps the loop in time.
fn not_urgent(emulation: &Value) -> Option<String> {
    let urgency = &emulation["urgency"];
    let priority = urgency["priority"].as_str().filter(|priority| *priority != "real-time");
    let refused = match (priority, &urgency["memory_locked"]) {
        // Nobody asked.
        _ if urgency["asked"] == false => return None,
        (None, Value::Bool(true)) => return None,
        (Some(_), Value::Bool(true)) => "real-time priority (CAP_SYS_NICE)",
        (None, _) => "locked memory (CAP_IPC_LOCK)",
        (Some(_), _) => "real-time priority and locked memory (CAP_SYS_NICE, CAP_IPC_LOCK)",
    };
    Some(format!("this system refused {refused}: other work on this machine can make the emulation late"))
}

/// If hosts sent datagrams in bursts that their own device would have spread.
fn bursts(emulation: &Value) -> Option<String> {
    let count = emulation["burst_datagrams"].as_u64().filter(|count| *count > 0)?;
    Some(format!(
        "{count} datagrams came in at one instant with others, since their hosts leave segmentation to the device: a real one \
         sends them one after the other; use --offload off where bursts matter"
    ))
}

/// If the machine was too slow.
fn too_slow(emulation: &Value) -> Option<String> {
    if emulation["kept_up"] == true {
        return None;
    }
    let p99 = |key: &str| emulation["lateness"][key]["p99_us"].as_f64().unwrap_or(0.0) / 1e3;
    let (unbuffered, dropped) = (&emulation["unbuffered_packets"], &emulation["device_dropped_packets"]);
    if p99("events") <= 1.0 && p99("deliveries") <= 1.0 && dropped == 0 {
        return Some(format!(
            "{unbuffered} packets found no buffer and were lost before the network: more were in it at once than --buffers \
             allows; give it more"
        ));
    }
    Some(format!(
        "this machine could not keep up: events ran {:.1} ms late and packets were handed over {:.1} ms late (p99; 1 ms is \
         the limit), {unbuffered} packets found no buffer (--buffers), {dropped} were dropped by the devices of hosts. Results show the machine, not the network; lower the rates.",
        p99("events"),
        p99("deliveries"),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(late_us: f64, unbuffered: u64, dropped: u64) -> String {
        too_slow(&json!({
            "kept_up": false,
            "lateness": { "events": { "p99_us": late_us }, "deliveries": { "p99_us": 0.0 } },
            "unbuffered_packets": unbuffered,
            "device_dropped_packets": dropped,
        }))
        .unwrap()
    }

    #[test]
    fn too_few_buffers_are_no_slow_machine() {
        assert!(
            said(10.0, 7, 0).contains("7 packets found no buffer") && said(10.0, 7, 0).contains("--buffers")
        );
        assert!(!said(10.0, 7, 0).contains("could not keep up"));
        for (late_us, dropped) in [(2000.0, 0), (10.0, 5)] {
            assert!(said(late_us, 7, dropped).contains("could not keep up"));
        }
    }

    #[test]
    fn commands_that_failed_are_named() {
        let emulation = json!({ "ended_commands": { "fine": 0, "client": 7, "A=x": null } });
        let failed = failed_commands(&emulation);
        assert_eq!(failed.len(), 2);
        assert!(failed.iter().any(|said| said == "the command `client` ended with exit status: 7"));
    }
}
