"""CoDel, twice: as RFC 8289 writes it (section 5), and as Linux has it (include/net/codel.h, codel_impl.h).

Both laws decide at the moment of a departure. They are given `pop` (the head as (arrived, packet), or None), `backlog` (bytes left
behind it) and `drop`; `CodelQueue` puts one of them over a FIFO.

Chosen where the sources leave room:
- RFC: instants are whole nanoseconds, so interval / sqrt(count) is rounded down; the root is exact.
- RFC: the pseudocode only drops. With `ecn`, a packet that can be marked is marked and sent where it would have been dropped, and
  the state moves as if it had been dropped (as in Linux): the next drop is planned, and no second packet is looked at.
- RFC: `maxpacket` is the MTU of the link (the RFC asks for that), compared with what is left in the queue after the departure.
- Linux: the 32 bits of its clock wrap here too.
"""

from collections import deque
from math import isqrt

from reference_world import drop as lose

MS = 1_000_000


class Codel:
    """RFC 8289, sections 5.3 to 5.5; times in ns."""

    def __init__(self, target=5 * MS, interval=100 * MS, mtu=1500, ecn=False):
        self.target, self.interval, self.mtu, self.ecn = target, interval, mtu, ecn
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
        arrived, _ = head
        ok_to_drop = False
        if now - arrived < self.target or backlog() <= self.mtu:
            self.first_above_time = 0
        elif self.first_above_time == 0:
            self.first_above_time = now + self.interval
        elif now >= self.first_above_time:
            ok_to_drop = True
        return head, ok_to_drop

    def mark(self, packet):
        if self.ecn and packet.ect:
            packet.mark = "codel"
            return True
        return False

    def dequeue(self, now, pop, backlog, drop):
        head, ok_to_drop = self.dodequeue(now, pop, backlog)
        if self.dropping:
            if not ok_to_drop:
                self.dropping = False
            while self.dropping and now >= self.drop_next:
                self.count += 1
                if self.mark(head[1]):
                    self.drop_next = self.control_law(self.drop_next)
                    break
                drop(head[1])
                head, ok_to_drop = self.dodequeue(now, pop, backlog)
                if not ok_to_drop:
                    self.dropping = False
                else:
                    self.drop_next = self.control_law(self.drop_next)
        elif ok_to_drop:
            if not self.mark(head[1]):
                drop(head[1])
                head, ok_to_drop = self.dodequeue(now, pop, backlog)
            self.dropping = True
            delta = self.count - self.lastcount
            self.count = delta if delta > 1 and now - self.drop_next < 16 * self.interval else 1
            self.drop_next = self.control_law(now)
            self.lastcount = self.count
        return None if head is None else head[1]

    def punish(self, packets):
        """Packets that a full buffer took from the head."""
        self.count += packets


def u32(value):
    return value & 0xFFFF_FFFF


def after(a, b):
    """Whether a is later than b on the clock of 32 bits."""
    return 0 < u32(a - b) < 1 << 31


def after_eq(a, b):
    return u32(a - b) < 1 << 31


class CodelLinux:
    """Linux: a clock of 1024 ns, 1 / sqrt(count) in 16 bits, one Newton step each time that count moves."""

    def __init__(self, target=5 * MS, interval=100 * MS, mtu=1500, ecn=False, ce_threshold=None):
        self.target, self.interval = target >> 10, interval >> 10
        self.ce_threshold = None if ce_threshold is None else ce_threshold >> 10
        self.mtu, self.ecn = mtu, ecn
        self.count = self.lastcount = 0
        self.dropping = False
        self.rec_inv_sqrt = 0
        self.first_above_time = 0
        self.drop_next = 0
        self.ldelay = 0

    def newton_step(self):
        invsqrt = self.rec_inv_sqrt << 16
        invsqrt2 = invsqrt * invsqrt >> 32
        val = ((3 << 32) - self.count * invsqrt2) & (1 << 64) - 1
        val >>= 2
        val = (val * invsqrt & (1 << 64) - 1) >> 31
        self.rec_inv_sqrt = val >> 16 & 0xFFFF

    def control_law(self, t):
        return u32(t + (self.interval * (self.rec_inv_sqrt << 16) >> 32))

    def should_drop(self, head, now, backlog):
        if head is None:
            self.first_above_time = 0
            return False
        self.ldelay = u32(now - (head[0] >> 10))
        if after(self.target, self.ldelay) or backlog() <= self.mtu:
            self.first_above_time = 0
            return False
        if self.first_above_time == 0:
            self.first_above_time = u32(now + self.interval)
            return False
        return after(now, self.first_above_time)

    def mark(self, packet):
        if self.ecn and packet.ect:
            packet.mark = "codel"
            return True
        return False

    def dequeue(self, nanos, pop, backlog, drop):
        head = pop()
        if head is None:
            self.dropping = False
            return None
        now = u32(nanos >> 10)
        ok = self.should_drop(head, now, backlog)
        if self.dropping:
            if not ok:
                self.dropping = False
            while self.dropping and after_eq(now, self.drop_next):
                self.count = u32(self.count + 1)
                self.newton_step()
                if self.mark(head[1]):
                    self.drop_next = self.control_law(self.drop_next)
                    break
                drop(head[1])
                head = pop()
                if not self.should_drop(head, now, backlog):
                    self.dropping = False
                else:
                    self.drop_next = self.control_law(self.drop_next)
        elif ok:
            if not self.mark(head[1]):
                drop(head[1])
                head = pop()
                self.should_drop(head, now, backlog)
            self.dropping = True
            delta = u32(self.count - self.lastcount)
            if delta > 1 and after(16 * self.interval, u32(now - self.drop_next)):
                self.count = delta
                self.newton_step()
            else:
                self.count = 1
                self.rec_inv_sqrt = 0xFFFF
            self.lastcount = self.count
            self.drop_next = self.control_law(now)
        if head is None:
            return None
        if self.ce_threshold is not None and after(self.ldelay, self.ce_threshold) and head[1].ect:
            head[1].mark = "codel"
        return head[1]

    def punish(self, packets):
        self.count = u32(self.count + packets)


class CodelQueue:
    """A FIFO with one of the laws, and a limit in packets (Linux, sch_codel.c) or bytes."""

    def __init__(self, law, limit_packets=None, limit_bytes=None):
        self.law, self.limit_packets, self.limit_bytes = law, limit_packets, limit_bytes
        self.fifo = deque()
        self.bytes = 0

    def arrive(self, packet, now):
        full = self.limit_packets is not None and len(self.fifo) >= self.limit_packets
        if full or (self.limit_bytes is not None and self.bytes + packet.size > self.limit_bytes):
            lose(packet, "overflow", now)
            return
        self.fifo.append((now, packet))
        self.bytes += packet.size

    def pop(self):
        if not self.fifo:
            return None
        head = self.fifo.popleft()
        self.bytes -= head[1].size
        return head

    def next(self, now):
        return self.law.dequeue(now, self.pop, lambda: self.bytes, lambda packet: lose(packet, "codel", now))

    def idle(self, now):
        pass
