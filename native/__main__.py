"""``python -m native --cflags --libs``: how to compile a C program against this installation.

The libraries of an installed package lie beside its modules, so the program is told
where they are (an rpath). ``make -C native install`` and pkg-config are for the rest.
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
    """What to print.

    Raises:
        SystemExit: no such question.
    """
    if not arguments or not ANSWERS.keys() >= set(arguments):
        raise SystemExit(f"usage: python -m native {' '.join(f'[{name}]' for name in ANSWERS)}")
    return " ".join(ANSWERS[name] for name in arguments)


if __name__ == "__main__":
    print(main(sys.argv[1:]))
