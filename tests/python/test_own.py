"""Mechanisms in Python, and the environment for agents that learn."""

import runpy
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

import tidegate
from tidegate import errors

pytestmark = pytest.mark.real_core
ROOT = Path(__file__).parents[2]


def dumbbell(**queue):
    s = tidegate.Scenario(duration="10s", warmup="1s").hosts("A", "B", "C").routers("R")
    s.link("A", "R", "100Mbit", "1ms").link("B", "R", "100Mbit", "1ms")
    s.link("R", "C", "5Mbit", "10ms", {"kind": "droptail", "limit": "50p"} | queue, name="bottleneck")
    tcp = {"kind": "tcp", "ecn": True, "control": "reno"}
    return (
        s.flow("one", "A", "C", tcp)
        .flow("two", "B", "C", "tcp")
        .flow("udp", "B", "C", "udp", {"kind": "cbr", "rate": "100kbit"})
    )


class DropTail(tidegate.QueueManager):
    limit_packets = 50


class Reno(tidegate.CongestionControl):
    """Additive increase, multiplicative decrease: not ns's Reno to the byte, but its kin."""

    def on_ack(self, ack, now):
        assert ack.delivered_bytes >= 0 and (ack.rtt is None or ack.rtt > 0.02)
        if ack.opens_window:
            self.cwnd_segments += ack.acked_bytes / 1460 / self.cwnd_segments

    def on_congestion(self, event, now):
        assert event.signal in ("loss", "timeout", "idle", "ecn")
        self.cwnd_segments = 1 if event.signal == "timeout" else max(2, event.window_segments / 2)


def test_a_manager_in_python_that_decides_as_ours_gives_the_same_bytes():
    ours, theirs = dumbbell().run(seed=3), dumbbell().run(seed=3, queues={"bottleneck": DropTail})
    assert ours.core.summary_json == theirs.core.summary_json


def test_hooks_are_called_in_order_with_what_they_should_see():
    seen = []

    class Watching(tidegate.QueueManager):
        def start(self, context):
            seen.append(("start", context))

        def on_arrival(self, packet, queue, now):
            seen.append(("arrival", now, queue.packets, packet.flow, packet.bytes, packet.is_reverse))

        def at_head(self, packet, queue, now):
            seen.append(("head", now, queue.packets, packet.arrived))
            return "accept"

        def on_departure(self, packet, queue, now):
            seen.append(("departure", now, queue.packets))

        def on_idle(self, now):
            seen.append(("idle", now))

        def timer_at(self):
            return 2.5 if not any(what[0] == "timer" for what in seen) else None

        def on_timer(self, now):
            seen.append(("timer", now))

    dumbbell().run(seed=1, queues={"bottleneck": Watching})
    context = seen[0][1]
    assert (context.place, context.link_rate_bps, context.mtu_bytes) == ("bottleneck", 5_000_000, 1500)
    assert {what[0] for what in seen} == {"start", "arrival", "head", "departure", "idle", "timer"}
    assert [what for what in seen if what[0] == "timer"] == [("timer", 2.5)]
    times = [what[1] for what in seen[1:] if what[0] != "timer"]
    assert times == sorted(times)
    heads = [what for what in seen if what[0] == "head"]
    assert all(queue >= 1 and arrived <= now for _, now, queue, arrived in heads)
    assert {what[3] for what in seen if what[0] == "arrival"} == {0, 1, 2}


def test_marks_reach_those_who_know_ecn_and_others_lose_the_packet():
    class Marks(tidegate.QueueManager):
        def on_arrival(self, packet, queue, now):
            return "mark" if queue.packets == 20 else None

    flows = dumbbell().run(seed=1, queues={"*": Marks}).flows
    assert flows["one"]["marked_packets"] > 0 and flows["one"]["lost_packets"] == 0
    assert flows["two"]["marked_packets"] == 0 and flows["two"]["lost_packets"] > 0


def test_a_control_in_python_shares_with_ours_and_paces():
    s = dumbbell()
    flows = s.run(seed=1, controls={"two": Reno}).flows
    rates = [flows[name]["throughput_bps"] for name in ("one", "two")]
    assert 4.5e6 < sum(rates) < 5e6 and min(rates) > 0.25 * max(rates)

    class Slow(tidegate.CongestionControl):
        pacing_bps = 1e6
        cwnd_segments = 1000.0

        def start(self, context):
            assert (context.place, context.segment_bytes) == ("two", 1460)

    goodput = s.run(seed=1, controls={"t?o": Slow}).flows["two"]["goodput_bps"]
    assert goodput == pytest.approx(1e6, rel=0.02)


def test_an_error_ends_the_run_with_its_traceback():
    class Breaks(tidegate.QueueManager):
        def on_arrival(self, packet, queue, now):
            if now > 1:
                return {}["gone"]

    with pytest.raises(KeyError, match="gone") as raised:
        dumbbell().run(queues={"bottleneck": Breaks})
    assert any(frame.name == "on_arrival" for frame in traceback.extract_tb(raised.tb))
    assert raised.value.__notes__ == ["raised by the queue manager of the link `bottleneck`"]

    class Odd(Reno):
        def on_ack(self, ack, now):
            raise ValueError("odd")

    with pytest.raises(ValueError, match="odd") as raised:
        dumbbell().run(controls={"two": Odd})
    assert raised.value.__notes__ == ["raised by the congestion control of the flow `two`"]


@pytest.mark.parametrize(
    ("base", "members", "words"),
    [
        (
            tidegate.QueueManager,
            {"on_arival": lambda *_: "drop"},
            r"Mine\.on_arival .* did you mean on_arrival\?",
        ),
        (tidegate.QueueManager, {"limit_packet": 5}, "did you mean limit_packets?"),
        (
            tidegate.CongestionControl,
            {"on_loss": lambda *_: None},
            "there are: on_ack, on_congestion, on_rec",
        ),
        (Reno, {"start": lambda self, _: setattr(self, "pacing_bp", 1e6)}, "did you mean pacing_bps?"),
    ],
)
def test_what_is_misspelt_does_not_do_nothing(base, members, words):
    place = {"bottleneck" if base is tidegate.QueueManager else "one": type("Mine", (base,), members)}
    with pytest.raises(errors.UsageError, match=words):
        dumbbell().run(**{"queues" if base is tidegate.QueueManager else "controls": place})


def test_names_of_ones_own_are_free():
    class Free(DropTail):
        _on_something = rest = starts = 3

    assert dumbbell().run(seed=1, queues={"bottleneck": Free}).flows


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"on_arrival": lambda *_: "droop"}, "a verdict is"),
        ({"on_arrival": lambda *_: 3}, "a verdict is"),
        ({"limit_packets": -1}, "must have room"),
        ({"timer_at": lambda self: float("nan")}, "no instant"),
        ({"timer_at": lambda self: 1.0}, "never end"),
        ({"start": lambda *_: 1 / 0}, "division"),
        ({"__init__": lambda *_: 1 / 0}, "division"),
    ],
)
def test_nonsense_of_a_manager_is_said(members, words):
    with pytest.raises((ValueError, OverflowError, ZeroDivisionError), match=words):
        dumbbell().run(queues={"bottleneck": type("Odd", (tidegate.QueueManager,), members)})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_window_that_is_no_number_is_said(value):
    with pytest.raises(ValueError, match="cwnd_segments is"):
        dumbbell().run(
            controls={
                "one": type(
                    "Odd", (Reno,), {"on_ack": lambda self, *_: setattr(self, "cwnd_segments", value)}
                )
            }
        )
    with pytest.raises(ValueError, match="pacing_bps is"):
        dumbbell().run(controls={"one": type("Odd", (Reno,), {"pacing_bps": -1.0})})


def test_places_that_do_not_exist_and_things_that_are_no_class_are_refused():
    with pytest.raises(errors.UsageError, match="there is no link 'bottlenek'; there are: A-R, A-R.reverse"):
        dumbbell().run(queues={"bottlenek": DropTail})
    with pytest.raises(errors.UsageError, match="there is no TCP flow 'udp'; there are: one, two"):
        dumbbell().run(controls={"udp": Reno})
    with pytest.raises(TypeError, match="expected a class"):
        dumbbell().run(queues={"bottleneck": DropTail()})
    with pytest.raises(TypeError, match=r"no tidegate\.QueueManager"):
        dumbbell().run(queues={"bottleneck": Reno})


def test_a_core_that_comes_too_late_is_refused():
    with pytest.raises(ImportError, match="too late"):
        tidegate.use_core(pytest)


class TestGym:
    @pytest.fixture(autouse=True)
    def gym(self):
        import gymnasium

        import tidegate.gym  # noqa: F401

        return gymnasium

    @pytest.mark.parametrize("name", ["Window", "Rate", "Drop"])
    def test_gymnasium_finds_nothing_wrong(self, gym, name):
        from gymnasium.utils.env_checker import check_env

        env = gym.make(f"tidegate/{name}-v0", scenario=tidegate.gym.dumbbell(flows=2, duration="3s"))
        with warnings.catch_warnings():
            # It recommends scaled actions, which RescaleAction makes.
            warnings.filterwarnings("ignore", message=".*symmetric and normalized.*")
            check_env(env.unwrapped)

    def test_the_same_seed_gives_the_same_episodes(self, gym):
        def episodes(seed):
            scenario = tidegate.gym.dumbbell(flows=2, duration="2s").flow(
                "noise", "S1", "D2", "udp", {"kind": "poisson", "rate": "2Mbit"}
            )
            env = gym.make("tidegate/Window-v0", scenario=scenario, at="flow*")
            rows = []
            for number in range(2):
                env.reset(seed=seed if number == 0 else None)
                ended = False
                while not ended:
                    seen, reward, terminated, ended, _ = env.step(np.array([20, 40], np.float32))
                    assert not terminated
                    rows.append([*seen.tolist(), reward])
            return rows

        first = episodes(7)
        assert len(first) == 40
        assert first == episodes(7)
        assert first != episodes(8)
        assert first[:20] != first[20:]

    def test_what_an_agent_sets_is_what_happens(self, gym):
        env = gym.make("tidegate/Window-v0", scenario=tidegate.gym.dumbbell(limit="500p"))
        env.reset(seed=1)
        rows = np.array([env.step(np.array([20], np.float32))[0] for _ in range(100)])
        seen = dict(zip(env.unwrapped.names, rows[20:].mean(axis=0).tolist(), strict=True))
        # 20 segments of 1500 bytes in 40 ms and the time to send two, which one acknowledgment answers.
        assert seen["flows.flow1.throughput_bps"] == pytest.approx(20 * 12_000 / 0.0425, rel=0.01)
        assert seen["flows.flow1.cwnd_segments"] == 20

        env = gym.make("tidegate/Rate-v0", scenario=tidegate.gym.dumbbell())
        env.reset(seed=1)
        for _ in range(20):
            seen, *_ = env.step(np.array([3e6], np.float32))
        assert seen[0] == pytest.approx(3e6 * 1500 / 1460, rel=0.02)

        scenario = tidegate.gym.dumbbell(flows=4)
        env = gym.make(
            "tidegate/Drop-v0",
            scenario=scenario,
            observe=["links.bottleneck.dropped_ratio", "flows.*.goodput_bps"],
        )
        env.reset(seed=1)
        ratios = [float(env.step(np.array([0.05], np.float32))[0][0]) for _ in range(200)]
        assert np.mean(ratios[20:]) == pytest.approx(0.05, rel=0.2)

    def test_rewards_of_ones_own_see_names(self, gym):
        env = gym.make("tidegate/Window-v0", reward=lambda seen: seen["flows.flow1.throughput_bps"] / 1e6)
        env.reset(seed=1)
        env.step(np.array([50], np.float32))
        seen, reward, *_ = env.step(np.array([50], np.float32))
        assert reward == pytest.approx(seen[0] / 1e6) and reward > 5

    def test_what_cannot_be_steered_is_said(self, gym):
        make = lambda name, **options: gym.make(f"tidegate/{name}-v0", **options)  # noqa: E731
        with pytest.raises(errors.UsageError, match="there is no TCP flow x; there are: flow1"):
            make("Window", at="x")
        scheduled = tidegate.gym.dumbbell()
        scheduled.table["links"]["bottleneck"]["queue"] = "drr"
        with pytest.raises(ValueError, match="only one FIFO"):
            make("Drop", scenario=scheduled)
        with pytest.raises(tidegate.ConfigError, match="there is no"):
            make("Window", observe=["flows.flow1.nonsense"])
        # One may stand without a list.
        assert make("Window", observe="flows.flow1.srtt_ms").unwrapped.names == ["flows.flow1.srtt_ms"]
        for given, says in (
            ({"step": "x"}, "step = 'x': expected a time above zero"),
            ({"step": 0.1}, "step = 0.1: expected a time"),
            ({"step": "0s"}, "step = '0s': expected a time"),
            ({"step": "10kB"}, "step = '10kB': expected a time"),
            ({"at": 3}, "at = 3: expected a pattern"),
            ({"observe": ["flows.*", 3]}, "observe = .*: expected a pattern"),
            ({"reward": 3}, "reward = 3: expected a function"),
            ({"high": "x"}, "high = 'x': expected a number above the least one, 1"),
        ):
            with pytest.raises(errors.UsageError, match=says):
                make("Window", **given)
        with pytest.raises(errors.UsageError, match="there is nothing to show"):
            tidegate.gym.NetworkEnv(render_mode="human")
        env = make("Window").unwrapped
        with pytest.raises(gym.error.ResetNeeded):
            env.step(np.array([1.0], np.float32))

    @pytest.mark.parametrize("step", ["300ms", "2s", "999999ns"])
    def test_a_step_divides_the_duration(self, gym, step):
        with pytest.raises(errors.UsageError, match="does not divide the duration of the scenario, 1 s"):
            gym.make("tidegate/Window-v0", step=step, scenario=tidegate.gym.dumbbell(duration="1s"))
        env = gym.make("tidegate/Window-v0", step="125ms", scenario=tidegate.gym.dumbbell(duration="1s"))
        env.reset(seed=1)
        ends = [env.step(np.array([5.0], np.float32))[3:] for _ in range(8)]
        assert [ended for ended, _ in ends] == [False] * 7 + [True]
        assert [info["time_s"] for _, info in ends] == [0.125 * number for number in range(1, 9)]

    def test_an_action_is_one_finite_number_for_each_place(self, gym):
        env = tidegate.gym.NetworkEnv(
            "window", scenario=tidegate.gym.dumbbell(flows=2, duration="2s"), high=50
        )
        env.reset(seed=1)
        for wrong in ([5.0], [5.0, 6.0, 7.0], [[5.0, 6.0]], 5.0):
            with pytest.raises(gym.error.InvalidAction, match="each of 2 places, .*flow1, flow2"):
                env.step(np.array(wrong))
        for wrong in (np.nan, np.inf, -np.inf):
            with pytest.raises(gym.error.InvalidAction, match="not finite"):
                env.step(np.array([5.0, wrong]))
        windows = [env.names.index(f"flows.flow{number}.cwnd_segments") for number in (1, 2)]
        # Nothing has happened yet; beyond the bounds the nearest one is set.
        assert env.step(np.array([-5.0, 1e9]))[4]["time_s"] == 0.1
        assert env.step(np.array([-5.0, 1e9]))[0][windows].tolist() == [1, 50]
        assert env.step(np.array([7.0, 0.0, 9.0, 0.0])[::2])[0][windows].tolist() == [7, 9]

    @pytest.mark.parametrize(
        ("name", "high", "says"),
        [("Window", 0, "least one, 1"), ("Drop", 2, "up to 1"), ("Rate", np.nan, "1")],
    )
    def test_the_largest_value_is_one(self, gym, name, high, says):
        with pytest.raises(errors.UsageError, match=f"expected a number above the .*{says}"):
            gym.make(f"tidegate/{name}-v0", high=high)

    def test_whatever_can_be_recorded_can_be_seen(self, gym):
        scenario = tidegate.gym.dumbbell(duration="1s")
        scenario.table["flows"]["flow1"]["transport"]["control"] = "bbr"
        scenario.table["links"]["bottleneck"]["queue"] = "red"
        scenario.flow("agent", "S1", "D1")
        seen = ["flows.flow1.*", "links.bottleneck.*"]
        env = gym.make("tidegate/Window-v0", scenario=scenario, at="agent", observe=seen)
        env.reset(seed=1)
        for _ in range(10):
            observation, *_ = env.step(np.array([5], np.float32))
            assert env.observation_space.contains(observation)
        assert len(env.unwrapped.names) > 20

    def test_many_at_once(self, gym):
        envs = gym.make_vec("tidegate/Window-v0", num_envs=3, scenario=tidegate.gym.dumbbell(duration="2s"))
        envs.reset(seed=1)
        seen, rewards, *_ = envs.step(np.full((3, 1), 30, np.float32))
        assert seen.shape == (3, 5) and rewards.shape == (3,)
        envs.close()

    def test_the_evolution_strategy_beats_the_best_fixed_window(self, gym):
        example = runpy.run_path(str(ROOT / "examples/gym/evolve.py"))
        trained, fixed = example["main"]()
        assert trained > fixed + 0.1
