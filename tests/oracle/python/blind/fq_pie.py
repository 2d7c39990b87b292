"""FQ-PIE as Linux has it (net/sched/sch_fq_pie.c over sch_pie.c and include/net/pie.h).

The lists are FQ-CoDel's, but every queue has a PIE, so all decisions are made at arrivals. `PieLinux` is the law in Linux' numbers:
time in ticks of 64 ns, probabilities in 56 bits, alpha and beta in sixteenths. Any law with the interface of `pie.PieLaw` may take
its place.

Chosen where the source leaves room:
- Linux counts a packet over the memory limit and lets it in all the same (`overmemory`); so does this.
- The timer runs at T_UPDATE, 2 T_UPDATE and so on (Linux starts it after half a second, in jiffies), for all queues at once
  (Linux: at most 2048 of them in one go), before whatever else happens at that instant.
- `mean_packet` is the MTU of Linux' rule "fewer than 2 MTU wait".
"""

from collections import deque

from reference_world import drop as lose

MAX_PROB = (1 << 56) - 1
TICKS_PER_SECOND = 1_000_000_000 >> 6
MS = 1_000_000


class PieLinux:
    def __init__(self, draws, target=15 * MS, tupdate=15 * MS, alpha=2, beta=20, mean_packet=1514, byte_mode=False, ecn_percent=10):
        self.draws, self.target, self.tupdate = draws, target >> 6, tupdate
        self.alpha, self.beta, self.mtu, self.byte_mode = alpha, beta, mean_packet, byte_mode
        self.ecn_max = MAX_PROB // 100 * ecn_percent
        self.qdelay = self.qdelay_old = self.prob = 0
        self.reset()

    def reset(self):
        self.burst_time = 150 * MS >> 6
        self.dq_tstamp = None
        self.accu_prob = 0

    def decide(self, packet, backlog, ecn):
        if not self.drop_early(packet, backlog):
            return "enqueue"
        if ecn and packet.ect and self.prob <= self.ecn_max:
            return "mark"
        self.accu_prob = 0
        return "drop"

    def drop_early(self, packet, backlog):
        if self.burst_time > 0:
            return False
        if self.qdelay < self.target // 2 and self.prob < MAX_PROB // 5:
            return False
        if backlog < 2 * self.mtu:
            return False
        prob = packet.size * (self.prob // self.mtu) if self.byte_mode and packet.size <= self.mtu else self.prob
        self.accu_prob = self.accu_prob + prob if prob else 0
        if self.accu_prob < MAX_PROB // 100 * 85:
            return False
        if self.accu_prob >= MAX_PROB // 2 * 17:
            return True
        if self.draws.chance(prob / (MAX_PROB + 1)):
            self.accu_prob = 0
            return True
        return False

    def departed(self, packet, waited, backlog, now):
        ticks = now >> 6
        self.qdelay = ticks - (now - waited >> 6) if backlog else 0
        dtime = 0 if self.dq_tstamp is None else ticks - self.dq_tstamp
        self.dq_tstamp = ticks
        self.burst_time = max(0, self.burst_time - dtime)

    def calculate_drop_prob(self, backlog):
        update_prob = not (self.qdelay == 0 and backlog != 0)
        alpha = self.alpha * (MAX_PROB // TICKS_PER_SECOND) >> 4
        beta = self.beta * (MAX_PROB // TICKS_PER_SECOND) >> 4
        if self.prob < MAX_PROB // 10:
            alpha >>= 1
            beta >>= 1
            power = 100
            while self.prob < MAX_PROB // power and power <= 1_000_000:
                alpha >>= 2
                beta >>= 2
                power *= 10
        delta = alpha * (self.qdelay - self.target) + beta * (self.qdelay - self.qdelay_old)
        if delta > MAX_PROB // 50 and self.prob >= MAX_PROB // 10:
            delta = MAX_PROB // 100 * 2
        if self.qdelay > 250 * MS >> 6:
            delta += MAX_PROB // 50
        # Linux bounds the sum by looking for the wrap of 64 bits; below that, probabilities over MAX_PROB stand.
        prob = self.prob + delta
        if delta > 0 and prob >= 1 << 64:
            prob, update_prob = MAX_PROB, False
        self.prob = max(0, prob)
        if self.qdelay == 0 and self.qdelay_old == 0 and update_prob:
            self.prob -= self.prob // 64
        half = self.target // 2
        if self.qdelay < half and self.qdelay_old < half and self.prob == 0:
            self.reset()
        self.qdelay_old = self.qdelay


class Flow:
    def __init__(self, law):
        self.law = law
        self.fifo = deque()
        self.bytes = 0
        self.deficit = 0
        self.listed = False


class FqPie:
    def __init__(self, make_law, flows=1024, quantum=1514, limit_packets=10_240, ecn=False, classify=None, tupdate=15 * MS):
        self.flows = [Flow(make_law()) for _ in range(flows)]
        self.quantum, self.limit_packets, self.ecn = quantum, limit_packets, ecn
        self.classify = classify or (lambda packet: packet.flow % flows)
        self.new, self.old = deque(), deque()
        self.packets = 0
        self.tupdate = self.next_update = tupdate

    def catch_up(self, now):
        while self.next_update <= now:
            for flow in self.flows:
                flow.law.calculate_drop_prob(flow.bytes)
            self.next_update += self.tupdate

    def arrive(self, packet, now):
        self.catch_up(now)
        flow = self.flows[self.classify(packet)]
        if self.packets >= self.limit_packets:
            flow.law.accu_prob = 0
            lose(packet, "overflow", now)
            return
        verdict = flow.law.decide(packet, flow.bytes, self.ecn)
        if verdict == "drop":
            lose(packet, "pie", now)
            return
        if verdict == "mark":
            packet.mark = "pie"
        flow.fifo.append((now, packet))
        flow.bytes += packet.size
        self.packets += 1
        if not flow.listed:
            flow.listed = True
            flow.deficit = self.quantum
            self.new.append(flow)

    def next(self, now):
        self.catch_up(now)
        while True:
            if self.new:
                line = self.new
            elif self.old:
                line = self.old
            else:
                return None
            flow = line[0]
            if flow.deficit <= 0:
                flow.deficit += self.quantum
                line.popleft()
                self.old.append(flow)
                continue
            if not flow.fifo:
                line.popleft()
                if line is self.new and self.old:
                    self.old.append(flow)
                else:
                    flow.listed = False
                continue
            arrived, packet = flow.fifo.popleft()
            self.packets -= 1
            flow.deficit -= packet.size
            flow.bytes -= packet.size
            flow.law.departed(packet, now - arrived, flow.bytes, now)
            return packet

    def idle(self, now):
        self.catch_up(now)
