"""CHOKe: Pan, Prabhakar and Psounis 2000, Fig. 1: RED that compares an arrival with a packet drawn from the queue.

Settled: "above min_th" begins at it, as in RED; nothing is drawn where fewer than two wait; the packet in transmission is not drawn; a
match drops both whatever their ECN fields, and is no event for RED's count.
"""

from reference_red import Red
from reference_world import drop


class Choke(Red):
    def __init__(self, c, draws, rate_bps):
        super().__init__(c, rate_bps, draws)

    def update_average(self, now):
        # Called once for each arrival; the rest of RED goes on with the same average.
        if not self.is_updated:
            super().update_average(now)
            self.is_updated = True

    def arrive(self, packet, now):
        self.is_updated = False
        self.update_average(now)
        if self.avg >= self.c["min_th"] and len(self.queue) >= 2:
            drawn = self.draws.below(len(self.queue))
            if self.queue[drawn].flow == packet.flow:
                drop(self.queue.pop(drawn), "fair_share", now)
                drop(packet, "fair_share", now)
                return
        super().arrive(packet, now)
