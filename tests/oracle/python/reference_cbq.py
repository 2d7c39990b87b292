"""CBQ of Floyd & Jacobson 1995 as ns-2 has it (catalogue, section 14), in exact fractions of a second.

A class is a table: parent (its number or None), share, priority, borrow, flows. Times are fractions; `now` comes in
nanoseconds. Settled, differently from ns-2: a class may send at its undertime; the link looks again when a class that was held
back may go (`ready`); a class that goes in the nanosecond in which it became ready went when it became ready.
"""

from fractions import Fraction as F

from reference_world import drop

NANO = F(1, 10**9)


class Class:
    def __init__(self, number, c, rate, maxpkt):
        self.number, self.parent_number = number, c["parent"]
        self.share, self.priority = F(c["share"]).limit_denominator(10**6), c["priority"]
        self.borrow, self.flows = c["borrow"], c.get("flows", [])
        self.rate = rate * self.share
        self.extradelay = F(c.get("extradelay_ns", 0)) * NANO
        self.minidle = c.get("minidle_ns")
        if "maxidle_ns" in c:
            self.maxidle = c["maxidle_ns"] * NANO
        else:
            g, n = F(15, 16), 8 * self.priority
            self.maxidle = F(maxpkt) / rate * max((1 / self.share - 1) * (1 - g**n) / g**n, 1 - g)
        self.queue, self.children, self.parent, self.level = [], [], None, 1
        self.last = self.undertime = self.avgidle = F(0)
        self.delayed, self.bytes_alloc = False, 0

    def update(self, size, start, tx):
        due = size / self.rate
        idle = start + tx - self.last - due
        self.avgidle = min(self.avgidle + (idle - self.avgidle) / 16, self.maxidle)
        if self.minidle is not None:
            self.avgidle = max(self.avgidle, -self.minidle * NANO)
        if self.avgidle <= 0:
            self.undertime = start + due - 15 * self.avgidle
        self.last = start + tx
        # So that fractions stay small: far finer than a nanosecond.
        self.avgidle = self.avgidle.limit_denominator(10**24)
        self.undertime = self.undertime.limit_denominator(10**24)
        if self.parent:
            self.parent.update(size, start, tx)

    def hold_back(self):
        if not self.delayed:
            self.undertime += self.extradelay + 15 * self.avgidle
            self.delayed = True


class Cbq:
    def __init__(self, c, rate_bps):
        self.c, self.link = c, F(rate_bps, 8)
        shared = F(c.get("rate_bps", rate_bps), 8)
        self.classes = [Class(n, k, shared, c["maxpkt"]) for n, k in enumerate(c["classes"])]
        for k in self.classes:
            if k.parent_number is not None:
                k.parent = self.classes[k.parent_number]
                k.parent.children.append(k)
        for k in reversed(self.classes):
            if k.children:
                k.level = 1 + max(child.level for child in k.children)
        self.leaves = [k for k in self.classes if not k.children]
        self.turns = {}
        for p in sorted({k.priority for k in self.leaves}):
            self.turns[p] = [k for k in self.leaves if k.priority == p]
            together = sum(k.share for k in self.turns[p])
            for k in self.turns[p]:
                k.weight = int(k.share * len(self.turns[p]) * c["maxpkt"] / together)
        self.toplevel = 99

    def arrive(self, packet, now):
        now *= NANO
        k = next(k for k in self.leaves if packet.flow in k.flows)
        if self.c["sharing"] == "top-level":
            if k.undertime <= now:
                self.toplevel = min(self.toplevel, 1)
            elif k.borrow and k.parent and k.parent.undertime <= now:
                self.toplevel = min(self.toplevel, 2)
        if len(k.queue) >= self.c["queue_packets"]:
            drop(packet, "overflow", int(now / NANO))
        else:
            k.queue.append(packet)

    def lender(self, k, now):
        if k.undertime <= now:
            k.delayed = False
            return k
        if not k.borrow:
            return None
        above = k.parent
        while above:
            within = above.level <= self.toplevel
            if above.undertime <= now:
                if self.c["sharing"] == "ancestor-only":
                    return above
                if self.c["sharing"] == "top-level" and within:
                    return above
                if self.c["sharing"] == "formal" and all(
                    self.satisfied(other, now) for other in self.classes if other.level < above.level
                ):
                    return above
            elif self.c["sharing"] == "top-level" and not within:
                return None
            above = above.parent
        return None

    def satisfied(self, k, now):
        if k.undertime >= now:
            return True
        if not k.children:
            return not k.queue
        return not any(leaf.queue and self.lends_to(k, leaf) for leaf in self.leaves)

    def lends_to(self, ancestor, k):
        while k.borrow and k.parent:
            k = k.parent
            if k is ancestor:
                return True
        return False

    def pick(self, now):
        first = None
        for turns in self.turns.values():
            deficit = 0
            while deficit != 3:
                for k in list(turns):
                    if deficit < 2 and k.bytes_alloc <= 0:
                        k.bytes_alloc += k.weight
                    if k.queue:
                        if first is None and k.borrow and k.parent:
                            first = k
                        lender = self.lender(k, now)
                        if lender is None:
                            k.hold_back()
                        elif k.bytes_alloc > 0 or deficit == 2:
                            return k, lender
                        else:
                            deficit = 1
                    k.bytes_alloc = 0
                deficit = 2 if deficit == 1 else 3
        return first, None

    def next(self, now):
        now *= NANO
        k, lender = self.pick(now)
        if k is None:
            return None
        packet = k.queue.pop(0)
        again = False
        if lender:
            if k.bytes_alloc > 0:
                k.bytes_alloc -= packet.size
            again = k.bytes_alloc > 0
            start = k.undertime if 0 <= now - k.undertime < NANO else now
            k.update(packet.size, start, packet.size / self.link)
            if self.c["sharing"] == "top-level" and self.toplevel >= lender.level:
                over = len(k.queue) <= 1 or lender.undertime > now
                self.toplevel = 99 if over else lender.level
        turns = self.turns[k.priority]
        at = turns.index(k) + (0 if again else 1)
        turns[:] = turns[at:] + turns[:at]
        return packet

    def ready(self, now):
        """The nanosecond from which a packet may go, or None."""
        waiting = [k for k in self.leaves if k.queue]
        if not waiting:
            return None
        if any(k.borrow and k.parent for k in waiting):
            return now
        return max(now, -(-min(k.undertime for k in waiting) // NANO))

    def idle(self, now):
        pass
