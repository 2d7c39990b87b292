"""Differential testing against ns-2.35: random networks through both simulators.

`python -m differential` from the folder above, or `make differential`. What each module holds:

    scenario   what a network is, in words that both simulators can be told
    generate   random networks
    clocks     the phase of each sender's clock, which both sides must share
    ours       Tidegate: the scenario as TOML, its counters, its packets
    theirs     ns-2: the scenario as Tcl, its counters, its packets
    judge      when a difference is one: margins, Welch's test, false discoveries
    packets    the first packet that differs
    reduce     smaller networks under which a difference stays
    known      differences that are understood
    report     tables and JSON
"""
