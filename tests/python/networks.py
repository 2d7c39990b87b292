"""Networks of the documents, built in code: what drawings and reports must get right."""

import tidegate


def fig7(duration="20s"):
    """NBP, Fig. 7: two sources, two sinks, a bottleneck, and a second one on the way to S4."""
    s = tidegate.Scenario(duration=duration, warmup="2s", title="NBP, Fig. 7")
    s.hosts("S{1..4}").routers("I{1..2}", "R{1..2}", "E{1..2}")
    for host, edge in (("S1", "I1"), ("S2", "I2"), ("E1", "S3"), ("E2", "S4")):
        s.link(host, edge, rate="10Mbit", delay="100us")
    s.link("I1", "R1", rate="10Mbit", delay="10ms").link("I2", "R1", rate="10Mbit", delay="10ms")
    s.link("R1", "R2", rate="1.5Mbit", delay="10ms", name="bottleneck")
    s.link("R2", "E1", rate="10Mbit", delay="10ms").link("R2", "E2", rate="128kbit", delay="10ms")
    s.flow("tcp", "S1", "S3", transport="tcp", application="bulk")
    s.flow("udp", "S2", "S4", transport="udp", application={"kind": "cbr", "rate": "1Mbit"})
    return s.domain("net", ["I{1..2}", "E{1..2}"], mechanism="nbp")


def chain(hops=10):
    """NBP, Fig. 9: one TCP through `hops` links, each also crossed by a UDP flow of its own."""
    s = tidegate.Scenario(duration="20s", title="NBP, Fig. 9")
    s.hosts("S", "D").routers("IS", "ED", f"R{{1..{hops + 1}}}")
    s.link("S", "IS", rate="10Mbit", delay="100us").link("IS", "R1", rate="10Mbit", delay="10ms")
    edges = ["IS", "ED"]
    for hop in range(1, hops + 1):
        s.link(f"R{hop}", f"R{hop + 1}", rate="1.5Mbit", delay="10ms")
    for hop in range(1, hops + 1):
        s.hosts(f"U{hop}", f"V{hop}").routers(f"IU{hop}", f"EV{hop}")
        s.link(f"U{hop}", f"IU{hop}", rate="10Mbit", delay="100us")
        s.link(f"IU{hop}", f"R{hop}", rate="10Mbit", delay="10ms")
        s.link(f"R{hop + 1}", f"EV{hop}", rate="128kbit", delay="10ms")
        s.link(f"EV{hop}", f"V{hop}", rate="10Mbit", delay="100us")
        edges += [f"IU{hop}", f"EV{hop}"]
    s.link(f"R{hops + 1}", "ED", rate="10Mbit", delay="10ms").link("ED", "D", rate="10Mbit", delay="100us")
    s.flow("tcp", "S", "D", transport="tcp")
    for hop in range(1, hops + 1):
        cbr = {"kind": "cbr", "rate": "1Mbit"}
        s.flow(f"udp{hop}", f"U{hop}", f"V{hop}", transport="udp", application=cbr)
    return s.domain("net", edges, mechanism="nbp")


GFC2_GROUPS = {
    "A1": (1, 6, 1), "A2": (2, 6, 1), "A3": (3, 6, 1), "B1": (1, 7, 1), "B2": (2, 7, 1), "B3": (4, 7, 1),
    "C": (5, 6, 3), "D": (1, 2, 1), "E": (2, 3, 2), "F": (3, 4, 1), "G": (6, 7, 7), "H": (4, 5, 2),
}  # fmt: skip


def gfc2():
    """The GFC-2 network of NBP, Fig. 13: 22 flows, each with its own edge routers."""
    s = tidegate.Scenario(duration="5s", warmup="4.5s", title="GFC-2").routers("R{1..7}")
    for hop, rate in enumerate((50, 100, 50, 150, 150, 50), 1):
        s.link(f"R{hop}", f"R{hop + 1}", rate=f"{rate}Mbit", delay="5ms")
    edges = []
    for group, (enters, leaves, members) in GFC2_GROUPS.items():
        for member in range(1, members + 1):
            name = group if members == 1 else f"{group}{member}"
            s.hosts(name, f"{name}-sink").routers(f"I{name}", f"E{name}")
            s.link(name, f"I{name}", rate="150Mbit", delay="5ms")
            s.link(f"I{name}", f"R{enters}", rate="150Mbit", delay="5ms")
            s.link(f"R{leaves}", f"E{name}", rate="150Mbit", delay="5ms")
            s.link(f"E{name}", f"{name}-sink", rate="150Mbit", delay="5ms")
            cbr = {"kind": "cbr", "rate": "100Mbit"}
            s.flow(name, name, f"{name}-sink", transport="udp", application=cbr)
            edges += [f"I{name}", f"E{name}"]
    return s.domain("net", edges, mechanism="nbp").record("flows.*.throughput_bps", every="50ms")
