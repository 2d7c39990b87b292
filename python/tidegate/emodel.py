"""How good a call is: the E-model of ITU-T G.107, and what a packet network adds to it.

The E-model rates a telephone connection from mouth to ear, R = Ro - Is - Id - Ie,eff + A from 0 to 100, and
gives a mean opinion score (MOS) from 1 to 4.5 for it. Each term is one kind of impairment: noise, what is
heard at the same time as speech, delay and echo, coding and losses. It is for narrow-band telephony (300 to
3400 Hz).

Source: ITU-T G.107 (06/2015); numbers of equations are of that edition. Codecs: ITU-T G.113, Appendix I,
Table I.4. Parameters have the symbols of the recommendation, and its units: dB, ms, percent.
Deviations: LSTR is STMR + Dr, as Table 3 has it. Equations 7-23 and 7-24 are for sidetone outside of the
range of Table 3, which is refused here. MOS stays at 1 where equation B-4 dips to 0.99 (R below 6.5).
"""

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

# What Table 3 permits, with unit and meaning.
RANGES: dict[str, tuple[float, float, str, str]] = {
    "SLR": (0, 18, "dB", "send loudness rating"),
    "RLR": (-5, 14, "dB", "receive loudness rating"),
    "STMR": (10, 20, "dB", "sidetone masking rating"),
    "Ds": (-3, 3, "dB", "D-value of the telephone, send side"),
    "Dr": (-3, 3, "dB", "D-value of the telephone, receive side"),
    "TELR": (5, 65, "dB", "talker echo loudness rating"),
    "WEPL": (5, 110, "dB", "weighted echo path loss"),
    "T": (0, 500, "ms", "mean one-way delay of the echo path"),
    "Tr": (0, 1000, "ms", "round-trip delay in a four-wire loop"),
    "Ta": (0, 500, "ms", "absolute delay from mouth to ear"),
    "sT": (0.4, 1, "", "sensitivity to delay"),
    "mT": (20, 150, "ms", "least delay that is perceived"),
    "qdu": (1, 14, "", "units of quantization distortion"),
    "Ie": (0, 40, "", "equipment impairment factor"),
    "Bpl": (4.3, 40, "", "robustness to packet loss"),
    "Ppl": (0, 20, "%", "random packet loss"),
    "BurstR": (1, 8, "", "burst ratio"),
    "Nc": (-80, -40, "dBm0p", "circuit noise"),
    "Nfor": (-64, -64, "dBmp", "noise floor at the receiver"),
    "Ps": (35, 85, "dB(A)", "room noise at the sender"),
    "Pr": (35, 85, "dB(A)", "room noise at the receiver"),
    "A": (0, 20, "", "advantage of access"),
}
# What a network does to a call, with the worst that the formulas take: beyond Table 3 they saturate.
_OF_NETWORK = {"T": math.inf, "Tr": math.inf, "Ta": math.inf, "Ppl": 100.0}


@dataclass(frozen=True)
class Parameters:
    """All inputs of the E-model with the defaults of Table 3, by which R is 93.2."""

    SLR: float = 8
    RLR: float = 2
    STMR: float = 15
    Ds: float = 3
    Dr: float = 3
    TELR: float = 65
    WEPL: float = 110
    T: float = 0
    Tr: float = 0
    Ta: float = 0
    sT: float = 1
    mT: float = 100
    qdu: float = 1
    Ie: float = 0
    Bpl: float = 4.3
    Ppl: float = 0
    BurstR: float = 1
    Nc: float = -70
    Nfor: float = -64
    Ps: float = 35
    Pr: float = 35
    A: float = 0

    def require(self, is_extrapolated: bool = False) -> None:
        """`ValueError` for what Table 3 does not permit; `is_extrapolated` lets delay and loss be worse."""
        for each in fields(self):
            value = getattr(self, each.name)
            low, high, unit, meaning = RANGES[each.name]
            worst = _OF_NETWORK.get(each.name, high) if is_extrapolated else high
            if not (low <= value <= worst and math.isfinite(value)):
                allowed = f"is {low:g}" if low == worst else f"may be {low:g} to {worst:g}"
                raise ValueError(
                    f"{each.name} ({meaning}) {allowed}{' ' * bool(unit)}{unit}, not {value:g}: the E-model "
                    "is made for what ITU-T G.107, Table 3 permits"
                )


class Rating(NamedTuple):
    """The terms of R, by which one sees what costs how much."""

    Ro: float
    Is: float
    Id: float
    Ie_eff: float
    A: float

    @property
    def R(self) -> float:  # noqa: N802
        """The transmission rating factor, equation 7-1; not below 0."""
        return max(0.0, self.Ro - self.Is - self.Id - self.Ie_eff + self.A)

    @property
    def mos(self) -> float:
        """The estimated mean opinion score of a conversation (MOS-CQE)."""
        return mos(self.R)


def rating(parameters: Parameters, is_extrapolated: bool = False) -> Rating:
    """R and its terms. `ValueError` outside of Table 3; see `Parameters.require`."""
    p = parameters
    p.require(is_extrapolated)
    No = _noise(p)
    Ro = 15 - 1.5 * (p.SLR + No)  # 7-2
    # 7-8: what is heard at the same time as speech.
    Is = _loudness(p, No) + _sidetone(p) + _quantization(p, Ro)
    # 7-18: echo to the talker, echo to the listener, delay itself.
    Id = _talker_echo(p, No) + _listener_echo(p, Ro) + absolute_delay(p.Ta, p.sT, p.mT)
    return Rating(Ro, Is, Id, effective_equipment(p.Ie, p.Bpl, p.Ppl, p.BurstR), p.A)


def absolute_delay(Ta: float, sT: float = 1, mT: float = 100) -> float:
    """Idd: what `Ta` ms from mouth to ear cost without any echo. Equations 7-27, 7-28."""
    if Ta <= mT:
        return 0.0
    X = math.log2(Ta / mT)
    power = 6 * sT
    return 25 * (_norm(X, power) - 3 * _norm(X / 3, power) + 2)


def effective_equipment(Ie: float, Bpl: float, Ppl: float, BurstR: float = 1) -> float:
    """Ie,eff: coding, and `Ppl` percent of packets lost. Equation 7-29."""
    return Ie + (95 - Ie) * Ppl / (Ppl / BurstR + Bpl)


def mos(R: float) -> float:
    """The mean opinion score of a rating, 1 to 4.5. Equation B-4."""
    if R <= 0:
        return 1.0
    if R >= 100:
        return 4.5
    return max(1.0, 1 + 0.035 * R + R * (R - 60) * (100 - R) * 7e-6)


def r_of_mos(score: float) -> float:
    """The rating of a mean opinion score from 1 to 4.5: 6.5 to 100. Equations I-1 to I-3."""
    if not 1 <= score <= 4.5:
        raise ValueError(
            f"a mean opinion score of the E-model is 1 to 4.5, not {score:g} (ITU-T G.107, Appendix I)"
        )
    h = math.atan2(15 * math.sqrt(-903_522 + 1_113_960 * score - 202_500 * score**2), 18_566 - 6_750 * score)
    return 20 / 3 * (8 - math.sqrt(226) * math.cos(h / 3 + math.pi / 3))


def good_or_better(R: float) -> float:
    """The percentage of people who would call a connection good or excellent. Equation B-1."""
    return 100 * _normal((R - 60) / 16)


def poor_or_worse(R: float) -> float:
    """The percentage of people who would call it poor or bad. Equation B-2."""
    return 100 * _normal((45 - R) / 16)


class Codec(NamedTuple):
    """What G.113 says of a codec, and how long it takes.

    `packet_ms` is what a packet holds of speech, `ahead_ms` what coding or concealment looks ahead.
    """

    Ie: float
    Bpl: float
    packet_ms: float
    ahead_ms: float


# Ie and Bpl: G.113, Table I.4. Looking ahead: G.711, Appendix I; G.729, section 2.1; G.723.1, section 1.
CODECS: dict[str, Codec] = {
    "G.711": Codec(0, 25.1, 20, 3.75),
    "G.711 without PLC": Codec(0, 4.3, 20, 0),
    "G.729A": Codec(11, 19.0, 20, 5),
    "G.723.1": Codec(15, 16.1, 30, 7.5),
    "GSM-EFR": Codec(5, 10.0, 20, 0),
}
PACKET_MS_MAX = 200.0


def call(network_ms: float, loss: float, codec: str = "G.711", packet_ms: float | None = None) -> Rating:
    """The rating of a call over packets.

    `network_ms` is from sending to play-out, `loss` the part (0 to 1) of packets that are not played, lost at
    random. Echo comes back over the same path (T = Ta = Tr / 2), as weak as Table 3 has it. Where a network
    is worse than Table 3, the formulas go on. `ValueError` for another codec, a packet without speech.
    """
    if codec not in CODECS:
        raise ValueError(
            f"no codec {codec!r}; there are {', '.join(CODECS)}: those of narrow-band telephony whose "
            "robustness to loss ITU-T G.113 knows"
        )
    chosen = CODECS[codec]
    packet = chosen.packet_ms if packet_ms is None else packet_ms
    if not 0 < packet <= PACKET_MS_MAX:
        raise ValueError(
            f"a packet holds more than 0 and at most {PACKET_MS_MAX:g} ms of speech, not {packet:g} ms"
        )
    if not 0 <= loss <= 1:
        raise ValueError(f"the part of packets that are lost is 0 to 1, not {loss:g}")
    Ta = packet + chosen.ahead_ms + network_ms
    return rating(
        Parameters(T=Ta, Tr=2 * Ta, Ta=Ta, Ie=chosen.Ie, Bpl=chosen.Bpl, Ppl=100 * loss), is_extrapolated=True
    )


def _noise(p: Parameters) -> float:
    """No: all noise, as power at the 0 dBr point. Equations 7-3 to 7-7."""
    Nos = p.Ps - p.SLR - p.Ds - 100 + 0.004 * (p.Ps - (p.SLR + p.RLR) - p.Ds - 14) ** 2  # 7-4
    LSTR = p.STMR + p.Dr
    Pre = p.Pr + 10 * math.log10(1 + 10 ** ((10 - LSTR) / 10))  # 7-6
    Nor = p.RLR - 121 + Pre + 0.008 * (Pre - 35) ** 2  # 7-5
    Nfo = p.Nfor + p.RLR  # 7-7
    return 10 * math.log10(sum(10 ** (level / 10) for level in (p.Nc, Nos, Nor, Nfo)))  # 7-3


def _loudness(p: Parameters, No: float) -> float:
    """Iolr: too loud. Equations 7-9, 7-10."""
    Xolr = p.SLR + p.RLR + 0.2 * (64 + No - p.RLR)
    return 20 * (_norm(Xolr / 8, 8) - Xolr / 8)


def _sidetone(p: Parameters) -> float:
    """Ist: one's own voice in the ear. Equations 7-11, 7-12."""
    STMRo = -10 * math.log10(10 ** (-p.STMR / 10) + math.exp(-p.T / 4) * 10 ** (-p.TELR / 10))
    return (
        12 * _norm((STMRo - 13) / 6, 8)
        - 28 * _norm((STMRo + 1) / 19.4, 35)
        - 13 * _norm((STMRo - 3) / 33, 13)
        + 29
    )


def _quantization(p: Parameters, Ro: float) -> float:
    """Iq: noise of coding and decoding. Equations 7-13 to 7-17."""
    Q = 37 - 15 * math.log10(p.qdu)
    G = 1.07 + 0.258 * Q + 0.0602 * Q**2
    Z = 46 / 30 - G / 40
    Y = (Ro - 100) / 15 + 46 / 8.4 - G / 9
    return 15 * math.log10(1 + 10**Y + 10**Z)


def _talker_echo(p: Parameters, No: float) -> float:
    """Idte: one's own voice comes back. Equations 7-19 to 7-22; sooner than 1 ms it is sidetone."""
    if p.T < 1:
        return 0.0
    TERV = p.TELR - 40 * math.log10((1 + p.T / 10) / (1 + p.T / 150)) + 6 * math.exp(-0.3 * p.T**2)
    Re = 80 + 2.5 * (TERV - 14)
    Roe = -1.5 * (No - p.RLR)
    return ((Roe - Re) / 2 + math.sqrt((Roe - Re) ** 2 / 4 + 100) - 1) * (1 - math.exp(-p.T))


def _listener_echo(p: Parameters, Ro: float) -> float:
    """Idle: the other's voice comes twice. Equations 7-25, 7-26."""
    Rle = 10.5 * (p.WEPL + 7) * (p.Tr + 1) ** -0.25
    return (Ro - Rle) / 2 + math.sqrt((Ro - Rle) ** 2 / 4 + 169)


def _norm(x: float, power: float) -> float:
    """What most equations bend with: (1 + x^n)^(1/n)."""
    return float((1 + x**power) ** (1 / power))


def _normal(x: float) -> float:
    """The normal distribution. Equation B-3."""
    return 0.5 * math.erfc(-x / math.sqrt(2))
