//! A short swarm, and what a swarm must notice.

use tidegate_gateway_sim::case::{Case, Fault, Load, Vice};
use tidegate_gateway_sim::judge::{judge, reduce};
use tidegate_units::{BitRate, Span, Time};

fn calm(load: Load) -> Case {
    Case::calm(BitRate::from_mbps(4), Span::from_millis(15), 60, load)
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

#[test]
fn a_calm_line_is_used_and_its_queue_is_short() {
    for load in [Load::Datagrams(1.5), Load::Transfers(2)] {
        let outcome = judge(&calm(load));
        assert_eq!(outcome.broken, [""; 0], "{load:?}");
    }
}

#[test]
fn through_a_plain_tunnel_the_queue_is_long_and_that_is_noticed() {
    let outcome = judge(&calm(Load::Datagrams(1.5)).plain());
    assert_eq!(outcome.broken.len(), 1, "{:?}", outcome.broken);
    assert!(outcome.broken[0].contains("bytes wait in line 1"), "{:?}", outcome.broken);
}

#[test]
fn the_first_seeds_hold() {
    for seed in 1..=6 {
        let case = Case::draw(seed);
        let outcome = judge(&case);
        assert_eq!(outcome.broken, [""; 0], "seed {seed}:\n{}", case.describe());
    }
}

#[test]
fn a_case_comes_to_the_same_each_time() {
    for seed in [3, 4] {
        let case = Case::draw(seed);
        assert_eq!(judge(&case).print, judge(&case).print, "seed {seed}");
    }
}

#[test]
fn a_bad_peer_touches_nobody_else() {
    for vice in [Vice::LiesHigh, Vice::LiesLow, Vice::Silent, Vice::Exhausts] {
        let mut case = calm(Load::Datagrams(1.5));
        case.lines.push(case.lines[1].clone());
        case.loads.push(Load::Datagrams(1.5));
        case.clocks.push(case.clocks[1]);
        case.vice = Some((2, vice));
        assert_eq!(judge(&case).broken, [""; 0], "{vice:?}");
    }
}

#[test]
fn what_fails_is_reduced_to_the_faults_that_it_needs() {
    // A line that is cut to the end is used by nobody, whatever else happens.
    let mut case = calm(Load::Datagrams(1.5));
    case.faults = vec![
        (at(4), Fault::Step { site: 1, step: 0.5 }),
        (at(6), Fault::Cut { site: 1, lasts: Span::from_secs(60) }),
        (at(8), Fault::Move { site: 1 }),
        (at(9), Fault::Restart { site: 1, step: 0.0 }),
    ];
    assert!(!judge(&case).broken.is_empty());
    let least = reduce(&case);
    assert_eq!(least.faults, [(at(6), Fault::Cut { site: 1, lasts: Span::from_secs(60) })]);
}
