"""Tidegate with mechanisms of its own: `import own_mechanism` first, then use `tidegate` as ever."""

import tidegate
from own_mechanism import _core

tidegate.use_core(_core)


def main() -> None:
    """The command `own-tidegate`: all of `tidegate`, with these mechanisms."""
    from tidegate.cli import main

    main()
