"""Tables for people, JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import statistics
from dataclasses import dataclass, field

from . import judge, ours, theirs
from .packets import Divergence, Event
from .scenario import Scenario


@dataclass
class Finding:
    """A difference: of a counter (`verdict`), or of packets (`divergence`)."""

    scenario: Scenario
    verdict: judge.Verdict | None = None
    divergence: Divergence | None = None
    known: str | None = None
    cause: str = ""
    reduced: Scenario | None = None
    steps: list[str] = field(default_factory=list)
    first: Divergence | None = None
    files: list[str] = field(default_factory=list)
    note: str = ""

    @property
    def quantity(self) -> str:
        """What differs."""
        return self.verdict.quantity if self.verdict else "packets"

    def to_json(self) -> dict:
        """As a table of plain values."""
        return {
            "scenario": self.scenario.name,
            "quantity": self.quantity,
            "verdict": self.verdict and dataclasses.asdict(self.verdict),
            "divergence": self.divergence and str(self.divergence),
            "known": self.known,
            "cause": self.cause,
            "reduced": self.reduced and self.reduced.to_json(),
            "steps": self.steps,
            "first_diverging_packet": self.first and str(self.first),
            "files": self.files,
            "note": self.note,
        }


@dataclass
class Outcome:
    """All that a run of the tool found."""

    seed: int
    seeds: int
    scenarios: list[Scenario]
    verdicts: list[judge.Verdict]
    # Events that are the same, the first that is not, and whether ns-2's own order of ties gives the same.
    packets: dict[str, tuple[int, Divergence | None, bool]]
    # Discoveries before they were tried again with other seeds.
    suspected: int = 0
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    runs: int = 0

    @property
    def unexplained(self) -> list[Finding]:
        """What nobody has a cause for."""
        return [finding for finding in self.findings if not finding.known]

    @property
    def expected(self) -> int:
        """How many of the differences of counters may be false."""
        return math.floor(judge.FALSE_DISCOVERIES * sum(1 for finding in self.findings if finding.verdict))

    @property
    def is_good(self) -> bool:
        """Whether no more differences lack a cause than chance gives; one of packets is never chance."""
        return all(finding.verdict for finding in self.unexplained) and len(self.unexplained) <= self.expected


def groups(scenarios: list[Scenario]) -> dict[str, set[str]]:
    """Scenarios by what they have in common."""
    found: dict[str, set[str]] = {}
    for scenario in scenarios:
        variants = {flow.variant for flow in scenario.flows if flow.is_tcp}
        labels = [
            "all",
            scenario.hops[0].queue.kind,
            "dumbbell" if len(scenario.hops) == 1 else "parking lot",
        ]
        labels += [variants.pop()] if len(variants) == 1 else ["mixed variants"]
        labels += ["two-way"] if scenario.is_two_way else []
        labels += ["ECN"] if any(flow.ecn for flow in scenario.flows) else []
        labels += ["delayed ACKs"] if any(flow.delayed_ack for flow in scenario.flows) else []
        labels += ["datagrams"] if any(not flow.is_tcp for flow in scenario.flows) else []
        for label in labels:
            found.setdefault(label, set()).add(scenario.name)
    return found


def text(outcome: Outcome) -> str:
    """The report."""
    lines = [
        f"{len(outcome.scenarios)} scenarios (generator {outcome.seed}), {outcome.runs} runs, "
        f"{outcome.seconds:.0f} s",
        "",
        *_packets_table(outcome),
        "",
        *_quantities_table(outcome),
        "",
        *_pooled_table(outcome),
        "",
    ]
    confirmed = sum(1 for finding in outcome.findings if finding.verdict)
    lines.append(
        f"{outcome.suspected} of {len(outcome.verdicts)} comparisons of counters seemed to differ, "
        f"{confirmed} do so with other seeds as well."
    )
    for finding in outcome.findings:
        lines += ["", *_finding(finding)]
    lines += [
        "",
        f"{len(outcome.unexplained)} differences without a known cause, {outcome.expected} by chance.",
    ]
    return "\n".join(lines)


def save(outcome: Outcome, folder: pathlib.Path) -> None:
    """`report.json`, with all there is to know."""
    folder.mkdir(parents=True, exist_ok=True)
    table = {
        "seed": outcome.seed,
        "seeds": outcome.seeds,
        "runs": outcome.runs,
        "seconds": round(outcome.seconds, 1),
        "good": outcome.is_good,
        "suspected": outcome.suspected,
        "findings": [finding.to_json() for finding in outcome.findings],
        "packets": {
            name: {
                "events": events,
                "divergence": divergence and str(divergence),
                "same_with_ties_of_ns": same,
            }
            for name, (events, divergence, same) in outcome.packets.items()
        },
        "pooled": [
            dataclasses.asdict(row) for row in judge.pool(groups(outcome.scenarios), outcome.verdicts)
        ],
        "verdicts": [dataclasses.asdict(verdict) for verdict in outcome.verdicts],
        "scenarios": [scenario.to_json() for scenario in outcome.scenarios],
    }
    (folder / "report.json").write_text(json.dumps(table, indent=1))


def reproduce(
    finding: Finding,
    scenario: Scenario,
    seed: int,
    folder: pathlib.Path,
    mine: list[Event],
    other: list[Event],
) -> None:
    """The two files that show a difference, and the packets of both sides before it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenario.toml").write_text(ours.toml(scenario, seed))
    (folder / "network.tcl").write_text(
        theirs.tcl(scenario, seed, packets=bool(mine), exact=bool(mine), plain=not mine)
    )
    finding.files = [str(folder / "scenario.toml"), str(folder / "network.tcl")]
    if finding.first:
        around = range(max(finding.first.matched - 40, 0), finding.first.matched + 20)
        for name, events in (("tidegate.txt", mine), ("ns2.txt", other)):
            (folder / name).write_text("".join(f"{events[i]}\n" for i in around if i < len(events)))


def _packets_table(outcome: Outcome) -> list[str]:
    lines = [
        f"{'packet by packet':22} {'scenarios':>9} {'the same':>9} {'same events':>11} "
        f"{'with ties of ns-2':>18}"
    ]
    by_queue: dict[str, list[str]] = {}
    for scenario in outcome.scenarios:
        if scenario.name in outcome.packets:
            by_queue.setdefault(scenario.hops[0].queue.kind, []).append(scenario.name)
    for queue, names in sorted(by_queue.items()):
        found = [outcome.packets[name] for name in names]
        lines.append(
            f"{queue:22} {len(found):9} {sum(not d for _, d, _ in found):9} {sum(n for n, _, _ in found):11} "
            f"{sum(same for _, _, same in found):18}"
        )
    return lines


def _quantities_table(outcome: Outcome) -> list[str]:
    head = f"{f'counters, {outcome.seeds} seeds':22} {'compared':>9} {'the same':>9} {'open':>6}"
    lines = [f"{head} {'differ':>7} {'median':>8} {'nine in ten':>12} {'largest':>9} {'beyond 2 errors':>16}"]
    differ = {(finding.scenario.name, finding.quantity) for finding in outcome.findings}
    kinds = ["goodput.total", "goodput", "queue", "drops", "marks", "retransmissions"]
    for kind in kinds:
        found = [
            v
            for v in outcome.verdicts
            if v.quantity == kind or (v.quantity.split(".")[0] == kind != "goodput")
        ]
        if kind == "goodput":
            found = [v for v in outcome.verdicts if v.quantity.startswith("goodput.f")]
        if not found:
            continue
        sizes = sorted(abs(v.ours - v.theirs) / max(v.theirs, v.margin) for v in found)
        wide = [v for v in found if v.error > 0]
        beyond = sum(abs(v.ours - v.theirs) > 2 * v.error for v in wide) / max(len(wide), 1)
        different = sum((v.scenario, v.quantity) in differ for v in found)
        open_ = sum(not v.is_same and (v.scenario, v.quantity) not in differ for v in found)
        lines.append(
            f"{kind:22} {len(found):9} {sum(v.is_same for v in found):9} {open_:6} {different:7} "
            f"{100 * statistics.median(sizes):6.2f} % {100 * sizes[int(0.9 * (len(sizes) - 1))]:10.2f} % "
            f"{100 * sizes[-1]:7.1f} % {100 * beyond:14.1f} %"
        )
    return lines


def _pooled_table(outcome: Outcome) -> list[str]:
    rows = judge.pool(groups(outcome.scenarios), outcome.verdicts)
    chosen = judge.discoveries([row.p for row in rows]) if rows else []
    lines = [f"{'over all scenarios of a kind':22}  (* beyond chance; {sum(chosen)} of {len(rows)})"]
    for row, is_chosen in zip(rows, chosen, strict=True):
        if is_chosen or row.group == "all":
            lines.append(
                f"{row.group:22} {row.quantity:16} {row.scenarios:4} scenarios {100 * row.mean:+7.2f} +- "
                f"{100 * row.error:.2f} %{' *' if is_chosen else ''}"
            )
    return lines


def _finding(finding: Finding) -> list[str]:
    scenario = finding.scenario
    lines = [
        f"{scenario.name} {finding.quantity} ({scenario.hops[0].queue.kind}, {len(scenario.hops)} hops, "
        f"{len(scenario.flows)} flows): " + (f"known, {finding.known}" if finding.known else "NO KNOWN CAUSE")
    ]
    if finding.verdict:
        v = finding.verdict
        lines.append(
            f"  Tidegate {v.ours:.6g}, ns-2 {v.theirs:.6g}, {100 * v.relative:+.2f} %, "
            f"standard error {v.error:.3g}, margin {v.margin:.3g}, p {v.p_differs:.2g}"
        )
    if finding.divergence:
        lines += [f"  {line}" for line in str(finding.divergence).splitlines()]
    if finding.reduced:
        small = finding.reduced
        lines.append(
            f"  reduced to {len(small.hops)} hops, {len(small.flows)} flows, {small.stop / 1e9:g} s, "
            f"{small.hops[0].queue.kind}: {', '.join(finding.steps) or 'nothing could be left out'}"
        )
    if finding.first:
        lines += [f"  {line}" for line in str(finding.first).splitlines()]
    if finding.note:
        lines.append(f"  {finding.note}")
    lines += [f"  {name}" for name in finding.files]
    return lines
