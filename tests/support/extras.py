"""The Python of packages that drive yod, and what yod's extras require.

python tests/support/extras.py NAME...      prints that of these extras, for pip
"""

from __future__ import annotations

import sys
from importlib.metadata import requires
from pathlib import Path

PYTHON = str(Path(__file__).parents[2] / ".venv-tools" / "bin" / "python")  # made by the Makefile

if __name__ == "__main__":
    for name in sys.argv[1:]:
        for requirement in requires("yod") or ():
            package, _, marker = requirement.partition(";")
            if marker.strip().replace("'", '"') == f'extra == "{name}"':
                print(package.replace(" ", ""))
