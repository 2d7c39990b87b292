"""CoDel as published: RFC 8289, section 5, with its names, queue and loop.

Settled: a mark takes the place of a drop as in Linux (one packet each time, and the next is scheduled from the one before);
a pause is interval / sqrt(count) rounded down to nanoseconds, exactly, and one nanosecond at least; `reentry` "two-less" is the
authors' code for ns (8 intervals, two less).
"""

from math import isqrt

from reference_world import drop


class Codel:
    def __init__(self, c):
        self.c = c
        self.queue = []  # (packet, when it came)
        self.first_above_time = 0
        self.drop_next = 0
        self.count = 0
        self.lastcount = 0
        self.dropping = False

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
        return t + max(1, isqrt(self.c["interval"] ** 2 // self.count))

    def dodequeue(self, now):
        if not self.queue:
            self.first_above_time = 0
            return None, False
        packet, tstamp = self.queue.pop(0)
        if now - tstamp < self.c["target"] or self.bytes() <= self.c["maxpacket"]:
            self.first_above_time = 0
        elif self.first_above_time == 0:
            self.first_above_time = now + self.c["interval"]
        elif now >= self.first_above_time:
            return packet, True
        return packet, False

    def marks(self, packet):
        if not (self.c["ecn"] and packet.ect):
            return False
        packet.mark = "early"
        return True

    def begin(self, now):
        interval = self.c["interval"]
        if self.c["reentry"] == "two-less":
            again = self.count > 2 and now - self.drop_next < 8 * interval
            self.count = self.count - 2 if again else 1
        else:
            delta = self.count - self.lastcount
            self.count = 1
            if delta > 1 and now - self.drop_next < 16 * interval:
                self.count = delta
        self.drop_next = self.control_law(now)
        self.lastcount = self.count

    def next(self, now):
        packet, ok_to_drop = self.dodequeue(now)
        if self.dropping:
            if not ok_to_drop:
                self.dropping = False
            while self.dropping and now >= self.drop_next:
                self.count += 1
                if self.marks(packet):
                    self.drop_next = self.control_law(self.drop_next)
                    break
                drop(packet, "early", now)
                packet, ok_to_drop = self.dodequeue(now)
                if ok_to_drop:
                    self.drop_next = self.control_law(self.drop_next)
                else:
                    self.dropping = False
        elif ok_to_drop:
            if not self.marks(packet):
                drop(packet, "early", now)
                packet, ok_to_drop = self.dodequeue(now)
            self.dropping = True
            self.begin(now)
        return packet

    def idle(self, now):
        pass
