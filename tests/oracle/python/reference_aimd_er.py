"""One virtual link of EEC or IEC over one bottleneck, packet by packet, written from the paper alone.

Source: Harrison and Kalyanaraman, sections II.B, III.A, III.B. The source always has packets; the ingress releases them
evenly at rate r; the bottleneck is a FIFO; the egress measures at each control packet. Feedback takes the way back without
queueing. Everything is exact in floats: no clocks, no bytes on a wire, no events of equal time.

Besides the model there is `steady_queue_bound`, the analytic bound of the queue in bursts for each virtual link.

    python reference_aimd_er.py            # prints what ../verdicts/aimd_er.json holds
"""

import heapq
import json
from collections import deque


def steady_queue_bound():
    """4: a burst, the queue at which marking begins, and the growth until marking shows effect, in units of N sigma.

    The aggregate excess over the capacity rises by one N sigma / T per round trip T. With the first positive excess f (0 < f
    <= 1), the queue passes N sigma after s of the second round trip, f + (1 + f) s = 1, and the rates fall a round trip
    later: the queue is then 2 + f + (1 - f) / (1 + f), at most 3, and every virtual link may add one burst.
    """
    steps = 1000
    most = max(2 + f / steps + (1 - f / steps) / (1 + f / steps) for f in range(steps + 1))
    return most + 1


def run(scheme, capacity, one_way, sigma=1000.0, beta=0.98, duration=20.0, warmup=10.0, access=1e15):
    """Rates in bytes per second, times in seconds. Statistics of the queue (bytes waiting and in service) after warmup."""
    packet = sigma
    control = 82.0
    events = []
    count = 0

    def at(time, what, *data):
        nonlocal count
        count += 1
        heapq.heappush(events, (time, count, what, data))

    to_bottleneck = one_way * 0.4
    beyond = one_way - to_bottleneck
    rate, slow_start = sigma / 0.05, True
    round_trip = None
    next_round = 0.05
    sent = 0
    last_control = 0.0
    queue, waiting, busy_until, marking = deque(), 0.0, 0.0, False
    # Egress.
    received = received_before = 0.0
    arrived_before = stamp_before = sent_before = None
    output = accumulation = 0.0
    delay_min = None
    in_epoch = False
    last_negative = None
    feedback_sequence = 0
    # Statistics.
    area = greatest = served = 0.0
    changed = warmup
    epochs = 0

    def note(now, size):
        nonlocal area, changed, waiting, greatest
        if now > warmup:
            area += waiting * (now - changed)
            changed = now
        waiting += size
        if now > warmup:
            greatest = max(greatest, waiting)

    def serve(now):
        nonlocal busy_until, marking
        # EEC: marks what departs while more than N sigma waits behind it when its service begins.
        marking = scheme == "eec" and waiting - queue[0][0] > sigma
        busy_until = now + queue[0][0] / capacity
        at(busy_until, "served")

    at(0.0, "control")
    at(0.0, "release")
    at(next_round, "round")
    while events:
        now, _, what, data = heapq.heappop(events)
        if now > duration:
            break
        if what == "release":
            # Ahead of the packet: behind it the control packet would wait for it, and never see the least delay.
            if now - last_control >= (round_trip or 0.05) / 2:
                last_control = now
                at(now + to_bottleneck, "queue", control, (now, sent, round_trip))
            sent += packet
            at(now + to_bottleneck, "queue", packet, None)
            at(now + packet / rate, "release")
        elif what == "control":
            at(now + to_bottleneck, "queue", control, (now, sent, round_trip))
        elif what == "queue":
            note(now, data[0])
            queue.append(data)
            if len(queue) == 1:
                serve(now)
        elif what == "served":
            size, message = queue.popleft()
            if now > warmup:
                served += size
            marked = marking
            note(now, -size)
            at(now + beyond, "egress", size, message, marked)
            if queue:
                serve(now)
        elif what == "egress":
            size, message, marked = data
            negative = False
            if message is None:
                received += size
                if scheme == "eec":
                    in_epoch = marked
                    known = round_trip or 0.05
                    negative = (
                        marked and output > 0 and (last_negative is None or now - last_negative >= known)
                    )
            else:
                stamp, total, known = message
                delay = now - stamp
                delay_min = delay if delay_min is None else min(delay, delay_min)
                if arrived_before is None:
                    at(now + one_way, "feedback", stamp, None)
                else:
                    measured = (received - received_before) / (now - arrived_before)
                    output = measured if output == 0.0 else (output + measured) / 2
                    lam, tau = (total - sent_before) / (stamp - stamp_before), stamp - stamp_before
                    accumulation = max(0.0, accumulation + (lam - measured) * tau)
                    if scheme == "iec" and output > 0:
                        near = delay - delay_min <= sigma / (2 * output)
                        if in_epoch and near:
                            in_epoch, accumulation = False, 0.0
                        elif not in_epoch and accumulation > sigma and not near:
                            in_epoch = True
                            epochs += now > warmup
                        spaced = last_negative is None or now - last_negative >= 0.75 * (known or 0.05)
                        negative = in_epoch and spaced
                arrived_before, stamp_before, sent_before, received_before = now, stamp, total, received
            if negative:
                last_negative = now
                at(now + one_way, "feedback", stamp_before + now - arrived_before, output)
        elif what == "feedback":
            stamp, explicit = data
            sample = now - stamp
            round_trip = sample if round_trip is None else (round_trip + sample) / 2
            if explicit is not None:
                slow_start = False
                rate = max(beta * explicit, sigma)
                feedback_sequence += 1
                next_round = now + 1.5 * round_trip
                at(next_round, "round")
        elif what == "round" and now >= next_round:
            if round_trip is not None:
                rate = 2**0.25 * rate if slow_start else rate + sigma / round_trip
            next_round = now + (round_trip or 0.05) / (4 if slow_start and round_trip else 1)
            at(next_round, "round")
    return {
        "utilization": served / capacity / (duration - warmup),
        "mean_queue_bytes": area / (duration - warmup),
        "max_queue_bytes": greatest,
    }


CASES = [(scheme, mbps, ms) for scheme in ("iec", "eec") for mbps in (2, 10, 50) for ms in (5, 12, 40)]


def verdicts():
    results = []
    for scheme, mbps, ms in CASES:
        outcome = run(scheme, mbps * 1e6 / 8, ms / 1e3)
        results.append({"scheme": scheme, "mbps": mbps, "one_way_ms": ms, **outcome})
    return {"bound_n_sigma": steady_queue_bound(), "cases": results}


if __name__ == "__main__":
    print(json.dumps(verdicts(), indent=1))
