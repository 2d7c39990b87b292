//! CAKE's filter of acknowledgments: where a link back is slow, those that later ones make needless take its time from others.
//!
//! Source: Linux, `sch_cake.c` (`cake_ack_filter`, `cake_tcph_sack_compare`).
//! Deviations:
//! - Segments with data that acknowledge as well neither are left out nor make others needless (in Linux they do the latter).
//! - Options other than SACK do not occur; numbers do not wrap. Accurate feedback (ACE) counts as flags do.

use tidegate_packet::{FlowId, SackBlock, TcpFlags, TcpHeader};

use super::config::AckFilter;

/// One of the packets that wait, as the filter sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) flow: FlowId,
    /// Its header, if it only acknowledges.
    pub(super) ack: Option<TcpHeader>,
}

/// What must not get lost with an acknowledgment.
fn signals(ack: &TcpHeader) -> (bool, bool, u8) {
    (ack.flags.contains(TcpFlags::ECE), ack.flags.contains(TcpFlags::CWR), ack.flags.ace())
}

fn blocks(ack: &TcpHeader) -> impl Iterator<Item = (u64, u64)> + Clone {
    let ends = |block: &SackBlock| {
        let start = ack.acknowledgment.saturating_add(u64::from(block.offset));
        (start, start.saturating_add(u64::from(block.length)))
    };
    ack.sack.as_slice().iter().map(ends)
}

/// Whether `later` says all that `ack` says of what was received out of order, and whether it says more.
fn covers(ack: &TcpHeader, later: &TcpHeader) -> Option<bool> {
    if ack.sack.is_empty() || later.sack.is_empty() {
        return ack.sack.is_empty().then_some(!later.sack.is_empty());
    }
    let is_within = |(start, end)| blocks(later).any(|(first, last)| first <= start && last >= end);
    let length = |of: &TcpHeader| blocks(of).map(|(start, end)| end - start).sum::<u64>();
    blocks(ack).all(is_within).then(|| length(later) > length(ack))
}

/// Which of the packets `waiting` in a queue the last of them, `newest`, makes needless, by its place.
pub(super) fn needless(
    filter: AckFilter,
    waiting: impl Iterator<Item = Waiting>,
    newest: Waiting,
) -> Option<usize> {
    let last = newest.ack?;
    let (mut found, mut number, mut count) = (None, 0i32, 0);
    for (place, packet) in waiting.enumerate() {
        count = place + 1;
        let Some(ack) = packet.ack.filter(|_| packet.flow == newest.flow) else { continue };
        if found.is_some_and(|(_, flags)| flags != signals(&ack)) {
            // It is the last one with its flags.
            found = None;
            number -= 1;
        }
        if ack.acknowledgment > last.acknowledgment {
            continue;
        }
        match covers(&ack, &last) {
            None => continue,
            Some(false) if ack.acknowledgment == last.acknowledgment => continue,
            Some(_) => {}
        }
        found = found.or(Some((place, signals(&ack))));
        number += 1;
        if number > 1 {
            break;
        }
    }
    let (place, flags) = found?;
    let is_next_to_last = place + 1 == count && flags == signals(&last);
    (number > 1 || (filter == AckFilter::Aggressive && is_next_to_last)).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_packet::SackBlocks;

    fn ack(acknowledgment: u64, flags: TcpFlags, sacks: &[(u32, u32)]) -> Waiting {
        let mut sack = SackBlocks::default();
        for &(offset, length) in sacks {
            sack.push(SackBlock { offset, length });
        }
        let flags = TcpFlags::ACK.union(flags);
        let header = TcpHeader { acknowledgment, flags, sack, ..TcpHeader::default() };
        Waiting { flow: FlowId(0), ack: Some(header) }
    }

    fn plain(acknowledgment: u64) -> Waiting {
        ack(acknowledgment, TcpFlags::NONE, &[])
    }

    fn of(filter: AckFilter, waiting: &[Waiting], newest: Waiting) -> Option<usize> {
        needless(filter, waiting.iter().copied(), newest)
    }

    const DATA: Waiting = Waiting { flow: FlowId(0), ack: None };

    #[test]
    fn of_two_that_are_needless_the_first_goes_and_of_one_only_where_it_is_asked_for() {
        let filter = |waiting: &[Waiting]| of(AckFilter::Filter, waiting, plain(3000));
        let aggressive = |waiting: &[Waiting]| of(AckFilter::Aggressive, waiting, plain(3000));
        assert_eq!(filter(&[DATA, plain(1000), plain(2000)]), Some(1));
        assert_eq!((filter(&[plain(1000)]), aggressive(&[plain(1000)])), (None, Some(0)));
        assert_eq!(aggressive(&[plain(1000), DATA]), None, "it is not directly in front");
        assert_eq!(aggressive(&[plain(3000)]), None, "a duplicate is no repetition");
        assert_eq!(aggressive(&[plain(4000)]), None, "a later one that was overtaken");
        assert_eq!(of(AckFilter::Aggressive, &[plain(1000)], DATA), None);
        let other = Waiting { flow: FlowId(1), ..plain(1000) };
        assert_eq!(aggressive(&[other]), None);
    }

    #[test]
    fn what_an_acknowledgment_alone_says_is_kept() {
        let echo = |number| ack(number, TcpFlags::ECE, &[]);
        assert_eq!(of(AckFilter::Aggressive, &[echo(1000)], plain(2000)), None);
        assert_eq!(of(AckFilter::Filter, &[plain(1000), echo(1500), echo(1600)], echo(2000)), Some(1));
        let held = |number, sacks| ack(number, TcpFlags::NONE, sacks);
        let aggressive = |before, after| of(AckFilter::Aggressive, &[before], after);
        assert_eq!(aggressive(held(1000, &[(1000, 1000)]), plain(2000)), None, "it alone tells of a hole");
        assert_eq!(aggressive(held(1000, &[(1000, 1000)]), held(1000, &[(1000, 2000)])), Some(0));
        assert_eq!(aggressive(held(1000, &[(1000, 2000)]), held(1000, &[(1000, 1000)])), None);
        assert_eq!(aggressive(plain(1000), held(1000, &[(1000, 1000)])), Some(0));
    }
}
