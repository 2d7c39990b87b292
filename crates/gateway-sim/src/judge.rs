//! What must hold in every case, and which faults are needed for it not to.

use tidegate_units::{Span, Time};

use crate::case::{Case, FAULTS_END, FLOOR, Load, MAX, RECOVERY, Vice, WATCH};
use crate::world::{Seen, World};

/// When all is well again, datagrams fill this part of what the line carries.
pub const PART_OF_DATAGRAMS: f64 = 0.85;
/// Where more is lost than this part, the rate does not grow (`loss_max`): what is left is what was assured.
const LOSS_MAX: f64 = 0.02;
/// Who sends less than this part of the rate is not held back by it: a window of TCP grows as slowly as it does.
const HELD_BACK: f64 = 0.8;
/// And transfers get this part of what they get through a plain tunnel, if it is the rate that holds them back.
pub const PART_OF_TRANSFERS: f64 = 0.5;
/// The queue of the line is then no longer than this on the average: the target, and room for packets, jitter and late ones.
const QUEUE: f64 = 0.025;
const QUEUE_PACKETS: f64 = 8.0;
const PACKET_BYTES: f64 = 1292.0;
/// Of the line, what a packet of a host is of what it takes there (1200 of 1260), and what is left of control.
const CARRIED: f64 = 1200.0 / 1260.0;
/// What a bad peer may change of what another one gets.
const TOUCHED: f64 = 0.01;
/// Whether a difference is chance is asked of so many cases that differ by microseconds on the line of the first site, and of as many that
/// differ by milliseconds on that of the peer in question.
const SHAKEN: u64 = 4;
/// Chance may take so many standard deviations of what gets lost.
const CHANCE: f64 = 3.0;

/// What a case came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What did not hold.
    pub broken: Vec<String>,
    /// What was seen after recovery.
    pub seen: Seen,
    /// A number that is the same only if all of it was.
    pub print: u64,
}

/// Runs `case`, and looks at what holds at any time, and what must hold again in the end.
pub fn judge(case: &Case) -> Outcome {
    let mut world = World::new(case);
    let well = FAULTS_END + RECOVERY;
    world.run(well);
    let before = world.take();
    world.run(well + WATCH);
    let seen = world.take();
    let mut broken = std::mem::take(&mut world.broken);
    for (number, site) in (1..case.lines.len()).enumerate() {
        if case.vice.is_some_and(|(bad, _)| bad == site) {
            continue;
        }
        well_again(case, number, site, &seen, &mut broken);
    }
    if let Some((bad, vice)) = case.vice {
        untouched(case, bad, vice, &seen, &mut broken);
    }
    let print = fingerprint(&format!("{before:?}{seen:?}{broken:?}{}", world.under_way()));
    Outcome { broken, seen, print }
}

/// FNV-1a.
fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Bytes per second that loads to `site` got while it was watched.
fn goodput(case: &Case, site: usize, seen: &Seen) -> f64 {
    arrived_bytes(case, site, seen) as f64 / WATCH.as_secs_f64()
}

/// Bytes that loads to `site` got.
pub fn arrived_bytes(case: &Case, site: usize, seen: &Seen) -> u64 {
    // Loads stand in the order of sites, transfers one by one.
    let counts = case.loads.iter().map(|load| match load {
        Load::Datagrams(_) => 1,
        Load::Transfers(count) => *count as usize,
    });
    let first: usize = counts.clone().take(site - 1).sum();
    let count = counts.clone().nth(site - 1).unwrap_or(0);
    seen.done[first..first + count].iter().map(|done| done.bytes).sum()
}

/// Link number `number`, to `site`, ten seconds after the last fault.
fn well_again(case: &Case, number: usize, site: usize, seen: &Seen, broken: &mut Vec<String>) {
    let line = &case.lines[site];
    if line.trace.is_some() {
        return; // what it could carry is not known here; what holds at any time is looked at all the same
    }
    let rate = case.final_rate(site).min(MAX).as_bytes_per_second_f64();
    let kept = (1.0 - line.loss) * (1.0 - case.spoils);
    let got = goodput(case, site, seen);
    match case.loads[number] {
        Load::Datagrams(times) => {
            let offered = times * line.rate.as_bytes_per_second_f64();
            let is_lossy = 1.0 - kept > LOSS_MAX;
            let assured = FLOOR.as_bytes_per_second_f64().min(rate);
            let part =
                kept * CARRIED * if is_lossy { assured } else { PART_OF_DATAGRAMS * rate.min(offered) };
            // What chance takes of so few packets.
            let packets = part * WATCH.as_secs_f64() / PACKET_BYTES;
            let least = part * (1.0 - CHANCE * ((1.0 - kept) / packets).sqrt());
            if got < least {
                broken.push(format!(
                    "site {site} gets {got:.0} bytes/s of {rate:.0}, and is to get {least:.0}"
                ));
            }
        }
        // Where more is lost, TCP has next to nothing either way, and chance decides.
        Load::Transfers(_) if 1.0 - kept > LOSS_MAX => {}
        Load::Transfers(_) => {
            let without = goodput(case, site, &watched(&case.plain()));
            let allowed = seen.rates[site - 1].as_bytes_per_second_f64() * CARRIED;
            if got < PART_OF_TRANSFERS * without && got > HELD_BACK * allowed {
                broken.push(format!(
                    "transfers to site {site} get {got:.0} bytes/s, and {without:.0} through a plain tunnel"
                ));
            }
        }
    }
    let final_rate = case.final_rate(site).as_bytes_per_second_f64();
    let jitter = (line.jitter + line.late).as_secs_f64();
    let allowed = (QUEUE + 3.0 * jitter) * final_rate + QUEUE_PACKETS * PACKET_BYTES;
    let queue = seen.queue_bytes[site];
    if queue > allowed {
        broken.push(format!("{queue:.0} bytes wait in line {site}, and {allowed:.0} are allowed"));
    }
}

/// What is seen of `case` after recovery.
fn watched(case: &Case) -> Seen {
    let mut world = World::new(case);
    world.run(FAULTS_END + RECOVERY);
    world.take();
    world.run(FAULTS_END + RECOVERY + WATCH);
    world.take()
}

/// The other sites get what they would get if the one at `bad` were honest.
fn untouched(case: &Case, bad: usize, vice: Vice, seen: &Seen, broken: &mut Vec<String>) {
    let honest = Case { vice: None, ..case.clone() };
    let without = watched(&honest);
    for site in (1..case.lines.len()).filter(|&site| site != bad) {
        let (got, before) = (goodput(case, site, seen), goodput(case, site, &without));
        // Packets of both pass the gateway, and the instants of transfers' own move by microseconds, of which their losses depend: chance has
        // its part in those, as in a line whose rate changes tenfold within a second. Of a packet more or less nothing follows.
        let is_touched = |other: f64| match case.loads[site - 1] {
            Load::Datagrams(_) if case.lines[site].trace.is_some() => got < PART_OF_TRANSFERS * other,
            Load::Datagrams(_) => (got - other).abs() > TOUCHED * other + PACKET_BYTES,
            Load::Transfers(_) => got < PART_OF_TRANSFERS * other,
        };
        // What microseconds on the first line do, without anybody bad, is no touch, nor what an honest peer does whose line is a little longer.
        let shaken = |line: usize, by: Span| {
            let mut other = honest.clone();
            other.lines[line].delay += by;
            is_touched(goodput(case, site, &watched(&other)))
        };
        let touched = is_touched(before)
            && (1..=SHAKEN)
                .all(|step| shaken(0, Span::from_micros(step)) && shaken(bad, Span::from_millis(step)));
        if touched {
            broken.push(format!(
                "site {site} gets {got:.0} bytes/s beside a peer that {vice:?}, and {before:.0} without"
            ));
        }
    }
}

/// The case with as few faults as still break what was broken first.
pub fn reduce(case: &Case) -> Case {
    let is_broken = |one: &Case| !judge(one).broken.is_empty();
    let mut least = case.clone();
    let mut number = 0;
    while number < least.faults.len() {
        let mut fewer = least.clone();
        fewer.faults.remove(number);
        if is_broken(&fewer) {
            least = fewer;
        } else {
            number += 1;
        }
    }
    for simpler in [
        Case { vice: None, ..least.clone() },
        Case { strangers: Vec::new(), ..least.clone() },
        Case { spoils: 0.0, ..least.clone() },
    ] {
        if is_broken(&simpler) {
            least = simpler;
        }
    }
    for site in 0..least.lines.len() {
        let mut simpler = least.clone();
        let line = &mut simpler.lines[site];
        (line.loss, line.duplicate, line.reorder, line.jitter) = (0.0, 0.0, 0.0, Span::ZERO);
        if is_broken(&simpler) {
            least = simpler;
        }
    }
    least
}

/// Seconds of gateways that a case takes.
pub fn gateway_seconds(case: &Case) -> f64 {
    (well_end().since(Time::ZERO)).as_secs_f64() * case.lines.len() as f64
}

fn well_end() -> Time {
    FAULTS_END + RECOVERY + WATCH
}
