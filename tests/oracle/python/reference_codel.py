"""CoDel as RFC 8289 writes it, section 5: decided at a departure, with exact roots, in whole nanoseconds.

Written from the RFC's listings by a reader who had seen neither the code that is compared nor another reference.

Chosen where the RFC leaves room:
- interval / sqrt(count) is rounded down to nanoseconds.
- The listings only drop. With `ecn`, a packet that can carry a mark is marked and sent where it would have been
  dropped, and the state moves as if it had been: the next one is planned, and no second packet is looked at
  (Linux).
- `maxpacket` is the MTU of the link (section 5.3), compared with what is left behind the packet that leaves.

Beyond the RFC: `reentry` "two-less" begins again at two less than the last count, if that was above two, within 8
intervals (the authors' code for ns and their drafts; without what a later state of that code adds for counts above
126); above `ce_threshold` every packet that can carry a mark leaves with one (Linux).
"""

from collections import deque
from math import isqrt

from reference_world import drop as lose


class Law:
    """CoDel of a queue: `pop` gives the head as (packet, when it came) or None; `backlog` what is left behind it."""

    def __init__(self, c):
        self.target, self.interval, self.maxpacket = c["target"], c["interval"], c["maxpacket"]
        self.ecn, self.two_less = c["ecn"], c["reentry"] == "two-less"
        self.ce_threshold = c.get("ce_threshold")
        self.first_above_time = 0
        self.drop_next = 0
        self.count = 0
        self.lastcount = 0
        self.dropping = False

    def control_law(self, t):
        return t + isqrt(self.interval**2 // self.count)

    def dodequeue(self, now, pop, backlog):
        head = pop()
        if head is None:
            self.first_above_time = 0
            return None, False
        _, came = head
        ok_to_drop = False
        if now - came < self.target or backlog() <= self.maxpacket:
            self.first_above_time = 0
        elif self.first_above_time == 0:
            self.first_above_time = now + self.interval
        elif now >= self.first_above_time:
            ok_to_drop = True
        return head, ok_to_drop

    def mark(self, packet):
        if self.ecn and packet.ect:
            packet.mark = "early"
            return True
        return False

    def restart(self, now):
        """The count with which a series begins (section 5.5)."""
        if self.two_less:
            return self.count - 2 if self.count > 2 and now - self.drop_next < 8 * self.interval else 1
        delta = self.count - self.lastcount
        return delta if delta > 1 and now - self.drop_next < 16 * self.interval else 1

    def dequeue(self, now, pop, backlog, drop):
        head, ok_to_drop = self.dodequeue(now, pop, backlog)
        if self.dropping:
            if not ok_to_drop:
                self.dropping = False
            while self.dropping and now >= self.drop_next:
                self.count += 1
                if self.mark(head[0]):
                    self.drop_next = self.control_law(self.drop_next)
                    break
                drop(head[0])
                head, ok_to_drop = self.dodequeue(now, pop, backlog)
                if not ok_to_drop:
                    self.dropping = False
                else:
                    self.drop_next = self.control_law(self.drop_next)
        elif ok_to_drop:
            if not self.mark(head[0]):
                drop(head[0])
                head, ok_to_drop = self.dodequeue(now, pop, backlog)
            self.dropping = True
            self.count = self.restart(now)
            self.drop_next = self.control_law(now)
            self.lastcount = self.count
        if head is None:
            return None
        packet, came = head
        if self.ce_threshold is not None and now - came > self.ce_threshold and packet.ect:
            packet.mark = "early"
        return packet

    def punish(self, packets):
        """A full buffer took packets from the head (Linux, `fq_codel_drop`)."""
        self.count += packets


class Codel:
    """A FIFO of so many packets or bytes at most, under the law."""

    law_of = Law

    def __init__(self, c):
        self.law = self.law_of(c)
        self.unit, self.most = c["limit"]
        self.fifo = deque()
        self.bytes = 0

    @property
    def count(self):
        return self.law.count

    def arrive(self, packet, now):
        after = len(self.fifo) + 1 if self.unit == "packets" else self.bytes + packet.size
        if after > self.most:
            lose(packet, "overflow", now)
            return
        self.fifo.append((packet, now))
        self.bytes += packet.size

    def pop(self):
        if not self.fifo:
            return None
        head = self.fifo.popleft()
        self.bytes -= head[0].size
        return head

    def next(self, now):
        return self.law.dequeue(now, self.pop, lambda: self.bytes, lambda packet: lose(packet, "early", now))

    def idle(self, now):
        pass
