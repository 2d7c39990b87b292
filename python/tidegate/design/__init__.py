"""Parameters for a queue from what its operator knows: rate of the link, round-trip time, number of flows.

    import tidegate

    print(tidegate.design.red("10Mbit", rtt="60ms", flows=32).text())

One module per mechanism: a function of the mechanism's name returns a `Design`, and `command` is its form on
the command line, registered in `tidegate.commands.design`.
"""

from tidegate.design.blue import blue
from tidegate.design.ered import ered
from tidegate.design.red import red
from tidegate.design.result import Design, Step
from tidegate.design.sfb import sfb

__all__ = ["Design", "Step", "blue", "ered", "red", "sfb"]
