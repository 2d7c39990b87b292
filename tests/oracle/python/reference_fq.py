"""The fair queue of Linux (`net/sched/sch_fq.c`, of 2023 and later): packets leave at the instant that their sender
stamped on them, or later.

Each flow has a queue in the order of its packets' instants: a line, and a tree for those that come too late for it.
Flows stand in a list of new and one of old ones, and are served by deficit round robin in bytes, new before old. A
flow whose next packet is not due is in neither list, and comes back behind the old ones when it is.

Written from that code by a reader who had seen neither the code that is compared nor another reference. In
nanoseconds; timers fire at the instant that they were set for.

Left out, as in ours: three bands of priority; the way past all queues while nothing else can go; the horizon; marks
for what leaves late; that a flow is forgotten after 3 s; that a rate delays by one second at most.

Where ours departs, each by its name in `departures` (none: as Linux):
- "order of arrival": the packets of a flow stay in the order in which they came, and the first one's stamp counts.
  Linux goes by the stamps.
- "spaced packets": the greatest rate spaces all packets one by one. Linux does so for those with a stamp; of the
  others it lets a turn go at once, and then waits as long as a quantum takes.

Not compared: the nanosecond that a rate rounds off, in Linux down, in ours up.
"""

from bisect import insort
from collections import deque

from reference_world import drop as lose

SECOND = 1_000_000_000
REFILL_DELAY = 40_000_000
OURS = frozenset(
    [
        "order of arrival",
        "spaced packets",
    ]
)


class Flow:
    def __init__(self, credit):
        self.line = deque()
        self.tree = []
        self.credit = credit
        self.listed = False
        self.emptied = None  # when it left the lists
        self.time_next_packet = 0

    def __len__(self):
        return len(self.line) + len(self.tree)

    def add(self, entry, by_arrival):
        """`flow_queue_add`; an entry is (when it may go, which packet it was, the packet)."""
        if by_arrival or not self.line or entry[0] >= self.line[-1][0]:
            self.line.append(entry)
        else:
            insort(self.tree, entry)

    def first(self):
        """What holds the next packet (`fq_peek`): of two equal instants, the line's goes first."""
        if not self.tree or (self.line and self.line[0][0] <= self.tree[0][0]):
            return self.line
        return self.tree

    def take(self):
        return self.tree.pop(0) if self.first() is self.tree else self.line.popleft()


class Fq:
    """`c`: limits in packets, quanta in bytes, and `max_rate` as nanoseconds per byte, or None."""

    def __init__(self, c, departures=OURS):
        self.c, self.departures = c, departures
        self.flows = {}
        self.new, self.old = deque(), deque()
        self.delayed = []  # (when it is due, in which order they came here, the flow)
        self.packets = 0
        self.order = 0

    def arrive(self, packet, now):
        if self.packets >= self.c["limit"]:
            lose(packet, "overflow", now)
            return
        flow = self.flows.get(packet.flow)
        if flow is None:
            flow = self.flows[packet.flow] = Flow(self.c["initial_quantum"])
        if len(flow) >= self.c["flow_limit"]:
            lose(packet, "overflow", now)
            return
        if not flow.listed:
            flow.listed = True
            self.new.append(flow)
            if flow.emptied is not None and now > flow.emptied + REFILL_DELAY:
                flow.credit = max(flow.credit, self.c["quantum"])
        self.order += 1
        # Without a stamp a packet may go as it comes; ours knows no instant for it at all.
        unstamped = 0 if "order of arrival" in self.departures else now
        due = unstamped if packet.stamp is None else packet.stamp
        flow.add((due, self.order, packet), "order of arrival" in self.departures)
        self.packets += 1

    def next(self, now):
        if self.packets == 0:
            return None
        while self.delayed and self.delayed[0][0] <= now:
            self.old.append(self.delayed.pop(0)[2])
        while self.new or self.old:
            line = self.new if self.new else self.old
            flow = line[0]
            if flow.credit <= 0:
                flow.credit += self.c["quantum"]
                self.old.append(line.popleft())
                continue
            if not len(flow):
                line.popleft()
                if line is self.new:
                    self.old.append(flow)
                else:
                    flow.listed = False
                    flow.emptied = now
                continue
            due = max(flow.first()[0][0], flow.time_next_packet)
            if now < due:
                line.popleft()
                flow.time_next_packet = due
                self.order += 1
                insort(self.delayed, (due, self.order, flow))
                continue
            _, _, packet = flow.take()
            self.packets -= 1
            flow.credit -= packet.size
            self.pace(flow, packet, now)
            return packet
        return None

    def pace(self, flow, packet, now):
        """When the greatest rate lets the next packet of the flow go."""
        rate, length = self.c["max_rate"], packet.size
        if rate is None:
            return
        if packet.stamp is None and "spaced packets" not in self.departures:
            length = max(length, self.c["quantum"])
            if flow.credit > 0:
                return
        wait = length * rate
        if flow.time_next_packet:
            wait -= min(wait // 2, now - flow.time_next_packet)
        flow.time_next_packet = now + wait

    def ready(self, now):
        """When the next packet may go, or None if nothing waits."""
        if self.packets == 0:
            return None
        if any(len(flow) for flow in (*self.new, *self.old)):
            return now
        return self.delayed[0][0]

    def idle(self, now):
        pass
