"""CoDel as Linux has it (`include/net/codel.h`, `codel_impl.h`): a clock of 1024 ns in 32 bits, 1 / sqrt(count) in
16 bits, and one step of Newton's method each time that the count moves.

Written from that code by a reader who had seen neither the code that is compared nor another reference. Nothing had
to be chosen, but that the clock and the count wrap here as there. Beyond it: `reentry` "two-less", as in
`reference_codel.py`.
"""

from reference_codel import Codel

U64 = (1 << 64) - 1


def u32(value):
    return value & 0xFFFF_FFFF


def after(a, b):
    """Whether `a` is later than `b` on the clock of 32 bits (`codel_time_after`)."""
    return 0 < u32(a - b) < 1 << 31


def after_eq(a, b):
    return u32(a - b) < 1 << 31


class LinuxLaw:
    def __init__(self, c):
        self.target, self.interval = c["target"] >> 10, c["interval"] >> 10
        threshold = c.get("ce_threshold")
        self.ce_threshold = None if threshold is None else threshold >> 10
        self.mtu, self.ecn, self.two_less = c["maxpacket"], c["ecn"], c["reentry"] == "two-less"
        self.count = self.lastcount = 0
        self.dropping = False
        self.rec_inv_sqrt = 0
        self.first_above_time = 0
        self.drop_next = 0
        self.ldelay = 0

    def newton_step(self):
        invsqrt = self.rec_inv_sqrt << 16
        invsqrt2 = invsqrt * invsqrt >> 32
        val = ((3 << 32) - self.count * invsqrt2) & U64
        val >>= 2
        val = (val * invsqrt & U64) >> 31
        self.rec_inv_sqrt = val >> 16 & 0xFFFF

    def control_law(self, t):
        return u32(t + (self.interval * (self.rec_inv_sqrt << 16) >> 32))

    def should_drop(self, head, now, backlog):
        if head is None:
            self.first_above_time = 0
            return False
        self.ldelay = u32(now - (head[1] >> 10))
        if after(self.target, self.ldelay) or backlog() <= self.mtu:
            self.first_above_time = 0
            return False
        if self.first_above_time == 0:
            self.first_above_time = u32(now + self.interval)
            return False
        return after(now, self.first_above_time)

    def mark(self, packet):
        if self.ecn and packet.ect:
            packet.mark = "early"
            return True
        return False

    def again(self, now):
        """The count with which a series goes on that was left not long ago, or None."""
        since = u32(now - self.drop_next)
        if self.two_less:
            return self.count - 2 if self.count > 2 and after(8 * self.interval, since) else None
        delta = u32(self.count - self.lastcount)
        return delta if delta > 1 and after(16 * self.interval, since) else None

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
                if self.mark(head[0]):
                    self.drop_next = self.control_law(self.drop_next)
                    break
                drop(head[0])
                head = pop()
                if not self.should_drop(head, now, backlog):
                    self.dropping = False
                else:
                    self.drop_next = self.control_law(self.drop_next)
        elif ok:
            if not self.mark(head[0]):
                drop(head[0])
                head = pop()
                self.should_drop(head, now, backlog)
            self.dropping = True
            count = self.again(now)
            if count is None:
                self.count = 1
                self.rec_inv_sqrt = 0xFFFF
            else:
                self.count = count
                self.newton_step()
            self.lastcount = self.count
            self.drop_next = self.control_law(now)
        if head is None:
            return None
        packet, _ = head
        if self.ce_threshold is not None and after(self.ldelay, self.ce_threshold) and packet.ect:
            packet.mark = "early"
        return packet

    def punish(self, packets):
        """A full buffer took packets from the head (`fq_codel_drop`)."""
        self.count = u32(self.count + packets)


class LinuxCodel(Codel):
    law_of = LinuxLaw
