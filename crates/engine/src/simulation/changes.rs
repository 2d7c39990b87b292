//! What changes routes: scripted changes of links, and congestion. Scripted changes of reservations and borders, too.

use super::Simulation;
use super::hops::Hop;
use crate::border::Border;
use crate::ids::LinkId;
use crate::network::{BorderChange, Change, ReservationChange, ScriptedChange};
use crate::observer::Observer;
use crate::world::Wake;

impl<O: Observer> Simulation<O> {
    pub(crate) fn arm_script(&mut self) {
        let of_link = self.network.script.get(self.script_next).map(|change| change.at);
        let of_flow = self.network.reservations.get(self.reservation_next).map(|change| change.at);
        let of_border = self.network.border_changes.get(self.border_change_next).map(|change| change.at);
        if let Some(at) = of_link.into_iter().chain(of_flow).chain(of_border).min() {
            self.world.events.schedule(at, Wake::Script.token(0));
        }
    }

    pub(super) fn on_script(&mut self) {
        let now = self.world.now;
        let mut routes_change = false;
        while let Some(&ScriptedChange { at, link, change }) = self.network.script.get(self.script_next) {
            if at > now {
                break;
            }
            self.script_next += 1;
            let id = link;
            let link = &mut self.links[link.0 as usize];
            match change {
                Change::Rate(rate) => link.set_capacity(rate, &mut self.world),
                Change::Background(rate) => link.set_background(rate, &self.world),
                Change::Delay(delay) => link.set_delay(delay, &mut self.world),
                Change::Up(up) => {
                    routes_change |= link.is_up() != up;
                    link.set_up(up, &mut self.world);
                }
            }
            self.after_medium_change(id);
            self.after_hop_change(id, change);
        }
        if routes_change {
            self.reroute();
        }
        while let Some(&ReservationChange { at, flow, rate }) =
            self.network.reservations.get(self.reservation_next)
        {
            if at > now {
                break;
            }
            self.reservation_next += 1;
            let connection = self.connections.iter().position(|connection| connection.flow == flow);
            if let Some(index) = connection {
                self.connections[index].sender.set_reservation(rate, now);
                self.pump(index as u32);
            }
        }
        while let Some(&change) = self.network.border_changes.get(self.border_change_next) {
            if change.at > now {
                break;
            }
            self.border_change_next += 1;
            self.change_border(change);
        }
        self.arm_script();
    }

    /// What `link` sends may have got another end: where both directions share a medium, the other may be waiting for it.
    pub(super) fn after_medium_change(&mut self, link: LinkId) {
        if self.links[link.0 as usize].shares_its_medium() {
            self.links[link.reversed().0 as usize].ask_anew(&mut self.world);
        }
    }

    fn change_border(&mut self, change: BorderChange) {
        let BorderChange { domain, edge, step, restarts, .. } = change;
        let here = |border: &Border| border.domain == domain && border.node == edge.0;
        let Some(index) = self.borders.iter().position(here) else { return };
        if let Some(step) = step {
            self.borders[index].clock.step(step);
        }
        if restarts {
            self.restart_border(index as u32);
        }
        self.follow_clock(index as u32);
    }

    pub(crate) fn arm_follow(&mut self) {
        if let Some(follows) = self.network.follows {
            self.world.events.schedule(self.world.now + follows.every, Wake::Follow.token(0));
        }
    }

    /// Routers learn what is congested, all at once.
    pub(super) fn on_follow(&mut self) {
        let Some(follows) = self.network.follows else { return };
        let now = self.world.now;
        let counts = |at| now.since(at) <= follows.hold;
        let ports = self.hops.iter().flat_map(Hop::congested_at);
        let mut congested: Vec<LinkId> = ports
            .filter(|&(link, at)| counts(at) && self.planner.routing.has_choice(link))
            .map(|(link, _)| link)
            .collect();
        congested.sort_unstable();
        if congested != self.congested {
            self.congested = congested;
            self.reroute();
        }
        self.arm_follow();
    }
}
