"""How good a call is that a flow of a run carried: its delay and losses, rated by the E-model."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate import emodel
from tidegate.errors import LackingError, MeasureError, NoValueError
from tidegate.paths import matches, select, shown

CODEC = "G.711"
# What says that a receiver waits for as many packets as gives the best rating.
BEST = "best"
# For which part of the packets a receiver may wait, and which delay of a summary that is.
PLAY_OUT = {0.5: "p50", 0.95: "p95", 0.99: "p99", 1.0: "max"}


def ratings(
    path: str,
    summary: Mapping[str, Any],
    codec: str = CODEC,
    play_out: float | str = BEST,
    packet_ms: float | None = None,
) -> list[emodel.Rating]:
    """Ratings of the calls of all flows that `path` matches.

    `play_out` is for which part of the packets the receiver waits, and plays them all with the delay of the
    last of these: its jitter buffer. `BEST` is the best of them. `packet_ms` of speech are in a packet; None
    is the codec's own. `ValueError` for what codec and packet cannot be, `MeasureError` for what is missing.
    """
    if not matches(path, "flows.*"):
        raise MeasureError(f'flows carry calls: "flows.NAME", or a pattern of that, not {shown(path)}')
    if play_out != BEST and play_out not in PLAY_OUT:
        raise MeasureError(
            f'PLAY_OUT is "{BEST}", or for which part of the packets the receiver waits: '
            f"{', '.join(map(str, PLAY_OUT))}, not {play_out!r}: a summary has no other quantiles of delays"
        )
    waits = [each for each in PLAY_OUT if play_out in (BEST, each)]
    heard = [_heard(path, each, summary) for each in waits]
    return [
        max(
            (emodel.call(delay_ms, lost, codec, packet_ms) for delay_ms, lost in of_flow), key=lambda it: it.R
        )
        for of_flow in zip(*heard, strict=True)
    ]


def _heard(path: str, play_out: float, summary: Mapping[str, Any]) -> Sequence[tuple[float, float]]:
    """When packets of flows are played, in ms after they were sent, and the part of them that is not."""
    lost, largest = select(f"{path}.loss_ratio", summary), select(f"{path}.delay_ms.max", summary)
    try:
        played = select(f"{path}.delay_ms.{PLAY_OUT[play_out]}", summary)
    except NoValueError:
        raise
    except LackingError:
        played = []
    if len(played) != len(lost):
        raise LackingError(
            f'the distribution of delays of {path} is not recorded: record.delays = ["{path}"], or let the '
            "receiver wait for all packets, PLAY_OUT 1"
        )
    return [
        (at, _unheard(at, most, gone, play_out)) for at, most, gone in zip(played, largest, lost, strict=True)
    ]


def _unheard(played_ms: float, largest_ms: float, lost: float, play_out: float) -> float:
    """The part of packets that is lost on the way or late.

    None is late where none comes after those that are waited for, as without any queue; else as many as
    the quantile leaves, which is the most that can be.
    """
    late = 0.0 if played_ms >= largest_ms else 1 - play_out
    return 1 - (1 - lost) * (1 - late)
