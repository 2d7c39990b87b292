"""BLUE as published: Feng, thesis, section 4.3.1 (Fig. 4.3 itself is lost; names as in the text).

Settled: an update may come when freeze_time has passed since the last one, exactly then included; an idle link updates at
once if it may and then each time it may again, until p_m is 0; a loss at p_m = 1 counts as an update; overflow comes
before the random decision; a random freeze time is uniform on freeze_time (1 - spread) to freeze_time (1 + spread), whole
nanoseconds, drawn at the update that it follows.
"""

from reference_world import drop


class Blue:
    def __init__(self, c, draws):
        self.c, self.draws = c, draws
        self.p_m = 0.0
        self.queue = []
        self.updates = []  # (time, "up" or "down", the freeze time that follows)
        self.idle_since = 0  # None while the link is busy

    def allowed_from(self, direction):
        """When the next update in this direction may come."""
        for at, what, freeze in reversed(self.updates):
            if what == direction or self.c["timers"] == "shared":
                return at + freeze
        return 0

    def update(self, direction, now):
        if direction == "up":
            self.p_m = min(1.0, self.p_m + self.c["delta_up"])
        else:
            self.p_m = max(0.0, self.p_m - self.c["delta_down"])
        freeze, spread = self.c["freeze_ns"], self.c["freeze_spread"]
        if spread > 0:
            freeze = max(1, int(freeze * (1.0 - spread + 2.0 * spread * self.draws.uniform())))
        self.updates.append((now, direction, freeze))

    def idle_updates(self, now):
        while self.idle_since is not None and self.p_m > 0 and self.c["delta_down"] > 0:
            at = max(self.idle_since, self.allowed_from("down"))
            if at > now:
                return
            self.update("down", at)

    def is_over(self, limit, extra_bytes):
        kind, most = limit
        if kind == "packets":
            return len(self.queue) + (extra_bytes > 0) > most
        return sum(p.size for p in self.queue) + extra_bytes > most

    def arrive(self, packet, now):
        self.idle_updates(now)
        full = self.is_over(self.c["limit"], packet.size)
        long = self.c["threshold"] is not None and self.is_over(self.c["threshold"], 0)
        if (full or long) and now >= self.allowed_from("up"):
            self.update("up", now)
        if full:
            drop(packet, "overflow", now)
            return
        # With `priority`, packets of odd flows carry a promise.
        if not (self.c["priority"] and packet.flow % 2 == 1) and self.draws.chance(self.p_m):
            if not (self.c["ecn"] and packet.ect):
                drop(packet, "early", now)
                return
            packet.mark = "early"
        self.queue.append(packet)
        self.idle_since = None

    def next(self, now):
        return self.queue.pop(0) if self.queue else None

    def idle(self, now):
        if self.idle_since is None:
            self.idle_since = now
            self.idle_updates(now)
