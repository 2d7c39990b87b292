//! What summaries tell of connections that come and go: transfers, pages, films (`docs/results.md`).

use serde_json::{Map, Value, json};
use tidegate_engine::{CrowdTally, PageTally, SizeClass, Times, TransferTally, VideoTally};
use tidegate_units::Span;

/// Under which key of its flow it stands.
pub(crate) const fn key(tally: &CrowdTally) -> &'static str {
    match tally {
        CrowdTally::Transfers(_) => "transfers",
        CrowdTally::Pages(_) => "pages",
        CrowdTally::Video(_) => "video",
    }
}

/// What came of it.
pub(crate) fn told(tally: &CrowdTally) -> Value {
    match tally {
        CrowdTally::Transfers(tally) => transfers(tally),
        CrowdTally::Pages(tally) => pages(tally),
        CrowdTally::Video(tally) => video(tally),
    }
}

/// What came of transfers that come and go.
fn transfers(tally: &TransferTally) -> Value {
    let by_size: Map<_, _> = SizeClass::ALL
        .iter()
        .zip(&tally.by_class)
        .filter(|(_, times)| times.count() > 0)
        .map(|(class, of_class)| (class.name().to_owned(), times(of_class)))
        .collect();
    let mut all = times(&tally.times);
    all["arrived"] = tally.arrived.into();
    all["arrived_bytes"] = tally.arrived_bytes.into();
    all["refused"] = tally.refused.into();
    all["completed_bytes"] = tally.completed_bytes.into();
    all["unfinished"] = (tally.arrived - tally.refused - tally.completed).into();
    all["active_max"] = tally.active_max.into();
    all["by_size"] = by_size.into();
    all
}

/// What came of a client's pages.
fn pages(tally: &PageTally) -> Value {
    json!({
        "begun": tally.begun,
        "loaded": tally.loaded,
        "load_s": quantiles(&tally.loads),
        "objects": tally.objects.count(),
        "object_s": quantiles(&tally.objects),
        "connections": tally.connections,
    })
}

/// What came of a film.
fn video(tally: &VideoTally) -> Value {
    let mean = |sum: u64| (tally.segments > 0).then(|| sum as f64 / tally.segments as f64);
    let (played, stalled) = (tally.played.as_secs_f64(), tally.stalled.as_secs_f64());
    json!({
        "segments": tally.segments,
        "mean_bitrate_bps": mean(tally.rate_sum_bps),
        "switches": tally.switches,
        "startup_s": tally.startup.map(Span::as_secs_f64),
        "played_s": played,
        "stalls": tally.stalls,
        "stalled_s": stalled,
        "stalled_ratio": if played + stalled > 0.0 { stalled / (played + stalled) } else { 0.0 },
    })
}

fn quantiles(times: &Times) -> Value {
    json!({
        "mean": times.mean_s(),
        "p50": times.quantile_s(0.50),
        "p95": times.quantile_s(0.95),
        "p99": times.quantile_s(0.99),
    })
}

/// How long they took, and how many times longer than where nothing else is, where that is known.
fn times(times: &Times) -> Value {
    let mut all = json!({
        "completed": times.count(),
        "completion_s": quantiles(times),
    });
    if let Some(mean) = times.mean_slowdown() {
        all["slowdown"] = json!({
            "mean": mean,
            "p50": times.slowdown_quantile(0.50),
            "p95": times.slowdown_quantile(0.95),
            "p99": times.slowdown_quantile(0.99),
        });
    }
    all
}
