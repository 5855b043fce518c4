"""``python -m native --cflags --libs``: how to compile a C program against this installation.

The libraries of an installed package are beside its modules, so the flags include an rpath.
For programs that are to find them elsewhere there are ``make -C native install`` and
pkg-config.
"""

from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ANSWERS = {
    "--cflags": f"-I{HERE}/transport/include -I{HERE}/pmi",
    "--libs": f"-L{HERE} -Wl,-rpath,{HERE} -lportals -lpmi",
}


def main(arguments: list[str]) -> str:
    """The flags that were asked for.

    Raises:
        SystemExit: an unknown word.
    """
    if not arguments or not ANSWERS.keys() >= set(arguments):
        raise SystemExit(f"usage: python -m native {' '.join(f'[{name}]' for name in ANSWERS)}")
    return " ".join(ANSWERS[name] for name in arguments)


if __name__ == "__main__":
    print(main(sys.argv[1:]))
