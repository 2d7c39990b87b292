"""The phase of each sender's clock of 0.1 s: both sides must have the same, or their time-outs differ.

Tidegate draws it from a substream of the run (`crates/mechanism/src/random.rs`), ns-2 from its generator when
an agent is reset. Here the first is computed, and a seed is found with which ns-2 draws the same.
"""

from __future__ import annotations

import functools

import numpy

# The folder beside this one, as `python -m differential` sees it.
from python.siphash import siphash_1_3

U64 = (1 << 64) - 1
U128 = (1 << 128) - 1
TICK_NS = 100_000_000

# `SipHash` is keyed with this beside the seed of the run.
KEY = 0x7469_6465_6761_7465
PCG_MULTIPLIER = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645

# MRG32k3a, ns-2's generator: what its first draw makes of a seed.
M1, M2 = 4294967087, 4294944443
FIRST, SECOND = 1403580 - 810728, 527612 - 1370589
SEEDS = 1 << 20


def first_bits(seed: int) -> int:
    """The first 64 bits of Tidegate's substream of `seed`: PCG XSL 128/64 MCG, seeded as `rand_core` does."""
    words = []
    for _ in range(4):
        seed = (seed * 6364136223846793005 + 11634580027462260723) & U64
        mixed = (((seed >> 18) ^ seed) >> 27) & 0xFFFF_FFFF
        by = seed >> 59
        words.append(((mixed >> by) | (mixed << (32 - by))) & 0xFFFF_FFFF)
    state = sum(word << (32 * i) for i, word in enumerate(words)) | 1
    state = (state * PCG_MULTIPLIER) & U128
    by, mixed = state >> 122, ((state >> 64) ^ state) & U64
    return ((mixed >> by) | (mixed << (64 - by))) & U64


def phase_of_tidegate(seed: int, flow: str) -> int:
    """The phase, in nanoseconds, that Tidegate draws for `flow` in the run with `seed`."""
    bits = first_bits(siphash_1_3(seed, KEY, f"flows.{flow}.clock".encode()))
    return int((bits >> 11) * 2.0**-53 * TICK_NS)


def first_draw_of_ns(seeds: numpy.ndarray | int) -> numpy.ndarray | float:
    """The first uniform number that ns-2 draws after each seed, to nine digits."""
    return (FIRST * seeds % M1 - SECOND * seeds % M2) % M1 / (M1 + 1)


@functools.cache
def _draws_of_ns() -> tuple[numpy.ndarray, numpy.ndarray]:
    seeds = numpy.arange(1, SEEDS, dtype=numpy.int64)
    draws = first_draw_of_ns(seeds)
    order = numpy.argsort(draws)
    return draws[order], seeds[order]


def seed_of_ns(phase_ns: int) -> int:
    """A seed of ns-2 whose first uniform draw gives `phase_ns`, to a few tens of nanoseconds."""
    draws, seeds = _draws_of_ns()
    wanted = phase_ns / TICK_NS
    place = int(numpy.searchsorted(draws, wanted))
    near = [i for i in (place - 1, place) if 0 <= i < len(draws)]
    return int(seeds[min(near, key=lambda i: abs(draws[i] - wanted))])
