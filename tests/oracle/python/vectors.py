"""The arrivals that all references are given: [ns since the one before, flow, bytes, whether ECN-capable]."""

import random

PACKETS = 800


def bursts(r):
    """Three flows that send bursts of mixed sizes, with pauses in which the link is idle."""
    arrivals = []
    while len(arrivals) < PACKETS:
        pause = int(r.expovariate(1 / 20e6))
        for k in range(r.randint(1, 40)):
            gap = pause if k == 0 else r.choice([0, 0, 50_000, 400_000])
            arrivals.append([gap, r.randrange(3), r.choice([40, 576, 1000, 1500]), r.randrange(2)])
    return arrivals[:PACKETS]


def overload(r):
    """Five flows of rates 1 to 5 that together offer one and a half times the link."""
    due = [r.random() * 1e6 for _ in range(5)]
    arrivals, last = [], 0
    for _ in range(PACKETS):
        flow = min(range(5), key=lambda f: due[f])
        at = int(due[flow])
        arrivals.append([at - last, flow, 1000, flow % 2])
        last = at
        due[flow] += 800_000 * 10 / (flow + 1) * r.uniform(0.8, 1.2)
    return arrivals


def poisson(r):
    """Eight flows that together offer 95 % of the link."""
    return [
        [int(r.expovariate(1 / 842e3)), r.randrange(8), r.choice([500, 1000, 1500]), 1]
        for _ in range(PACKETS)
    ]


def dominated(r):
    """Five flows that offer one and a half times the link, one of them four fifths of it."""
    flow = [0] * 16 + [1, 2, 3, 4]
    return [[int(r.expovariate(1 / 533e3)), r.choice(flow), 1000, r.randrange(2)] for _ in range(PACKETS)]


def vectors_of_the_family():
    return vectors() | {"dominated": dominated(random.Random(4))}


def vectors():
    return {
        make.__name__: make(random.Random(seed)) for seed, make in enumerate([bursts, overload, poisson], 1)
    }
