"""What a network is, in words that both simulators can be told: a chain of bottlenecks, and flows over them.

Router 0 to router K are joined by K hops. A flow enters at one router and leaves at another; one that goes to
a lower number travels against the chain. Each flow has hosts of its own. Times are nanoseconds, all of them
multiples of 125, and so are the times that packets take on links: nothing depends on how a simulator rounds.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass

# In whole numbers of these all times are, in nanoseconds.
STEP = 125
MS = 1_000_000
SECOND = 1_000_000_000

# What both sides give a queue that shall never drop.
ENDLESS = 10_000

# A largest probability with which RED drops nothing before the average is above its upper threshold.
FORCED_ONLY = 1e-12

# RED counts idle time in whole packets of a mean size. Of these no silence lasts exactly a number: ns-2 would
# round either way, as its clock does.
MEAN = 997


@dataclass(frozen=True)
class Queue:
    """What waits in front of a bottleneck. Limits count packets, without the one that is being sent."""

    kind: str = "droptail"
    limit: int = 50
    low: int = 5
    high: int = 15
    max_p: float = 0.1
    weight: float = 0.002
    gentle: bool = False
    mean_packet: int = 1000
    buckets: int = 16

    @property
    def is_random(self) -> bool:
        """Whether it draws random numbers."""
        return self.kind in ("red", "adaptive-red") and self.max_p > FORCED_ONLY


@dataclass(frozen=True)
class Hop:
    """A bottleneck, the same in both directions."""

    rate: int
    delay: int
    queue: Queue


@dataclass(frozen=True)
class Flow:
    """A TCP connection (`tcp`) or a source of datagrams (`cbr`, `poisson`, `on-off`)."""

    kind: str
    enters: int
    leaves: int
    access_rate: int
    access_delay: int
    exit_delay: int
    packet: int = 1000
    start: tuple[int, int] = (0, 0)
    # TCP
    variant: str = "reno"
    window: int = 20
    ecn: bool = False
    delayed_ack: bool = False
    transfer: int | None = None  # packets; none: always something to send
    # datagrams
    rate: int = 0
    jitter: bool = False
    on: int = 0
    off: int = 0

    @property
    def is_tcp(self) -> bool:
        """Whether it is a TCP connection."""
        return self.kind == "tcp"

    @property
    def is_backward(self) -> bool:
        """Whether its data travels against the chain."""
        return self.leaves < self.enters

    @property
    def is_random(self) -> bool:
        """Whether its source draws random numbers, its start aside."""
        return self.kind in ("poisson", "on-off") or (self.kind == "cbr" and self.jitter)


@dataclass(frozen=True)
class Scenario:
    """A network with its traffic. Statistics are taken from `begin` to `stop`."""

    name: str
    hops: tuple[Hop, ...]
    flows: tuple[Flow, ...]
    begin: int
    stop: int

    @property
    def is_two_way(self) -> bool:
        """Whether data travels in both directions: then both have the hops' queues."""
        return any(flow.is_backward for flow in self.flows)

    @property
    def is_deterministic(self) -> bool:
        """Whether nothing in it is random: both sides must send the same packets at the same times."""
        return (
            not any(hop.queue.is_random for hop in self.hops)
            and not any(flow.is_random for flow in self.flows)
            and all(flow.start[0] == flow.start[1] for flow in self.flows)
        )

    def directions(self) -> list[tuple[int, bool]]:
        """The bottlenecks that are measured: number of the hop, and whether against the chain."""
        forward = [(number, False) for number in range(len(self.hops))]
        return forward + [(number, True) for number in range(len(self.hops)) if self.is_two_way]

    def crosses(self, flow: Flow, hop: int, backward: bool) -> bool:
        """Whether data of `flow` takes this direction of `hop`."""
        low, high = sorted((flow.enters, flow.leaves))
        return low <= hop < high and flow.is_backward == backward

    def way(self, number: int, is_ack: bool) -> list[str]:
        """The directions of links that packets of flow `number` take."""
        flow = self.flows[number]
        if flow.is_backward == is_ack:
            hops = [
                f"hop{hop}.forward"
                for hop in range(min(flow.enters, flow.leaves), max(flow.enters, flow.leaves))
            ]
        else:
            ends = sorted((flow.enters, flow.leaves))
            hops = [f"hop{hop}.reverse" for hop in reversed(range(*ends))]
        if is_ack:
            return [f"out{number}.reverse", *hops, f"in{number}.reverse"]
        return [f"in{number}.forward", *hops, f"out{number}.forward"]

    def starts(self, seed: int) -> list[int]:
        """When each flow starts in the run with `seed`: the same on both sides."""
        draw = random.Random(f"{self.name} {seed}")
        return [draw.randint(*flow.start) for flow in self.flows]

    def to_json(self) -> dict:
        """As a table of plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, table: dict) -> Scenario:
        """What `to_json` gave."""
        hops = tuple(Hop(**{**hop, "queue": Queue(**hop["queue"])}) for hop in table["hops"])
        flows = tuple(Flow(**{**flow, "start": tuple(flow["start"])}) for flow in table["flows"])
        return cls(**{**table, "hops": hops, "flows": flows})


def direction_name(hop: int, backward: bool) -> str:
    """How a direction of a hop is called in counters and reports."""
    return f"hop{hop}.reverse" if backward else f"hop{hop}"
