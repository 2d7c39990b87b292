"""FQ-CoDel (RFC 8290, section 4; its details as in Linux, net/sched/sch_fq_codel.c).

Packets go into the queue that `classify` says. Queues with packets stand in one of two lists, new before old, and are served by
deficit round robin in bytes, each with a CoDel of its own. A full buffer takes packets from the head of the queue with most bytes.

Chosen where the sources leave room:
- The RFC gives no pseudocode; a queue that runs empty in the new list goes to the end of the old one only if that one is not empty
  (Linux); the RFC (section 4.2) says always. A pass through an empty list has no other effect than the queue's next arrival finding
  it listed, so `force_pass` chooses: "linux" or "always".
- MTU guard of CoDel: over the bytes of all queues in Linux (`guard="all"`), or of the queue alone (`guard="queue"`).
- The packet that arrives is first appended, then the limits are looked at; so it may be among those that are taken.
- Of queues with equally many bytes the one with the lowest index is the fattest.
- Memory is counted in the packets' bytes.
"""

from collections import deque

from reference_world import drop as lose


class Flow:
    def __init__(self, law):
        self.law = law
        self.fifo = deque()
        self.bytes = 0
        self.deficit = 0
        self.listed = False


class FqCodel:
    def __init__(
        self, make_law, flows=1024, quantum=1514, limit_packets=10_240, memory_limit=32 << 20, batch=64,
        classify=None, guard="all", force_pass="linux",
    ):
        self.flows = [Flow(make_law()) for _ in range(flows)]
        self.quantum, self.limit_packets, self.memory_limit, self.batch = quantum, limit_packets, memory_limit, batch
        self.classify = classify or (lambda packet: packet.flow % flows)
        self.guard, self.force_pass = guard, force_pass
        self.new, self.old = deque(), deque()
        self.packets = self.bytes = 0

    def arrive(self, packet, now):
        flow = self.flows[self.classify(packet)]
        flow.fifo.append((now, packet))
        flow.bytes += packet.size
        self.packets += 1
        self.bytes += packet.size
        if not flow.listed:
            flow.listed = True
            flow.deficit = self.quantum
            self.new.append(flow)
        over_packets = self.limit_packets is not None and self.packets > self.limit_packets
        if over_packets or (self.memory_limit is not None and self.bytes > self.memory_limit):
            self.drop_batch(now)

    def drop_batch(self, now):
        fattest = max(self.flows, key=lambda flow: flow.bytes)
        threshold = fattest.bytes // 2
        taken = length = 0
        while True:
            _, packet = self.pop(fattest)
            lose(packet, "overflow", now)
            taken += 1
            length += packet.size
            if taken >= self.batch or length >= threshold:
                break
        fattest.law.punish(taken)

    def pop(self, flow):
        if not flow.fifo:
            return None
        head = flow.fifo.popleft()
        size = head[1].size
        flow.bytes -= size
        self.bytes -= size
        self.packets -= 1
        return head

    def next(self, now):
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
            backlog = (lambda: self.bytes) if self.guard == "all" else (lambda flow=flow: flow.bytes)
            packet = flow.law.dequeue(
                now, lambda flow=flow: self.pop(flow), backlog, lambda lost: lose(lost, "codel", now)
            )
            if packet is None:
                line.popleft()
                if line is self.new and (self.old or self.force_pass == "always"):
                    self.old.append(flow)
                else:
                    flow.listed = False
                continue
            flow.deficit -= packet.size
            return packet

    def idle(self, now):
        pass
