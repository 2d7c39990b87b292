//! A short swarm, and what a swarm must notice.

use tidegate_gateway_sim::case::{Case, Fault, Load, Vice};
use tidegate_gateway_sim::judge::{arrived_bytes, judge, reduce};
use tidegate_gateway_sim::world::World;
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

/// With how many seeds all of a long test is wanted, if it is: `TIDEGATE_SEEDS`.
fn seeds() -> Option<u64> {
    std::env::var("TIDEGATE_SEEDS").ok().map(|text| text.parse().expect("a number of seeds"))
}

/// New addresses; and where all is wanted restarts of either end, also with a clock that is half an hour behind, and clocks that are set by
/// a second: in each second from the fifth on downloads have nine tenths of what they had.
#[test]
fn five_seconds_after_a_fault_the_rate_is_there_again() {
    let faults = (0..2).flat_map(|site| {
        [
            Fault::Move { site },
            Fault::Restart { site, step: 0.0 },
            Fault::Restart { site, step: -1800.0 },
            Fault::Step { site, step: 1.0 },
            Fault::Step { site, step: -1.0 },
        ]
    });
    let moves = |fault: &Fault| matches!(fault, Fault::Move { .. });
    for fault in faults.filter(|fault| seeds().is_some() || moves(fault)) {
        let mut least = f64::INFINITY;
        for seed in 1..=seeds().unwrap_or(1) {
            // 20 Mbit/s, 35 ms there and back, four bandwidth-delay products of FIFO.
            let mut case =
                Case::calm(BitRate::from_mbps(20), Span::from_micros(16_500), 232, Load::Transfers(4));
            case.seed = seed;
            // Clocks that show hours, so that they can be set back.
            case.clocks = vec![(Span::from_secs(7200), 0.0); 2];
            case.faults = vec![(at(12), fault)];
            let mut world = World::new(&case);
            let mut second = |end: u64| {
                world.run(at(end));
                arrived_bytes(&case, 1, &world.take()) as f64
            };
            second(7);
            let before = second(12) / 5.0;
            second(17);
            least = (18..=22).map(&mut second).fold(least, |least, bytes| least.min(bytes / before));
            assert_eq!(world.broken, [""; 0], "{fault}");
        }
        println!("{fault}: {:.1} % at least", 100.0 * least);
        assert!(least > 0.9, "{fault}: {least}");
    }
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
