"""The fair queue of Linux (net/sched/sch_fq.c): packets leave at the instant that their sender stamped on them, or later.

Each flow has a queue in the order of its packets' instants (a line, and a tree for those that come too late for it). Flows stand in a list of new and one of old ones, and are served by
deficit round robin in bytes, new before old; a flow whose next packet is not due is taken out of the lists, and comes back to the
end of the old ones when it is due.

Chosen where the source leaves room, and what is left out:
- One band of the three (without priorities the others stay empty), so the bands' credit and quanta have no effect.
- `fast_path`: a packet that is due and finds nothing else to send may go in a queue before all flows (Linux since 6.7). Off unless
  asked for.
- Time in ns; a jiffy is `jiffy` ns (1 here: exact). Flows are never forgotten (Linux forgets those idle for 3 s on a collision).
- A packet without a stamp has `stamp` 0 or None, and is due at once; the sender's pacing rate is `rate` in bytes per second
  (None: none), which Linux applies only to packets without stamp.
- No offload horizon. Timers fire exactly at the instant that they were set for (no slack).
"""

from bisect import insort
from collections import deque

from reference_world import drop as lose

SECOND = 1_000_000_000


class Flow:
    def __init__(self, credit):
        self.line = deque()  # in the order of arrival, as long as the instants rise
        self.tree = []  # those that came with an instant before the line's last
        self.credit = credit
        self.listed = None
        self.emptied = 0
        self.time_next_packet = 0

    def __len__(self):
        return len(self.line) + len(self.tree)

    def add(self, entry):
        if not self.line or entry[0] >= self.line[-1][0]:
            self.line.append(entry)
        else:
            insort(self.tree, entry)

    def first(self):
        """The list that holds the next packet; of two equal instants, the line's goes first."""
        if not self.tree:
            return self.line
        if not self.line or self.tree[0][0] < self.line[0][0]:
            return self.tree
        return self.line

    def take(self):
        return self.line.popleft() if self.first() is self.line else self.tree.pop(0)


class Fq:
    def __init__(
        self, quantum=3028, initial_quantum=15_140, limit_packets=10_000, flow_limit=100, refill_delay=40_000_000,
        horizon=10 * SECOND, horizon_drop=True, max_rate=None, low_rate_threshold=68_750, ce_threshold=None,
        classify=None, stamp=None, rate=None, fast_path=False, jiffy=1,
    ):
        self.quantum, self.initial_quantum = quantum, initial_quantum
        self.limit_packets, self.flow_limit, self.refill_delay = limit_packets, flow_limit, refill_delay
        self.horizon, self.horizon_drop, self.max_rate = horizon, horizon_drop, max_rate
        self.low_rate_threshold, self.ce_threshold = low_rate_threshold, ce_threshold
        self.classify = classify or (lambda packet: packet.flow)
        self.stamp = stamp or (lambda packet: getattr(packet, "stamp", 0))
        self.rate = rate or (lambda packet: None)
        self.fast_path, self.jiffy = fast_path, jiffy
        self.flows = {}
        self.internal = deque()
        self.new, self.old = deque(), deque()
        self.delayed = []
        self.packets = 0
        self.order = 0

    def arrive(self, packet, now):
        # Linux counts a band's packets: those of the fast path are not among them.
        if self.packets - len(self.internal) >= self.limit_packets:
            lose(packet, "overflow", now)
            return
        stamp = self.stamp(packet)
        due = now
        if stamp:
            if stamp > now + self.horizon:
                if self.horizon_drop:
                    lose(packet, "horizon", now)
                    return
                stamp = now + self.horizon
            due = stamp
        self.order += 1
        if self.fast_path and self.may_pass(due, now):
            self.internal.append(packet)
            self.packets += 1
            return
        flow = self.flows.get(self.classify(packet))
        if flow is None:
            flow = self.flows[self.classify(packet)] = Flow(self.initial_quantum)
        if len(flow) >= self.flow_limit:
            lose(packet, "flow", now)
            return
        if flow.listed is None:
            flow.listed = "new"
            self.new.append(flow)
            if now // self.jiffy > flow.emptied // self.jiffy + self.refill_delay // self.jiffy:
                flow.credit = max(flow.credit, self.quantum)
        flow.add((due, self.order, packet, bool(stamp)))
        self.packets += 1

    def may_pass(self, due, now):
        if due > now or self.max_rate is not None:
            return False
        if self.packets == 0:
            return True
        eligible = any(len(flow) and flow.listed != "delayed" for flow in self.flows.values())
        soon = self.delayed and self.delayed[0][0] <= now
        return not eligible and len(self.internal) < 8 and not soon

    def next(self, now):
        if self.packets == 0:
            return None
        if self.internal:
            self.packets -= 1
            return self.internal.popleft()
        while self.delayed and self.delayed[0][0] <= now:
            flow = self.delayed.pop(0)[2]
            flow.listed = "old"
            self.old.append(flow)
        while True:
            if self.new:
                line = self.new
            elif self.old:
                line = self.old
            else:
                return None
            flow = line[0]
            if flow.credit <= 0:
                flow.credit += self.quantum
                line.popleft()
                flow.listed = "old"
                self.old.append(flow)
                continue
            if not len(flow):
                line.popleft()
                if line is self.new:
                    flow.listed = "old"
                    self.old.append(flow)
                else:
                    flow.listed = None
                    flow.emptied = now
                continue
            at = max(flow.first()[0][0], flow.time_next_packet)
            if now < at:
                line.popleft()
                flow.time_next_packet = at
                flow.listed = "delayed"
                self.order += 1
                insort(self.delayed, (at, self.order, flow))
                continue
            _, _, packet, stamped = flow.take()
            self.packets -= 1
            if self.ce_threshold is not None and now - at > self.ce_threshold and packet.ect:
                packet.mark = "late"
            flow.credit -= packet.size
            self.pace(flow, packet, stamped, now)
            return packet

    def pace(self, flow, packet, stamped, now):
        """When the flow may send next, by rates (a stamp says it for itself)."""
        rate, length = self.max_rate, packet.size
        if not stamped:
            own = self.rate(packet)
            if own is not None:
                rate = own if rate is None else min(own, rate)
            if rate is not None and rate <= self.low_rate_threshold:
                flow.credit = 0
            else:
                length = max(length, self.quantum)
                if flow.credit > 0:
                    return
        if rate is None:
            return
        wait = min(length * SECOND // rate if rate else length * SECOND, SECOND)
        if flow.time_next_packet:
            wait -= min(wait // 2, now - flow.time_next_packet)
        flow.time_next_packet = now + wait

    def ready(self, now):
        """When the next packet may go, or None if nothing waits."""
        if self.packets == 0:
            return None
        if self.internal or any(len(flow) and flow.listed != "delayed" for flow in self.flows.values()):
            return now
        return self.delayed[0][0] if self.delayed else None

    def idle(self, now):
        pass
