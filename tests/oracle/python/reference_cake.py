"""CAKE as Linux has it (`net/sched/sch_cake.c`, 6.x): a shaper, tins, and queues with COBALT under DRR++.

Settled, and other than in Linux:
- Times are whole nanoseconds: `length` bytes take `length * 8 * 10**9 // rate` at `rate` bits per second, but
  never less than 512 (of a tin: its own exact rate, `bandwidth >> 4` and so on). All clocks begin at 0.
- The quantum of a flow has no dither: deficits are in 1/65536 of a byte. Linux has its rates in bytes per
  second, so that the quantum, `rate >> 12` there, is `rate >> 15` here.
- The hash of a flow is its number, that of a host the number of the host, of both hosts `src * 65537 + dst`, of
  which both count modulo a power of two; the slot is the hash modulo `queues`, for queues and for hosts. Tags begin as 0 (Linux): an unused slot
  counts as one that number 0 had.
- Memory is bytes of packets. What does not fit is taken from the head of the queue with the most bytes in all
  tins; of several from the first in the first tin.
- `size` is the IP length. No GSO, no NAT, no autorate-ingress, no firewall marks.
- COBALT is that of `reference_cobalt.py`: its root begins as 1, and BLUE draws also for a packet that CoDel
  drops (Linux until 6.13).
- An ACK is a packet with `ack`: (number, flags ECE and CWR, SACK blocks as pairs). Others have no TCP header:
  they neither make the filter look nor does it see them. The 5-tuple is the number of the flow. Numbers do
  not wrap.
- The link looks again when the shaper allows it (`ready`). Linux looks also once after all is empty, so that
  flows decay; here nothing happens then.
"""

from dataclasses import dataclass
from fractions import Fraction

from reference_cobalt import ONE, Cobalt
from reference_world import Draws, Packet, drop

NONE, SPARSE, SPARSE_WAIT, BULK, DECAYING = range(5)
UNIT = 65536
# The tin of each of the 64 codepoints, eight in a row.
TIN_OF = {
    "besteffort": ["0" * 8] * 8,
    "precedence": [str(row) * 8 for row in range(8)],
    "diffserv3": "01002000 10000000 00000000 00000000 00000000 00002020 20000000 20000000".split(),
    "diffserv4": "01002000 10000000 20202020 20202020 30202020 30003030 30000000 30000000".split(),
    "diffserv8": "20124222 12121212 52424242 32323232 62323232 62226262 72222222 72222222".split(),
}
# The hosts whose bulk flows share a quantum.
SIDES = {"dual-srchost": ["src"], "dual-dsthost": ["dst"], "triple-isolate": ["src", "dst"]}


@dataclass
class CakePacket(Packet):
    src: int = 0
    dst: int = 0
    dscp: int = 0
    ack: tuple | None = None
    came: int = 0
    adjusted: int = 0


def duration(length, rate):
    return length * 8 * 10**9 // max(rate, 512) if rate else 0


def shares(diffserv, rate):
    """[rate, quantum] of each tin."""
    if diffserv == "besteffort":
        return [(rate, 65535)]
    if diffserv in ("diffserv3", "diffserv4"):
        shifts = [0, 4, 2] if diffserv == "diffserv3" else [0, 4, 1, 2]
        return [(rate >> shift, 1024 >> shift) for shift in shifts]
    made, quantum = [], 256
    for _ in range(8):
        made.append((rate, max(1, quantum)))
        rate, quantum = rate * 7 >> 3, quantum * 7 >> 3
    return made


def compare_sacks(a, b):
    """-1 if `a` says something that `b` does not, 1 if `b` says more, else 0."""
    (number, _, of_a), (_, _, of_b) = a, b
    if not of_a or not of_b:
        return (not of_a and bool(of_b)) - (not of_b and bool(of_a))
    for start, end in of_a:
        # What is below the number is a duplicate, which is news.
        if start < number or not any(first <= start and last >= end for first, last in of_b):
            return -1
    return int(sum(last - first for first, last in of_b) > sum(end - start for start, end in of_a))


class Host:
    def __init__(self):
        self.tag, self.bulk = 0, 0


class Queue(Cobalt):
    """A queue and its COBALT. What is given to its `arrive` finds no room: packets come by `queue` alone."""

    def __init__(self, tin, draws):
        self.c = {"limit": 0, "p_inc": 1 << 24, "p_dec": 1 << 20}
        self.target, self.interval, self.draws = tin.target, tin.interval, draws
        self.queue, self.bytes = [], 0
        self.count, self.root = 0, ONE
        self.drop_next, self.blue_timer, self.p_drop = 0, 0, 0
        self.dropping = False
        self.set, self.tag, self.hosts, self.deficit = NONE, 0, [], 0

    def count_bulk(self, by):
        for host in self.hosts:
            host.bulk += by


class Tin:
    def __init__(self, c, rate, quantum, draws):
        self.rate, self.quantum = rate, quantum
        self.flow_quantum = max(min(rate >> 15, 1514), 300) if rate else 1514
        self.mtu_time = duration(c["mtu"], rate)
        self.target = max(self.mtu_time * 3 // 2, c["target"])
        self.interval = max(c["interval"] + self.target - c["target"], 2 * self.target)
        self.queues = [Queue(self, draws) for _ in range(c["queues"])]
        self.hosts = {side: [Host() for _ in range(c["queues"])] for side in SIDES.get(c["flow_mode"], [])}
        self.new, self.old, self.decaying = [], [], []
        self.sparse, self.bulk = 0, 0
        self.backlog, self.deficit, self.time_next = 0, 0, 0

    def quantum_of(self, queue):
        return self.flow_quantum * UNIT // max([1] + [host.bulk for host in queue.hosts])

    def become_bulk(self, queue):
        queue.set = BULK
        self.sparse -= 1
        self.bulk += 1
        queue.count_bulk(1)

    def leave(self, queue):
        """The flow is counted no more."""
        if queue.set == BULK:
            self.bulk -= 1
            queue.count_bulk(-1)
        elif queue.set in (SPARSE, SPARSE_WAIT):
            self.sparse -= 1


class Cake:
    def __init__(self, c):
        self.c = c
        self.rate = c["bandwidth"] or 0
        draws = Draws()
        self.tins = [Tin(c, rate, quantum, draws) for rate, quantum in shares(c["diffserv"], self.rate)]
        self.current = 0
        self.time_next, self.failsafe_next = 0, 0

    def backlog(self):
        return sum(tin.backlog for tin in self.tins)

    def adjust(self, size):
        length = max(size + self.c["overhead"], self.c["mpu"])
        if self.c["framing"] == "atm":
            return (length + 47) // 48 * 53
        return length + (length + 63) // 64 if self.c["framing"] == "ptm" else length

    # Classification

    def set_of(self, table, number):
        """The slots that may be taken, the hashed one first."""
        direct, ways = number % self.c["queues"], self.c["ways"]
        return [table[direct - direct % ways + (direct + i) % ways] for i in range(ways)]

    def find_host(self, table, number):
        order = self.set_of(table, number)
        had = [host for host in order if host.tag == number]
        free = [host for host in order if not host.bulk]
        host = (had + free + order)[0]
        host.tag = number
        return host

    def classify(self, tin, packet):
        mode = self.c["flow_mode"]
        if mode == "flowblind":
            return tin.queues[0]
        by_hosts = {"srchost": packet.src, "dsthost": packet.dst, "hosts": packet.src * 65537 + packet.dst}
        number = by_hosts.get(mode, packet.flow)
        order = self.set_of(tin.queues, number)
        had = [queue for queue in order if queue.tag == number]
        free = [queue for queue in order if queue.set == NONE]
        queue = (had + free + order)[0]
        if not had or queue.set == NONE:
            # Of a queue that another flow has, the hosts change.
            if queue.set == BULK:
                queue.count_bulk(-1)
            queue.hosts = [self.find_host(table, getattr(packet, side)) for side, table in tin.hosts.items()]
            if queue.set == BULK:
                queue.count_bulk(1)
        queue.tag = number
        return queue

    # Arrival

    def arrive(self, packet, now):
        tin = self.tins[int(TIN_OF[self.c["diffserv"]][packet.dscp // 8][packet.dscp % 8])]
        if self.c["wash"]:
            packet.dscp = 0
        queue = self.classify(tin, packet)
        if not tin.backlog:
            tin.time_next = max(tin.time_next, now)
            if not self.backlog() and self.time_next < now:
                self.time_next = self.failsafe_next = now
        packet.came, packet.adjusted = now, self.adjust(packet.size)
        queue.queue.append(packet)
        queue.bytes += packet.size
        tin.backlog += packet.size
        needless = None if self.c["ack_filter"] == "no" else self.find_needless_ack(queue.queue)
        if needless is not None:
            ack = self.take(tin, queue, needless)
            drop(ack, "ack", now)
            if self.c["ingress"]:
                self.charge(tin, ack, now, sent=False)
        if queue.set in (NONE, DECAYING):
            if queue.set == DECAYING:
                tin.decaying.remove(queue)
            tin.new.append(queue)
            queue.set = SPARSE
            tin.sparse += 1
            queue.deficit = tin.quantum_of(queue)
        elif queue.set == SPARSE_WAIT:
            tin.become_bulk(queue)
        while self.backlog() > self.c["memory_limit"]:
            self.drop_from_fattest(now)

    def find_needless_ack(self, queue):
        """The place of the ACK that the last packet makes needless: the first of two (aggressive: or one)."""
        last, found, flags, several = queue[-1], None, 0, 0
        if last.ack is None:
            return None
        for place, packet in enumerate(queue[:-1]):
            if packet.ack is None or packet.flow != last.flow:
                continue
            if found is not None and packet.ack[1] != flags:
                # It is the last one with its flags.
                found = None
                several -= 1
            if packet.ack[0] > last.ack[0]:
                continue
            sacks = compare_sacks(packet.ack, last.ack)
            if sacks < 0 or (packet.ack[0] == last.ack[0] and sacks == 0):
                continue
            if found is None:
                found, flags = place, packet.ack[1]
            several += 1
            if several > 1:
                return found
        next_to_last = found == len(queue) - 2 and flags == last.ack[1]
        return found if self.c["ack_filter"] == "aggressive" and next_to_last else None

    def drop_from_fattest(self, now):
        every = [(tin, queue) for tin in self.tins for queue in tin.queues]
        tin, queue = max(every, key=lambda each: each[1].bytes)
        packet = self.take(tin, queue)
        queue.arrive(packet, now)
        if self.c["ingress"]:
            self.charge(tin, packet, now, sent=False)

    def take(self, tin, queue, place=0):
        packet = queue.queue.pop(place)
        queue.bytes -= packet.size
        tin.backlog -= packet.size
        return packet

    # Departure

    def charge(self, tin, packet, now, sent):
        """The packet uses time of its tin and of the link; a dropped one none of the second clock."""
        if not self.rate:
            return
        own, whole = duration(packet.adjusted, tin.rate), duration(packet.adjusted, self.rate)
        tin.time_next = tin.time_next + own if tin.time_next < now else max(tin.time_next, now + own)
        self.time_next += whole
        if sent:
            self.failsafe_next += whole + whole // 2

    def charge_flow(self, tin, queue, packet):
        queue.deficit -= packet.adjusted * UNIT
        tin.deficit -= packet.adjusted

    def ready(self, now):
        if not self.backlog():
            return None
        return max(now, min(self.time_next, self.failsafe_next)) if self.rate else now

    def choose(self, now):
        """Shaped: the last tin whose time has come, else the next to come. Unlimited: round robin."""
        if self.rate:
            chosen, least = None, 0
            for tin in self.tins:
                wait = tin.time_next - now
                if tin.sparse + tin.bulk and (wait <= 0 or chosen is None or wait <= least):
                    chosen, least = tin, wait
            return chosen
        while True:
            tin = self.tins[self.current]
            if tin.deficit >= 0 and tin.sparse + tin.bulk:
                return tin
            if tin.deficit <= 0:
                tin.deficit += tin.quantum
            self.current = (self.current + 1) % len(self.tins)

    def next(self, now):
        tin, first = None, True
        while True:
            if tin is None:
                if self.ready(now) != now:
                    return None
                tin = self.choose(now)
            of = first and tin.decaying or tin.new or tin.old or tin.decaying
            queue, first = of[0], False
            if queue.deficit <= 0:
                if queue.set == SPARSE and queue.queue:
                    tin.become_bulk(queue)
                elif queue.set == SPARSE:
                    queue.set = SPARSE_WAIT
                queue.deficit += tin.quantum_of(queue)
                tin.old.append(of.pop(0))
                continue
            if not queue.queue:
                queue.idle(now)
                tin.leave(of.pop(0))
                # Until its COBALT is at rest, the flow is kept.
                queue.set = DECAYING if queue.p_drop or queue.count or now < queue.drop_next else NONE
                if queue.set == DECAYING:
                    tin.decaying.append(queue)
                tin = None
                continue
            packet = self.take(tin, queue)
            # COBALT asks for a sojourn of more than four times this.
            bulk = tin.bulk if self.c["ingress"] else 0
            queue.mtu_time = Fraction(tin.mtu_time * max(4, 2 * bulk), 4)
            why = queue.should_drop(packet, packet.came, now)
            # The last packet of a queue is not dropped.
            if not why or not queue.queue:
                self.charge(tin, packet, now, sent=True)
                self.charge_flow(tin, queue, packet)
                return packet
            drop(packet, why, now)
            if self.c["ingress"]:
                self.charge(tin, packet, now, sent=False)
                self.charge_flow(tin, queue, packet)

    def idle(self, now):
        pass
