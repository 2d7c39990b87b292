"""A learning environment: an agent sets windows, sending rates or drop probabilities, step by step.

It needs Gymnasium: `.venv/bin/pip install -e '.[gym]'` in a checkout, where `make build` has not brought it.

    import gymnasium as gym
    import tidegate.gym

    env = gym.make("tidegate/Window-v0")
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())

Three environments, which differ in what the agent sets; an action has one value for each place:

tidegate/Window-v0    congestion windows of TCP flows, in segments
tidegate/Rate-v0      sending rates of TCP flows, in payload bits per second
tidegate/Drop-v0      drop (or mark) probabilities of queues

What is seen are series as `record` names them; `env.unwrapped.names` says which, each with its unit. See
docs/gym.md.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from numbers import Real
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate import _core, errors, quantities, reach
from tidegate.builder import Scenario, toml_value

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as missing:
    raise errors.MissingExtraError("learning needs gymnasium: pip install 'tidegate[gym]'") from missing

Observation = NDArray[np.float32]
Reward = Callable[[Mapping[str, float]], float]

_SEEN = {
    "window": ("throughput_bps", "srtt_ms", "lost_ratio", "in_flight_bytes", "cwnd_segments"),
    "rate": ("throughput_bps", "srtt_ms", "lost_ratio", "in_flight_bytes", "sent_bps"),
    "drop": ("throughput_bps", "utilization", "queue_packets", "queue_bytes", "dropped_ratio"),
}
# The least and the largest value that an agent may set.
_RANGE = {"window": (1.0, 1000.0), "rate": (10e3, 10e3), "drop": (0.0, 1.0)}
# Above what any run shows: learning libraries ask for finite bounds.
_SEEN_MAX = {
    "ratio": 1.0,
    "utilization": 1.0,
    "ms": 1e7,
    "segments": 1e7,
    "packets": 1e9,
    "bytes": 1e12,
    "bps": 1e13,
}
_SEEN_ANY = 1e13


def dumbbell(
    flows: int = 1,
    rate: str = "10Mbit",
    delay: str = "20ms",
    limit: str = "100p",
    duration: str = "30s",
) -> Scenario:
    """Flows `flow1`, `flow2`, ... that share the link `bottleneck`; `delay` is one way, without the queue."""
    built = Scenario(title="Dumbbell", duration=duration)
    for number in range(1, flows + 1):
        built.hosts(f"S{number}", f"D{number}")
    built.routers("A", "B")
    built.link("A", "B", rate, delay, {"kind": "droptail", "limit": limit}, name="bottleneck")
    for number in range(1, flows + 1):
        # Fast enough to keep nobody waiting.
        built.link(f"S{number}", "A", "10Gbit", "10us").link("B", f"D{number}", "10Gbit", "10us")
        transport = {"kind": "tcp", "profile": "modern"}
        built.flow(f"flow{number}", f"S{number}", f"D{number}", transport)
    return built


class NetworkEnv(gymnasium.Env[Observation, NDArray[np.float32]]):
    """A scenario as an environment: one step is `step` of simulated time, an episode is its duration.

    An action has one number for each place. Outside of the bounds of `action_space` the nearest bound is set,
    as learners with a normal distribution count on; `gymnasium.error.InvalidAction` for another shape, for
    NaN and for what is infinite.

    - `control`: `"window"`, `"rate"` or `"drop"`, what the agent sets.
    - `at`: where, patterns of TCP flows or of links (`"bottleneck"`, `"bottleneck.reverse"`). Default: all
      TCP flows, or the link `bottleneck`.
    - `scenario`: a file or a `tidegate.Scenario`. Default: `dumbbell()`. Its own `record` is replaced.
    - `observe`: patterns of series, as in `record`. Default: what is usual of the places in `at`.
    - `reward`: what an observation, by names, is worth. Default: see docs/gym.md.
    - `step`: how long a step is; the duration is a multiple of it.
    - `high`: the largest value of an action. Default: 1000 segments, twice the rate of the slowest link,
      probability 1.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        control: str = "window",
        at: str | Sequence[str] | None = None,
        scenario: Scenario | str | PathLike[str] | None = None,
        step: str = "100ms",
        observe: str | Sequence[str] | None = None,
        reward: Reward | None = None,
        high: float | None = None,
        render_mode: str | None = None,
    ):
        if control not in _SEEN:
            raise errors.UsageError(f"control = {control!r}: expected window, rate or drop")
        if render_mode is not None:
            raise errors.UsageError(f"render_mode = {render_mode!r}: there is nothing to show; expected None")
        if reward is not None and not callable(reward):
            raise errors.UsageError(f"reward = {reward!r}: expected a function of an observation by names")
        _require_texts(at=at, observe=observe)
        self.render_mode = render_mode
        self._control = control
        source = dumbbell() if scenario is None else scenario
        plain = _load(source, [])
        _require_steps(plain, step)
        places = _places(plain, control, [at] if isinstance(at, str) else at)
        of = "links" if control == "drop" else "flows"
        usual = [f"{of}.{place}.{quantity}" for place in places for quantity in _SEEN[control]]
        record = {"every": step, "series": [observe] if isinstance(observe, str) else list(observe or usual)}
        self._scenario = _load(source, [("record", toml_value(record))])
        self._handles = [(control, place) for place in places]
        self._run = _core.AgentRun(self._scenario, self._handles, 0)
        self.names: list[str] = list(self._run.names)
        self._reward = reward
        self._usual = self._usual_reward()
        low, most = _RANGE[control]
        if control == "rate":
            most = 2.0 * min(link["rate_bps"] for link in _links(self._scenario))
        if high is not None:
            most = _most(control, high, low)
        self.action_space = spaces.Box(low, most, (len(places),), np.float32)
        units = [name.rsplit(".", 1)[-1].rsplit("_", 1)[-1] for name in self.names]
        bounds = np.array([_SEEN_MAX.get(unit, _SEEN_ANY) for unit in units], np.float32)
        # What has no unit may be below zero.
        least = np.array([0 if unit in _SEEN_MAX else -_SEEN_ANY for unit in units], np.float32)
        self.observation_space = spaces.Box(least, bounds, dtype=np.float32)
        self._ended = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a new episode.

        The same `seed` gives the same episodes, in the same order; what is seen begins with zeros.
        """
        super().reset(seed=seed)
        run_seed = int(self.np_random.integers(1 << 63))
        self._run = _core.AgentRun(self._scenario, self._handles, run_seed)
        self._ended = False
        self._srtt_min = np.inf
        return np.zeros(len(self.names), np.float32), {"time_s": 0.0, "seed": run_seed}

    def step(self, action: NDArray[np.float32]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Set what the agent sets, run on for a step of simulated time, look.

        `truncated` at the end of the scenario.
        """
        if self._ended:
            raise gymnasium.error.ResetNeeded("the episode is over, or has not begun: call reset()")
        seen = np.empty(len(self.names), np.float32)
        self._ended = self._run.step(self._settings(action), seen)
        np.clip(seen, self.observation_space.low, self.observation_space.high, out=seen)
        reward = (
            self._usual(seen)
            if self._reward is None
            else self._reward(dict(zip(self.names, seen.tolist(), strict=True)))
        )
        return seen, float(reward), False, self._ended, {"time_s": self._run.now_s}

    def _settings(self, action: NDArray[np.float32]) -> NDArray[np.float64]:
        """An action as the run takes it: one finite number for each place, within the bounds."""
        space = self.action_space
        given = np.asarray(action, np.float64)
        if given.shape != space.shape:
            raise gymnasium.error.InvalidAction(
                f"an action of shape {given.shape}: it has one number for each of {len(self._handles)} "
                f"places, shape {space.shape}: {', '.join(place for _, place in self._handles)}"
            )
        if not np.isfinite(given).all():
            raise gymnasium.error.InvalidAction(f"the action {given.tolist()} is not finite")
        return np.ascontiguousarray(np.clip(given, space.low.astype(float), space.high.astype(float)))

    def _usual_reward(self) -> Callable[[Observation], float]:
        """The reward of those who bring none."""

        def columns(quantity: str) -> NDArray[np.intp]:
            return np.array(
                [i for i, name in enumerate(self.names) if name.endswith(f".{quantity}")], np.intp
            )

        throughput, srtt, lost = columns("throughput_bps"), columns("srtt_ms"), columns("lost_ratio")
        utilization, queue = columns("utilization"), columns("queue_bytes")
        if self._control == "drop":
            rates = {link["name"]: link["rate_bps"] for link in _links(self._scenario)}
            rate = np.array([rates[self.names[i].split(".")[1]] for i in queue])

            def of_queue(seen: Observation) -> float:
                # A tenth of a second of queue is worth a tenth of the link.
                delay_s = seen[queue] * 8 / rate
                return float(seen[utilization].sum() - delay_s.sum()) / max(len(queue), 1)

            return of_queue

        def of_flows(seen: Observation) -> float:
            reward = float(np.log(np.maximum(seen[throughput], 1e3) / 1e6).mean()) if len(throughput) else 0.0
            measured = seen[srtt]
            if len(measured) and measured.all():
                self._srtt_min = min(self._srtt_min, float(measured.min()))
                reward -= 0.5 * (float(measured.mean()) / self._srtt_min - 1)
            return reward - 10 * float(seen[lost].mean()) if len(lost) else reward

        return of_flows


def _load(source: Scenario | str | PathLike[str], overrides: Sequence[tuple[str, str]]) -> _core.Scenario:
    """The scenario of `source` under overrides."""
    if isinstance(source, Scenario):
        return _core.Scenario.from_text(
            source.to_toml(), str(source.table.get("title") or "scenario"), list(overrides)
        )
    return _core.Scenario.from_file(fspath(source), list(overrides), reach.of(Path(source)))


def _require_texts(**patterns: str | Sequence[str] | None) -> None:
    """Refuse what is neither a pattern nor a list of them."""
    for name, given in patterns.items():
        each = given if isinstance(given, list | tuple) else [given]
        if given is not None and not all(isinstance(one, str) for one in each):
            raise errors.UsageError(f"{name} = {given!r}: expected a pattern of names, or a list of them")


def _require_steps(scenario: _core.Scenario, step: str) -> None:
    """Refuse a step that is no time, or does not divide the duration, whose rest would be lost."""
    value, unit = (quantities.parse(step) if isinstance(step, str) else None) or (0.0, "")
    duration, every = round(1e9 * scenario.duration_s), round(1e9 * value)
    if unit != "s" or every < 1:
        raise errors.UsageError(f"step = {step!r}: expected a time above zero with its unit, like '100ms'")
    if duration % every:
        raise errors.UsageError(
            f"step = {step!r} does not divide the duration of the scenario, {scenario.duration_s:g} s: the "
            "last action of an episode would have no observation; give a step of which it is a multiple"
        )


def _most(control: str, high: float, low: float) -> float:
    """The largest value of an action as it was asked for."""
    most = 1.0 if control == "drop" else np.inf
    if not isinstance(high, Real) or not (low < high < np.inf and high <= most):
        up_to = f", up to {most:g}" if most < np.inf else ""
        raise errors.UsageError(f"high = {high!r}: expected a number above the least one, {low:g}{up_to}")
    return high


def _describe(scenario: _core.Scenario) -> dict[str, Any]:
    return json.loads(scenario.to_json())


def _links(scenario: _core.Scenario) -> list[dict[str, Any]]:
    """Both directions of each link, with `name` and `rate_bps`."""
    sides = []
    for link in _describe(scenario)["links"]:
        sides.append({"name": link["name"], **link["forward"]})
        sides.append({"name": f"{link['name']}.reverse", **link["reverse"]})
    return sides


def _places(scenario: _core.Scenario, control: str, patterns: Sequence[str] | None) -> list[str]:
    """The names of flows or links that `patterns` choose."""
    if control == "drop":
        known = [link["name"] for link in _links(scenario)]
        what, patterns = "link", patterns or ["bottleneck"]
    else:
        known = [flow["name"] for flow in _describe(scenario)["flows"] if flow["transport"]["kind"] == "tcp"]
        what, patterns = "TCP flow", patterns or ["*"]
    found = [name for name in known if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if not found:
        raise errors.UsageError(
            f"there is no {what} {' or '.join(patterns)}; there are: {', '.join(known) or 'none'}"
        )
    return found


for _control in _SEEN:
    gymnasium.register(
        id=f"tidegate/{_control.capitalize()}-v0",
        entry_point="tidegate.gym:NetworkEnv",
        kwargs={"control": _control},
    )
