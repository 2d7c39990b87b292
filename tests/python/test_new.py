"""`tidegate new`: whatever is asked for gives a valid scenario, whose queue suits its link."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

from tidegate import starter
from tidegate.errors import UsageError

pytestmark = pytest.mark.real_core


def read(core, text):
    return core.Scenario.from_text(text, "new.toml")


def described(core, text):
    return json.loads(read(core, text).to_json())


def shared(core, text):
    """One of the links that flows share."""
    names = ("shared", "r2-r3")
    (link,) = [one for one in described(core, text)["links"] if one["name"] in names]
    return link["forward"]


def require_suits(core, network, queue, control):
    for rate, delay in (("1Mbit", "2ms"), ("10Mbit", "10ms"), ("1Gbit", "50ms")):
        text = starter.text(network, rate=rate, delay=delay, queue=queue, control=control)
        assert read(core, text).warnings == [], text
        assert shared(core, text)["queue"]["kind"] == queue
        flows = described(core, text)["flows"]
        controls = {
            flow["transport"]["control"]["kind"] for flow in flows if flow["transport"]["kind"] == "tcp"
        }
        assert controls == {control}


@pytest.mark.parametrize("network", starter.Network)
def test_every_queue_is_valid_and_suits_its_link(core, network):
    listed = [each["kind"] for each in json.loads(core.list_mechanisms()) if each["family"] == "queue"]
    assert starter.queues() == tuple(listed) and {"cake", "fq-codel", "pie", "cbq"} < set(listed)
    for queue in listed:
        require_suits(core, network, queue, "cubic")


@pytest.mark.parametrize("network", starter.Network)
def test_every_control_is_valid_also_with_queues_that_mark(core, network):
    listed = [each["kind"] for each in json.loads(core.list_mechanisms()) if each["family"] == "control"]
    assert starter.controls() == tuple(listed) and {"vegas", "reserved", "prague"} < set(listed)
    for control in listed:
        for queue in ("droptail", "red"):
            require_suits(core, network, queue, control)


def test_marks_are_understood_where_the_queue_sets_them(core):
    def ecn(queue, control):
        text = starter.text("dumbbell", queue=queue, control=control)
        return described(core, text)["flows"][0]["transport"]["ecn"]

    assert (ecn("fq-codel", "cubic"), ecn("droptail", "cubic"), ecn("dualpi2", "prague")) == (
        True, False, ecn("droptail", "prague"),
    )  # fmt: skip


def test_what_is_asked_for_is_what_is_written(core):
    text = starter.text("parking-lot", rate="2.5 Mbit", delay="0s", flows=7, duration="1min")
    scenario, link = read(core, text), shared(core, text)
    assert (scenario.duration_s, scenario.warmup_s) == (60, 10)
    assert (link["rate_bps"], link["delay_s"]) == (2_500_000, 0)
    assert sum(flow["name"].startswith("long") for flow in described(core, text)["flows"]) == 7


@pytest.mark.parametrize("network", starter.Network)
def test_the_shared_links_are_what_holds_flows_up(core, network):
    text = starter.text(network, rate="2Mbit", flows=2, duration="12s")
    links = json.loads(core.run(read(core, text)).summary_json)["links"]
    busy = {name for name, link in links.items() if link["utilization"] > 0.9}
    expected = {
        starter.Network.dumbbell: {"shared"},
        starter.Network.parking_lot: {"r1-r2", "r2-r3", "r3-r4"},
        starter.Network.three_domains: {"shared", "narrow"},
    }
    assert busy == expected[network]


def test_a_stream_that_cannot_be_delivered_is_stopped_only_where_domains_trust_each_other(core):
    text = starter.text("three-domains", duration="20s")

    def tcp(*overrides):
        scenario = core.Scenario.from_text(text, "new.toml", list(overrides))
        flows = json.loads(core.run(scenario).summary_json)["flows"]
        return sum(flow["throughput_bps"] for name, flow in flows.items() if name.startswith("tcp")) / 1e6

    free = [(f"domains.{name}.mechanism", "none") for name in ("west", "transit", "east")]
    assert tcp() > 8.5, "nine tenths of 10 Mb/s"
    assert tcp(*free) < 5.5, "the stream takes half, and TCP the rest"


@pytest.mark.parametrize("network", starter.Network)
def test_it_is_commented_and_its_suggestions_run(tidegate_command, tmp_path, network):
    code, text, _ = tidegate_command("new", network, "--duration", "2s")
    assert code == 0
    assert sum(line.lstrip().startswith("#") for line in text.splitlines()) >= 10
    (tmp_path / "FILE").write_text(text)
    suggested = re.findall(r"^#   tidegate (run FILE(?: --set \S+)+)", text, re.MULTILINE)
    assert len(suggested) >= 2
    for command in suggested:
        code, _, err = tidegate_command(*command.replace("'", "").split())
        assert code == 0, err


@pytest.mark.parametrize("queue", ["red", "adaptive-red", "blue", "sfb"])
def test_the_command_that_found_a_queue_finds_it_again(tidegate_command, queue):
    text = tidegate_command("new", "dumbbell", "--queue", queue, "--rate", "1.5Mbit")[1]
    (command,) = re.findall(r"^#   tidegate (design .*)$", text, re.MULTILINE)
    code, found, _ = tidegate_command(*command.split())
    assert code == 0
    assert found.splitlines()[-1] in text.splitlines()


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"network": "ring"}, "dumbbell, parking-lot, three-domains"),
        ({"rate": "10Mbps"}, "rate: `10Mbps`"),
        ({"rate": "0bit"}, "rate"),
        ({"rate": "11Tbit"}, "rate"),
        ({"delay": "10"}, "delay"),
        ({"rate": "9Tbit", "delay": "2min"}, "no valid scenario"),
        ({"flows": 0}, "flows"),
        ({"flows": 10_001}, "10000"),
        ({"queue": "rde"}, "queue: 'rde' is none of droptail"),
        ({"queue": "fq_codel"}, "did you mean fq-codel?"),
        ({"control": "vages"}, "did you mean vegas?"),
        ({"duration": "0s"}, "duration"),
        ({"duration": '1s"\nseed = 2'}, "duration"),
    ],
)
def test_what_makes_no_scenario_is_refused_by_name(wrong, says):
    with pytest.raises(UsageError, match=re.escape(says)):
        starter.text(**({"network": "dumbbell"} | wrong))


def test_nothing_is_overwritten(tidegate_command, tmp_path):
    file = tmp_path / "mine.toml"
    code, out, err = tidegate_command("new", "dumbbell", "-o", file)
    assert (code, out) == (0, "") and "tidegate run" in err
    written = file.read_bytes()
    code, _, err = tidegate_command("new", "parking-lot", "-o", file)
    assert code == 2 and "not overwritten" in err
    assert file.read_bytes() == written
    assert tidegate_command("validate", file)[0] == 0


def test_without_a_terminal_nothing_is_asked(tidegate_command, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    code, out, err = tidegate_command("new")
    assert (code, out) == (2, "") and "dumbbell, parking-lot, three-domains" in err


def test_on_a_terminal_it_asks_until_answers_make_sense(tmp_path, core):
    (tmp_path / "taken.toml").write_text("mine")
    # Network, rate (twice), delay, flows (twice), queue, control; the duration was given; the file (twice).
    answers = ["three-domains", "5Mbps", "5Mbit", "", "many", "2", "red", "", "taken.toml", "fresh.toml"]
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tidegate", "new", "--duration", "4s"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE
    ) as asked:
        os.close(theirs)
        os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
        said = b""
        try:
            while part := os.read(ours, 4096):
                said += part
        except OSError:  # the other end is closed
            pass
        out = asked.stdout.read()
        assert asked.wait(timeout=60) == 0, said.decode()
    os.close(ours)
    assert out.strip() == b"" and b"not overwritten" in said and b"no whole number" in said
    assert (tmp_path / "taken.toml").read_text() == "mine"
    text = (tmp_path / "fresh.toml").read_text()
    assert read(core, text).duration_s == 4
    assert shared(core, text)["rate_bps"] == 5e6 and shared(core, text)["queue"]["kind"] == "red"
