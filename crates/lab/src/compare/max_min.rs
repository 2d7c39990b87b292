//! Max-min fair rates by progressive filling: what an ideal network would give to each flow.
//!
//! All rates rise together, each in proportion to its flow's weight, until a link on a flow's path is full or the flow has
//! all that it wants; then its rate stays, and the others go on.
//!
//! Source: Bertsekas and Gallager, *Data Networks*, 2nd edition, section 6.5.2; with weights and demands.

/// What of a link is full counts as full: rounding must not leave a flow to rise for ever.
const FULL: f64 = 1e-9;

/// One flow.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// The links of its path, each with what a bit of the flow costs there (cells need more than one).
    pub(super) hops: Vec<(usize, f64)>,
    /// What it wants at most; infinite for one that always has more.
    pub(super) rate: f64,
    /// How fast it rises; above zero.
    pub(super) weight: f64,
}

/// The max-min fair rates of `flows` over links of these capacities, in the unit of the capacities.
pub(super) fn rates(capacities: &[f64], flows: &[Demand]) -> Vec<f64> {
    let mut room = capacities.to_vec();
    let mut rates = vec![0.0; flows.len()];
    // One without a link has all that it wants.
    for (rate, flow) in rates.iter_mut().zip(flows).filter(|(_, flow)| flow.hops.is_empty()) {
        *rate = flow.rate;
    }
    let mut rising: Vec<usize> = (0..flows.len()).filter(|flow| !flows[*flow].hops.is_empty()).collect();
    while !rising.is_empty() {
        // What a link loses per unit of the common level.
        let mut slope = vec![0.0; room.len()];
        for flow in rising.iter().map(|flow| &flows[*flow]) {
            flow.hops.iter().for_each(|&(link, cost)| slope[link] += cost * flow.weight);
        }
        let by_links =
            room.iter().zip(&slope).filter(|(_, slope)| **slope > 0.0).map(|(room, slope)| room / slope);
        let by_demands = rising.iter().map(|&flow| (flows[flow].rate - rates[flow]) / flows[flow].weight);
        let step = by_links.chain(by_demands).fold(f64::INFINITY, f64::min).max(0.0);
        for (left, loses) in room.iter_mut().zip(&slope) {
            *left -= step * loses;
        }
        for &flow in &rising {
            rates[flow] += step * flows[flow].weight;
        }
        rising.retain(|&flow| {
            let spec = &flows[flow];
            let has_room = |&(link, _): &(usize, f64)| room[link] > FULL * capacities[link];
            rates[flow] < spec.rate * (1.0 - FULL) && spec.hops.iter().all(has_room)
        });
    }
    rates
}

#[cfg(test)]
mod tests {
    use tidegate_mechanism::random::{Seed, Substream};

    use super::*;

    fn flow(links: &[usize], rate: f64) -> Demand {
        Demand { hops: links.iter().map(|link| (*link, 1.0)).collect(), rate, weight: 1.0 }
    }

    fn greedy(links: &[usize]) -> Demand {
        flow(links, f64::INFINITY)
    }

    fn close(measured: &[f64], expected: &[f64]) {
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * b;
        assert!(
            measured.len() == expected.len() && measured.iter().zip(expected).all(is_near),
            "{measured:?} instead of {expected:?}"
        );
    }

    #[test]
    fn what_one_flow_cannot_use_is_shared_by_the_others() {
        let paths = [greedy(&[0, 1]), greedy(&[0]), greedy(&[1]), flow(&[1], 3.0)];
        close(&rates(&[10.0, 30.0], &paths), &[5.0, 5.0, 22.0, 3.0]);
        close(&rates(&[10.0], &[flow(&[0], 1.0), greedy(&[0]), flow(&[], 7.0)]), &[1.0, 9.0, 7.0]);
        close(&rates(&[10.0], &[flow(&[0], 4.0), flow(&[0], 5.0)]), &[4.0, 5.0]);
    }

    #[test]
    fn weights_divide_and_cells_cost_more() {
        let heavy = Demand { weight: 3.0, ..greedy(&[0]) };
        close(&rates(&[8.0], &[heavy, greedy(&[0])]), &[6.0, 2.0]);
        let in_cells = Demand { hops: vec![(0, 1.5)], ..greedy(&[0]) };
        close(&rates(&[10.0], &[in_cells, greedy(&[0])]), &[4.0, 4.0]);
    }

    /// The second General Fairness Configuration: the ideal column of Table 2 of the report on NBP.
    #[test]
    fn the_ideal_rates_of_gfc_2_come_out() {
        let capacities = [50.0, 100.0, 50.0, 150.0, 150.0, 50.0];
        // From router to router, how many flows, and their rate.
        let groups: [(usize, usize, usize, f64); 12] = [
            (1, 6, 1, 10.0),
            (2, 6, 1, 10.0),
            (3, 6, 1, 10.0),
            (1, 7, 1, 5.0),
            (2, 7, 1, 5.0),
            (4, 7, 1, 5.0),
            (5, 6, 3, 35.0),
            (1, 2, 1, 35.0),
            (2, 3, 2, 35.0),
            (3, 4, 1, 10.0),
            (6, 7, 7, 5.0),
            (4, 5, 2, 52.5),
        ];
        let mut flows = Vec::new();
        let mut ideal = Vec::new();
        for (from, to, count, rate) in groups {
            for _ in 0..count {
                flows.push(flow(&(from - 1..to - 1).collect::<Vec<_>>(), 100.0));
                ideal.push(rate);
            }
        }
        close(&rates(&capacities, &flows), &ideal);
    }

    /// The definition: nobody can have more without taking from one that has no more, weighted.
    #[test]
    fn each_flow_has_what_it_wants_or_a_full_link_on_which_nobody_has_more() {
        for seed in 0..50 {
            let mut random = Substream::new(Seed::for_component(seed, "max_min.test"));
            let mut between = |low: u32, high: u32| low + random.below(high - low + 1);
            let capacities: Vec<f64> = (0..between(1, 8)).map(|_| f64::from(between(1, 100))).collect();
            let flows: Vec<Demand> = (0..between(1, 30))
                .map(|_| {
                    let first = between(0, capacities.len() as u32 - 1) as usize;
                    let last = between(first as u32, capacities.len() as u32 - 1) as usize;
                    let rate = if between(0, 1) == 0 { f64::INFINITY } else { f64::from(between(1, 40)) };
                    let hops =
                        (first..=last).map(|link| (link, 1.0 + 0.1 * f64::from(between(0, 3)))).collect();
                    Demand { hops, rate, weight: f64::from(between(1, 3)) }
                })
                .collect();
            let found = rates(&capacities, &flows);
            let mut load = vec![0.0; capacities.len()];
            for (flow, rate) in flows.iter().zip(&found) {
                flow.hops.iter().for_each(|&(link, cost)| load[link] += cost * rate);
            }
            assert!(load.iter().zip(&capacities).all(|(load, room)| *load <= room * (1.0 + 1e-6)), "{seed}");
            for (flow, rate) in flows.iter().zip(&found) {
                let level = rate / flow.weight;
                let is_bottleneck = |&(link, _): &(usize, f64)| {
                    let others = flows
                        .iter()
                        .zip(&found)
                        .filter(|(other, _)| other.hops.iter().any(|hop| hop.0 == link));
                    let highest = others.map(|(other, its)| its / other.weight).fold(0.0, f64::max);
                    load[link] >= capacities[link] * (1.0 - 1e-6) && highest <= level * (1.0 + 1e-6)
                };
                assert!(
                    *rate >= flow.rate * (1.0 - 1e-6) || flow.hops.iter().any(is_bottleneck),
                    "{seed}: {found:?}"
                );
            }
        }
    }
}
