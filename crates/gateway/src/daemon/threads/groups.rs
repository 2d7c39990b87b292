//! Which thread has which sites.

use crate::core::config::GatewayConfig;

/// The thread of each site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Division {
    threads: u8,
    of_site: Vec<u8>,
}

impl Division {
    /// The sites of `config` among `threads` threads: groups with most sites first, each to the thread with the
    /// fewest. Where there was a division `before`, a group stays where most of its sites are.
    pub fn new(config: &GatewayConfig, threads: u8, before: Option<&Self>) -> Self {
        let threads = threads.max(1);
        let mut of_site = vec![0; config.sites.len()];
        let mut has = vec![0; usize::from(threads)];
        let mut groups = groups(config);
        // Of groups of one size those that come first in the file are dealt first.
        groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
        for group in groups {
            let thread = match before {
                Some(before) => before.most(&group),
                None => least(&has),
            };
            has[usize::from(thread)] += group.len();
            for site in group {
                of_site[site] = thread;
            }
        }
        Self { threads, of_site }
    }

    /// The thread where most of `group` is.
    fn most(&self, group: &[usize]) -> u8 {
        let mut has = vec![0; usize::from(self.threads)];
        for &site in group {
            has[usize::from(self.of(site))] += 1;
        }
        let most = has.iter().max().copied().unwrap_or(0);
        has.iter().position(|&count: &usize| count == most).unwrap_or(0) as u8
    }

    /// How many threads there are; some may have no site.
    pub const fn threads(&self) -> u8 {
        self.threads
    }

    /// The thread of site number `site`.
    pub fn of(&self, site: usize) -> u8 {
        self.of_site.get(site).copied().unwrap_or(0)
    }

    /// The sites of `thread`, by number.
    pub fn sites(&self, thread: u8) -> Vec<usize> {
        (0..self.of_site.len()).filter(|&site| self.of_site[site] == thread).collect()
    }
}

/// The thread that has the least.
fn least(has: &[usize]) -> u8 {
    (0..).zip(has).min_by_key(|(thread, count): &(u8, _)| (**count, *thread)).map_or(0, |(thread, _)| thread)
}

/// Sites that have to do with each other, in the order of their first ones: a site and the one by way of which it
/// is reached; all sites of a gateway that passes on between them.
fn groups(config: &GatewayConfig) -> Vec<Vec<usize>> {
    let count = config.sites.len();
    let mut first: Vec<usize> = (0..count).collect();
    for (site, about) in config.sites.iter().enumerate() {
        if config.relay.is_some() {
            join(&mut first, 0, site);
        }
        if let Some(via) = about.via {
            join(&mut first, via as usize, site);
        }
    }
    let mut all: Vec<Vec<usize>> = vec![Vec::new(); count];
    for site in 0..count {
        all[find(&first, site)].push(site);
    }
    all.retain(|group| !group.is_empty());
    all
}

/// The first site of the group of `site`.
fn find(first: &[usize], mut site: usize) -> usize {
    while first[site] != site {
        site = first[site];
    }
    site
}

fn join(first: &mut [usize], one: usize, other: usize) {
    let (one, other) = (find(first, one), find(first, other));
    first[one.max(other)] = one.min(other);
}

#[cfg(test)]
pub(super) mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::super::super::config::{Plan, encode_key, read};
    use super::*;

    /// What site number `number` is called: sites are in the order of their names.
    fn name(number: usize) -> String {
        format!("{}{number}", if number < 10 { 's' } else { 't' })
    }

    /// A plan with sites `s0` to `s9`, `t10`, ...: by way of whom each is reached, and its networks.
    pub fn plan(sites: &[(Option<usize>, &[String])], gateway: &str) -> Plan {
        let mut text = format!("[gateway]\nprivate_key_file = \"k\"\n{gateway}\n");
        for (number, (via, networks)) in sites.iter().enumerate() {
            let key = encode_key(&[number as u8 + 1; 32]);
            let _ =
                write!(text, "[sites.{}]\npublic_key = \"{key}\"\nnetworks = {networks:?}\n", name(number));
            if let Some(via) = via {
                let _ = writeln!(text, "via = \"{}\"", name(*via));
            }
        }
        read("gateway.toml", &text).unwrap_or_else(|why| panic!("{}", why.render()))
    }

    fn config(via: &[Option<usize>], gateway: &str) -> GatewayConfig {
        let sites: Vec<(Option<usize>, &[String])> = via.iter().map(|&via| (via, &[][..])).collect();
        plan(&sites, gateway).core(&[9; 32], 0)
    }

    #[test]
    fn who_is_reached_by_way_of_another_is_where_that_is() {
        // s1 and s4 by way of s0; s3 by way of s2; s5 and s6 alone.
        let config = config(&[None, Some(0), None, Some(2), Some(0), None, None], "");
        assert_eq!(groups(&config), [vec![0, 1, 4], vec![2, 3], vec![5], vec![6]]);
        let division = Division::new(&config, 2, None);
        assert_eq!((division.sites(0), division.sites(1)), (vec![0, 1, 4, 6], vec![2, 3, 5]));
        assert_eq!(Division::new(&config, 1, None).sites(0), [0, 1, 2, 3, 4, 5, 6]);
        let many = Division::new(&config, 16, None);
        assert_eq!((0..16).map(|thread| many.sites(thread).len()).sum::<usize>(), 7);
        assert!(many.sites(4).is_empty(), "a thread may have no site");
    }

    #[test]
    fn who_passes_on_between_sites_has_one_group() {
        let config = config(&[None; 5], "relay = \"nbq\"");
        assert_eq!(groups(&config), [[0, 1, 2, 3, 4]]);
        assert_eq!(Division::new(&config, 4, None).sites(0).len(), 5);
    }

    #[test]
    fn a_group_stays_where_most_of_it_is_and_nobody_moves_for_balance() {
        let before = Division::new(&config(&[None; 6], ""), 2, None);
        assert_eq!((before.sites(0), before.sites(1)), (vec![0, 2, 4], vec![1, 3, 5]));
        // s1 and s3 are on thread 1, s0 comes to them.
        let joined = config(&[None, None, None, Some(1), None, None], "");
        assert_eq!(Division::new(&joined, 2, Some(&before)), before, "who joins on one thread stays there");
        let more = config(&[Some(1), None, None, Some(1), None, None], "");
        let after = Division::new(&more, 2, Some(&before));
        assert_eq!((after.sites(0), after.sites(1)), (vec![2, 4], vec![0, 1, 3, 5]));
        // Apart again, they stay.
        assert_eq!(Division::new(&config(&[None; 6], ""), 2, Some(&after)), after);
    }

    proptest! {
        /// Every site is on one thread, groups are never divided, and no thread has more than the least has and
        /// one group besides.
        #[test]
        fn groups_are_whole_and_dealt_in_balance(
            via in prop::collection::vec(prop::option::of(0usize..4), 1..24), threads in 1u8..=16,
        ) {
            // The first four have ways of their own, the others perhaps not.
            let count = via.len();
            let is_way = |site: usize, to: usize| site >= 4 && to < count;
            let via: Vec<Option<usize>> =
                (0..count).map(|site| via[site].filter(|&to| is_way(site, to))).collect();
            let config = config(&via, "");
            let division = Division::new(&config, threads, None);
            for (site, to) in via.iter().enumerate() {
                prop_assert!(division.of(site) < threads);
                prop_assert!(to.is_none_or(|to| division.of(to) == division.of(site)));
            }
            let has: Vec<usize> = (0..threads).map(|thread| division.sites(thread).len()).collect();
            prop_assert_eq!(has.iter().sum::<usize>(), count);
            let largest = groups(&config).iter().map(Vec::len).max().unwrap_or(0);
            prop_assert!(has.iter().max() <= has.iter().min().map(|least| least + largest).as_ref());
            prop_assert_eq!(&Division::new(&config, threads, Some(&division)), &division);
        }
    }
}
