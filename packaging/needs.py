"""What the package needs, with these of its extras: lines for `pip install -r`.

python packaging/needs.py plot data > needs.txt
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
extras = project["optional-dependencies"]
print(*project["dependencies"], *(one for name in sys.argv[1:] for one in extras[name]), sep="\n")
