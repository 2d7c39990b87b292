"""CoDel as Linux has it (`include/net/codel_impl.h`): whole units of 1024 ns, the reciprocal of the root in 16 bits and one
step of Newton's method each time that the count changes, in unsigned arithmetic of 32 and 64 bits.

Settled: time does not wrap. A head exactly at `first_above_time` is sent. A queue that is found empty ends the series, and
keeps `first_above_time`, unless a drop emptied it.
"""

from reference_world import drop

U64 = 2**64 - 1
ONE = 0xFFFF


def newton_step(rec_inv_sqrt, count):
    """new = old / 2 * (3 - count * old^2), where old has 32 bits behind the point, of which 16 are kept."""
    invsqrt = rec_inv_sqrt << 16
    invsqrt2 = invsqrt * invsqrt >> 32
    val = ((3 << 32) - count * invsqrt2) & U64
    val = ((val >> 2) * invsqrt & U64) >> 31
    return (val >> 16) & ONE


class LinuxCodel:
    def __init__(self, c):
        self.c = c
        self.target, self.interval = c["target"] >> 10, c["interval"] >> 10
        self.queue = []  # (packet, when it came)
        self.first_above_time = None
        self.drop_next = 0
        self.count = 0
        self.lastcount = 0
        self.dropping = False
        self.rec_inv_sqrt = 0

    def bytes(self):
        return sum(packet.size for packet, _ in self.queue)

    def arrive(self, packet, now):
        kind, most = self.c["limit"]
        held = len(self.queue) + 1 if kind == "packets" else self.bytes() + packet.size
        if held > most:
            drop(packet, "overflow", now)
        else:
            self.queue.append((packet, now))

    def control_law(self, t):
        return t + (self.interval * (self.rec_inv_sqrt << 16) >> 32)

    def take(self, now):
        """The next packet, if there is one, and whether it should be dropped."""
        if not self.queue:
            self.first_above_time = None
            return None, False
        packet, came = self.queue.pop(0)
        if now - (came >> 10) < self.target or self.bytes() <= self.c["maxpacket"]:
            self.first_above_time = None
            return packet, False
        if self.first_above_time is None:
            self.first_above_time = now + self.interval
            return packet, False
        return packet, now > self.first_above_time

    def marks(self, packet):
        if not (self.c["ecn"] and packet.ect):
            return False
        packet.mark = "early"
        return True

    def enter(self, now):
        self.dropping = True
        late = now - self.drop_next
        if self.c["reentry"] == "two-less":
            again, count = self.count > 2 and late < 8 * self.interval, self.count - 2
        else:
            count = self.count - self.lastcount
            again = count > 1 and late < 16 * self.interval
        if again:
            self.count = count
            self.rec_inv_sqrt = newton_step(self.rec_inv_sqrt, count)
        else:
            self.count, self.rec_inv_sqrt = 1, ONE
        self.lastcount = self.count
        self.drop_next = self.control_law(now)

    def next(self, at):
        return self.codel_dequeue(at >> 10, at)

    def codel_dequeue(self, now, at):
        if not self.queue:
            self.dropping = False
            return None
        packet, bad = self.take(now)
        if self.dropping:
            if not bad:
                self.dropping = False
            while self.dropping and now >= self.drop_next:
                self.count += 1
                self.rec_inv_sqrt = newton_step(self.rec_inv_sqrt, self.count)
                if self.marks(packet):
                    self.drop_next = self.control_law(self.drop_next)
                    return packet
                drop(packet, "early", at)
                packet, bad = self.take(now)
                if bad:
                    self.drop_next = self.control_law(self.drop_next)
                else:
                    self.dropping = False
        elif bad:
            if not self.marks(packet):
                drop(packet, "early", at)
                packet, _ = self.take(now)
            self.enter(now)
        return packet

    def idle(self, now):
        pass
