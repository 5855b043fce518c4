"""Runs a master whose class is in a file: ``python -m yod.pilot.raptor.program FILE CLASS``."""

from __future__ import annotations

import sys

from native.errors import UsageError, YodError
from yod.pilot.function.rank import load
from yod.pilot.raptor.master import Master


def main() -> int:
    """Run a master until it is stopped."""
    path, name = sys.argv[1:3]
    try:
        made = load(path, name)
        if not (isinstance(made, type) and issubclass(made, Master)):
            raise UsageError(f"raptor_class {name}: it is no Master")
        master = made()
    except YodError as error:
        print(f"a master: {error}", file=sys.stderr)
        return 1
    master.start()
    master.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
