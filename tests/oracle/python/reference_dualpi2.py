"""DualPI2 as published: RFC 9332, appendix A.2 (with overload) and its update, with the names of the listings.

Settled: p' is held within 0 and 1, and what `recur` adds within p_Lmax; the limit counts the packet that arrives and not an MTU;
`lq.time()` of a packet that leaves is how long it has waited, `lq.len()` what is left behind it; without `recur` each likelihood is
drawn. The scheduler, which the RFC leaves open, is weighted round robin by the credit of Linux, or a FIFO with the time shift of L.
An update comes before what else happens at its instant.
"""

import random
from dataclasses import dataclass

from reference_world import Packet, drop

NOT_ECT, ECT1, ECT0, CE = 0, 1, 2, 3


@dataclass
class EcnPacket(Packet):
    ecn: int = NOT_ECT


class Queue:
    def __init__(self):
        self.held = []  # (packet, when it came)
        self.count = 0.0

    def byt(self):
        return sum(packet.size for packet, _ in self.held)

    def time(self, now):
        return now - self.held[0][1] if self.held else 0


class DualPi2:
    def __init__(self, c):
        self.c = c
        self.lq, self.cq = Queue(), Queue()
        self.k = c["k"]
        self.p_cmax = min(1 / (self.k * self.k), 1.0)
        self.tupdate = c["tupdate"] or min(c["target"], c["rtt_max"] // 3)
        rtt_max = c["rtt_max"] / 1e9
        self.alpha = 0.1 * (self.tupdate / 1e9) / (rtt_max * rtt_max)
        self.beta = 0.3 / rtt_max
        self.p, self.p_c, self.p_cl = 0.0, 0.0, 0.0
        self.prevq = 0
        self.updated = 0
        self.wc = c["classic_percent"]
        self.wl = 100 - self.wc
        self.credit0 = c["mtu"] * (self.wc - self.wl)
        self.credit = self.credit0
        self.random = random.Random(c["draws"]) if c["law"] == "random" else None

    def update(self, now):
        curq = max(self.lq.time(now), self.cq.time(now))
        self.p += self.alpha * ((curq - self.c["target"]) / 1e9) + self.beta * ((curq - self.prevq) / 1e9)
        self.p = min(max(self.p, 0.0), 1.0)
        self.p_cl = self.k * self.p
        self.p_c = self.p * self.p
        self.prevq = curq

    def tick(self, now):
        while self.updated + self.tupdate <= now:
            self.updated += self.tupdate
            self.update(self.updated)

    def arrive(self, packet, now):
        self.tick(now)
        kind, most = self.c["limit"]
        if kind == "packets":
            full = len(self.lq.held) + len(self.cq.held) + 1 > most
        else:
            full = self.lq.byt() + self.cq.byt() + packet.size > most
        if full:
            drop(packet, "overflow", now)
        elif packet.ecn % 2 == 1:
            self.lq.held.append((packet, now))
        else:
            self.cq.held.append((packet, now))

    def scheduler(self, now):
        if not self.cq.held:
            return self.lq
        if not self.lq.held:
            return self.cq
        if self.c["scheduler"] == "tsf":
            shifted = self.lq.time(now) + self.c["tshift"]
            return self.lq if shifted >= self.cq.time(now) else self.cq
        return self.lq if self.credit <= 0 else self.cq

    def charge(self, queue, packet):
        """What is sent while the other queue waits moves the credit."""
        if queue is self.lq and self.cq.held:
            self.credit += self.wc * packet.size
        elif queue is self.cq and self.lq.held:
            self.credit -= self.wl * packet.size

    def laqm(self, qdelay):
        if qdelay >= self.c["min_th"] + self.c["range"]:
            return 1.0
        if qdelay > self.c["min_th"]:
            return (qdelay - self.c["min_th"]) / self.c["range"]
        return 0.0

    def recur(self, queue, likelihood):
        likelihood = min(likelihood, 1.0)
        if self.random:
            return self.random.random() < likelihood
        queue.count += likelihood
        if queue.count > 1:
            queue.count -= 1
            return True
        return False

    def next(self, now):
        self.tick(now)
        while self.lq.held or self.cq.held:
            queue = self.scheduler(now)
            packet, came = queue.held.pop(0)
            if queue is self.lq:
                if self.p_cl < 1:
                    native = self.laqm(now - came) if len(self.lq.held) > self.c["th_len"] else 0.0
                    if self.recur(self.lq, max(native, self.p_cl)):
                        packet.mark = "step" if native > self.p_cl else "early"
                else:
                    if self.recur(self.lq, self.p_c):
                        drop(packet, "forced", now)
                        continue
                    if self.recur(self.lq, self.p_cl):
                        packet.mark = "early"
            elif self.recur(self.cq, self.p_c):
                if packet.ecn == NOT_ECT:
                    drop(packet, "early", now)
                    continue
                if self.p_c >= self.p_cmax:
                    drop(packet, "forced", now)
                    continue
                packet.mark = "early"
            self.charge(queue, packet)
            return packet
        self.credit = self.credit0
        return None

    def idle(self, now):
        pass
