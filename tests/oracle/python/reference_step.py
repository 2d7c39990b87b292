"""A step: DCTCP's threshold on the length of the queue that an arrival finds (RFC 8257, section 3.1), and the one of L4S on the
wait of the packet that leaves (RFC 9332, section 2.5.2 and appendix A).

Settled: the threshold itself is not above it; a packet that cannot carry a mark is dropped, or passes with `others` "pass".
"""

from reference_world import drop


class Step:
    def __init__(self, c, draws):
        self.c = c
        self.queue = []

    def says(self, packet):
        """mark, drop or pass, of a packet that is above the threshold."""
        if self.c["ecn"] and packet.ect:
            return "mark"
        return self.c["others"]

    def arrive(self, packet, now):
        bytes_waiting = sum(p.size for p, _ in self.queue)
        kind, most = self.c["limit"]
        if (len(self.queue) + 1 if kind == "packets" else bytes_waiting + packet.size) > most:
            drop(packet, "overflow", now)
            return
        kind, k = self.c["threshold"]
        found = {"packets": len(self.queue), "bytes": bytes_waiting, "nanos": 0}[kind]
        does = self.says(packet) if found > k else "pass"
        if does == "drop":
            drop(packet, "early", now)
            return
        if does == "mark":
            packet.mark = "step"
        self.queue.append((packet, now))

    def next(self, now):
        while self.queue:
            packet, came = self.queue.pop(0)
            kind, k = self.c["threshold"]
            does = self.says(packet) if kind == "nanos" and now - came > k else "pass"
            if does == "drop":
                drop(packet, "early", now)
                continue
            if does == "mark":
                packet.mark = "step"
            return packet
        return None

    def idle(self, now):
        pass
