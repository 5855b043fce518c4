"""Inputs to begin with: the examples of FRAMES.md, and short lives of a connection.

The steps are those of `fuzz_frames.c` and `fuzz_shake.c`. What fuzzing itself has found
lies in `corpus/`.
"""

from __future__ import annotations

import re
import sys
from itertools import chain
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "native" / "wire" / "FRAMES.md").read_text()
MAGIC = b"YODT"


def examples() -> list[bytes]:
    """The hex blocks of FRAMES.md, in order."""
    blocks = re.findall(r"(?m)(?:^ {4}[0-9a-f]{2}(?: [0-9a-f]{2})*\n)+", TEXT)
    return [bytes.fromhex(block) for block in blocks]


def for_wire() -> dict[str, bytes]:
    return {f"example-{i}": example for i, example in enumerate(examples())}


# Steps of fuzz_frames.c, by their numbers there.
ALLOWED, ANY, ACK, HEADER, BYTES, SMALL, TURN, PASS, READ, PUT = range(10)
MESSAGE, END, OTHER, AGAIN, CHUNK, PART, _, OPERATION, ASK, REPLY = range(10, 20)
TO_ENTRY_2 = 2 + 6  # where: entry 2, a full ack, the control lane
WHOLE, RETRY, BEGIN = 0, 16, 64


def for_frames() -> dict[str, bytes]:
    headers = [e for e in examples() if not e.startswith(MAGIC)]
    lives = {f"example-{i}": bytes([HEADER]) + e[:64] for i, e in enumerate(headers)}
    whole = [ALLOWED, WHOLE, TO_ENTRY_2, 8, 0, TURN]
    fragments = [[ALLOWED, BEGIN, TO_ENTRY_2, 100, 0, 200], *[[ALLOWED, 0, 0, 100]] * 3]
    drive = [TURN, READ, 255]
    lives |= {
        "whole": bytes(whole * 3 + drive),
        "fragments": bytes([*chain(*fragments), *drive]),
        "large": bytes([ALLOWED, BEGIN, TO_ENTRY_2, 248, 0, 250, ALLOWED, 0, 0, 248, *drive]),
        "part": bytes([PART, BEGIN, TO_ENTRY_2, 200, 0, 50, 9, AGAIN, 1]),
        "retry": bytes([ALLOWED, RETRY, 3 + 6, 8, 0] * 3 + [END, 1] + drive),
        "object": bytes(chain(*([CHUNK, i, 0] for i in range(5)), [OTHER, *drive])),
        "acked": bytes([PUT, 1 + 8, 100, TURN, READ, 255, ACK, 0, 0, TURN]),
        "refused": bytes([MESSAGE, 100, TURN, READ, 255, ACK, 0, 3, PASS, 3, *drive]),
        "leave": bytes([PUT, 1, 100, END, 0, TURN, READ, 255, ACK, 0, 0, *drive]),
        "restart": bytes([*whole, AGAIN, 2, *whole, AGAIN, 4, *whole, AGAIN, 6, *drive]),
        "silence": bytes([*whole, PASS, 7, TURN, PASS, 7, TURN, READ, 64, SMALL, 1, TURN]),
        "got": bytes([ASK, 0, 0, 100, TURN, READ, 255, REPLY, 0, 0, 60, REPLY, 0, 0, 40, TURN]),
        "fetched": bytes([ASK, 2 + 4 * 2, 4, 16, TURN, READ, 255, REPLY, 0, 0, 16, *drive]),
        "get": bytes([OPERATION, 0 + 3 * 2, 0, 0, 100, 0, TURN, *drive]),
        "atomic": bytes([OPERATION, 1 + 3 * 2, 2, 4, 16, 0, TURN, *drive]),
        "fetch": bytes([OPERATION, 2 + 3 * 2, 2, 4, 16, 8, TURN, *drive]),
        "triggered": bytes([END, 7 + 9, END, 8 + 9, TURN, *whole, *drive]),
    }
    return lives


# Steps of fuzz_shake.c.
S_DIAL, S_M1, S_READ, S_M3, S_ACCEPT, S_M2, S_M4, S_BYTES, S_PUT = range(9)
S_PASS, S_LINE, S_HANG_UP, S_SHUT, S_TURN = range(9, 14)
KEYS = range(4)  # which key the end holds
AS_IT_IS = (0, 0)  # nothing is changed; the whole message


def for_shake() -> dict[str, bytes]:
    lives: dict[str, bytes] = {}
    for i, example in enumerate(e for e in examples() if e.startswith(MAGIC)):
        lives[f"example-{i}"] = bytes([0, S_DIAL, S_BYTES, len(example)]) + example
    for key in KEYS:
        for kind in range(4):
            listened = [S_DIAL, S_M1, kind, *AS_IT_IS, S_READ, S_M3, *AS_IT_IS, S_READ]
            lives[f"listen-{key}-{kind}"] = bytes([key, *listened])
        dialled = [S_PUT, 1, S_TURN, S_ACCEPT, S_READ, S_M2, *AS_IT_IS, S_READ, S_M4, 0, *AS_IT_IS]
        lives[f"dialled-{key}"] = bytes([key, *dialled, S_TURN])
        lives[f"refused-{key}"] = bytes([key, S_PUT, 1, S_ACCEPT, S_READ, S_M4, 3, *AS_IT_IS])
    credential = MAGIC + bytes([5, 0, 4, 0]) + b"abcd"
    lives["credential"] = bytes([0, S_DIAL, S_BYTES, len(credential)]) + credential
    crowd = chain(*([S_LINE, i, S_DIAL, S_M1, 0, *AS_IT_IS] for i in range(4)))
    lives["crowd"] = bytes([0, *crowd, S_PASS, 3, S_TURN, S_READ])
    return lives


# Steps of fuzz_near.c.
N_PUT, N_TURN, N_OFFER, N_SAY, N_LIE, N_FRAME, N_BYTES, N_WAKE, N_READ = range(9)
SWITCHED = 4


def for_near() -> dict[str, bytes]:
    shared = [N_OFFER, 0, 0, N_TURN, N_SAY, SWITCHED, N_TURN]
    speak = [N_FRAME, 8, 17, N_WAKE, N_TURN, N_READ, 4, N_PUT, 100, N_TURN]
    lives = {f"offer-{how}": bytes([N_OFFER, how, 0, N_TURN, *speak]) for how in range(8)}
    lives |= {
        "shared": bytes(shared + speak * 3),
        "lie": bytes([*shared, *speak, N_LIE, 0, 200, N_WAKE, N_TURN, *speak]),
        "full": bytes([*shared, *[N_PUT, 255] * 6, N_TURN, N_READ, 255, N_WAKE, N_TURN]),
    }
    return lives


SEEDS = {"wire": for_wire, "frames": for_frames, "shake": for_shake, "near": for_near}


def write(target: str, into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for name, content in SEEDS[target]().items():
        (into / f"seed-{name}").write_bytes(content)


if __name__ == "__main__":
    for target in SEEDS:
        write(target, Path(sys.argv[1]) / target)
