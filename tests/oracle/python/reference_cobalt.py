"""COBALT as CAKE has it (Linux, `net/sched/sch_cake.c`, `cobalt_*`), for one queue: CoDel with one deadline, and BLUE beside it.

Settled: the root begins as that of a count of 0, which is 1 (in Linux as 0, so that the very first series does not wait for an
interval). A packet that finds no room is dropped. Emptiness is seen when the link has nothing to send.
"""

from reference_world import Draws, drop

ONE = 2**32 - 1


def newton(invsqrt, count):
    invsqrt2 = invsqrt * invsqrt >> 32
    val = ((3 << 32) - count * invsqrt2) % 2**64
    return ((val >> 2) * invsqrt % 2**64 >> 31) & ONE


def table():
    """1 / sqrt(count) for the first counts: four steps each, from the one before."""
    made, root = [ONE], ONE
    for count in range(1, 16):
        for _ in range(4):
            root = newton(root, count)
        made.append(root)
    return made


class Cobalt:
    ROOTS = table()

    def __init__(self, c, nanos_per_byte):
        self.c = c
        self.mtu_time = c["mtu"] * nanos_per_byte
        self.target = max(self.mtu_time * 3 // 2, c["target"])
        self.interval = max(c["interval"] + self.target - c["target"], 2 * self.target)
        self.queue = []
        self.draws = Draws()
        self.count, self.root = 0, ONE
        self.drop_next, self.blue_timer, self.p_drop = 0, 0, 0
        self.dropping = False

    def set_count(self, count):
        self.count = count
        self.root = self.ROOTS[count] if count < 16 else newton(self.root, count)

    def later(self, t):
        return t + (self.interval * self.root >> 32)

    def arrive(self, packet, now):
        if len(self.queue) < self.c["limit"]:
            self.queue.append((packet, now))
            return
        drop(packet, "overflow", now)
        if now - self.blue_timer > self.target:
            self.p_drop = min(self.p_drop + self.c["p_inc"], ONE)
            self.blue_timer = now
        self.dropping, self.drop_next = True, now
        self.count = max(self.count, 1)

    def idle(self, now):
        if self.p_drop and now - self.blue_timer > self.target:
            self.p_drop = max(self.p_drop - self.c["p_dec"], 0)
            self.blue_timer = now
        self.dropping = False
        if self.count and now >= self.drop_next:
            self.set_count(self.count - 1)
            self.drop_next = self.later(self.drop_next)

    def should_drop(self, packet, came, now):
        sojourn = now - came
        schedule = now - self.drop_next
        over = sojourn > self.target and sojourn > 4 * self.mtu_time
        next_due = self.count > 0 and schedule >= 0
        if over:
            if not self.dropping:
                self.dropping = True
                self.drop_next = self.later(now)
            self.count = max(self.count, 1)
        else:
            self.dropping = False
        why = None
        if next_due and self.dropping:
            if packet.ect:
                packet.mark = "early"
            else:
                why = "early"
            self.set_count(self.count + 1)
            self.drop_next = self.later(self.drop_next)
            schedule = now - self.drop_next
        while next_due and not self.dropping:
            self.set_count(self.count - 1)
            self.drop_next = self.later(self.drop_next)
            schedule = now - self.drop_next
            next_due = self.count > 0 and schedule >= 0
        if self.p_drop and self.draws.chance(self.p_drop / 2**32):
            why = why or "blue"
        if self.count == 0:
            self.drop_next = now + self.interval
        elif schedule > 0 and not why:
            self.drop_next = now
        return why

    def next(self, now):
        while self.queue:
            packet, came = self.queue.pop(0)
            why = self.should_drop(packet, came, now)
            if not why:
                return packet
            drop(packet, why, now)
        return None
