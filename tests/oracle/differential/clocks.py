"""The phase of each sender's clock of 0.1 s: both sides must have the same, or their time-outs differ.

Tidegate draws it from a substream of the run (`crates/mechanism/src/random.rs`), ns-2 from its generator when
an agent is reset. Here the first is computed, and a seed is found with which ns-2 draws the same.
"""

from __future__ import annotations

import functools

import numpy

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


def siphash13(key: tuple[int, int], data: bytes) -> int:
    """SipHash-1-3 of `data`."""
    k0, k1 = key
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def left(x: int, by: int) -> int:
        return ((x << by) | (x >> (64 - by))) & U64

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & U64
            v[1] = left(v[1], 13) ^ v[0]
            v[0] = left(v[0], 32)
            v[2] = (v[2] + v[3]) & U64
            v[3] = left(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & U64
            v[3] = left(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & U64
            v[1] = left(v[1], 17) ^ v[2]
            v[2] = left(v[2], 32)

    whole = len(data) // 8 * 8
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, whole, 8)]
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        rounds(1)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(3)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


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
    bits = first_bits(siphash13((seed, KEY), f"flows.{flow}.clock".encode()))
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
