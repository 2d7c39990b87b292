"""Recovery with SACK (RFC 6675) and proportional rate reduction (RFC 6937): a sender of whole segments, each with its state.

A window of segments was sent, some of it is lost, and the receiver acknowledges each of the others at once. Nothing else arrives.
"""

import random


class Sender:
    def __init__(self, window):
        self.window, self.una, self.next = window, 0, window
        self.sacked, self.retransmitted = set(), set()
        self.recovery, self.dupacks = False, 0

    def is_lost(self, n):
        """`IsLost`: three ranges, or more than two segments, are held above."""
        above = sorted(m for m in self.sacked if m > n)
        ranges = sum(1 for m in above if m - 1 not in self.sacked)
        return ranges >= 3 or len(above) > 2

    def pipe(self):
        total = 0
        for n in range(self.una, self.next):
            if n in self.sacked:
                continue
            total += (not self.is_lost(n)) + (n in self.retransmitted)
        return total

    def next_segment(self):
        """`NextSeg`, rules 1 to 3."""
        holes = [n for n in range(self.una, self.next) if n not in self.sacked]
        top = max(self.sacked, default=-1)
        above = max(self.retransmitted, default=-1)
        open_holes = [n for n in holes if n > above and n < top]
        for n in open_holes:
            if self.is_lost(n):
                return n
        return self.next

    def send(self, n):
        if n == self.next:
            self.next += 1
        else:
            self.retransmitted.add(n)
        self.prr_out += 1

    def on_ack(self, una, sacked):
        """How many segments go out."""
        before = self.una + len(self.sacked)
        news = bool(sacked - self.sacked)
        advances = una > self.una
        self.una = una
        self.sacked = {n for n in self.sacked | sacked if n >= una}
        delivered = self.una + len(self.sacked) - before
        if advances:
            self.dupacks = 0
        self.dupacks += news
        sent = 0
        if not self.recovery and (self.dupacks >= 3 or (self.sacked and self.is_lost(self.una))):
            self.recovery = True
            # What limited transmit sent is under way, but does not count for the control's half.
            self.recover_fs, self.ssthresh = self.next - self.una, self.window // 2
            self.prr_delivered = self.prr_out = 0
            may_go = self.sndcnt(delivered, first=True)
            self.send(self.una)
            sent = 1
        elif self.recovery:
            may_go = self.sndcnt(delivered)
        else:
            return self.before_recovery()
        while self.prr_out < may_go:
            self.send(self.next_segment())
            sent += 1
        return sent

    def sndcnt(self, delivered, first=False):
        """Up to how many segments may have gone in this recovery (RFC 6937, section 3)."""
        self.prr_delivered += delivered
        # The head goes with the first acknowledgment; `pipe` counts it as sent.
        pipe = self.pipe() + (1 if first else 0)
        if pipe > self.ssthresh:
            count = -(-self.prr_delivered * self.ssthresh // self.recover_fs) - self.prr_out
        else:
            limit = max(self.prr_delivered - self.prr_out, delivered) + 1
            count = min(self.ssthresh - pipe, limit)
        return self.prr_out + max(count, 0)

    def before_recovery(self):
        """RFC 3042: the window and what duplicates tell to have left."""
        sent = 0
        while self.next - self.una - len(self.sacked) < self.window:
            self.next += 1
            sent += 1
        return sent


def trace(seed):
    r = random.Random(f"prr {seed}")
    window = r.choice([20, 50, 100])
    share = r.choice([0.02, 0.1, 0.4])
    lost = sorted({r.randrange(window // 2)} | {n for n in range(window) if r.random() < share})
    sender, received, sent = Sender(window), set(), []
    for n in range(window):
        if n in lost:
            continue
        received.add(n)
        una = next(m for m in range(window + 1) if m not in received)
        sent.append(sender.on_ack(una, {m for m in received if m >= una}))
    return {"window": window, "lost": lost, "sent": sent}
