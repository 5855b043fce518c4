"""The job of a pilot on nodes that do not see the session's directory: its client is called.

``python -m yod.pilot.site.caller PILOT HOST PORT`` runs in the job's script, which has the key as
its standard input. The nodes become a partition, whose address and key are told to the client. That
holds an allocation there, as of any partition. The connection is the job's life: whoever holds the
allocation has its other end.
"""

from __future__ import annotations

import _socket
import os
import re
import subprocess
import sys

from native.errors import YodError
from native.text import shown
from yod.pilot.batch.ends import End
from yod.pilot.link.greeting import Address, Nobody, call_at, sealed
from yod.pilot.wire.messages import SEALED_BYTES_MAX, NotOpen, Open, frame

_UP = ("-P", "-m", "partition.yodctl", "up")
_OPEN = re.compile(r"^others reach them at (\S+) by the key in (.+)$", re.M)
_SALT_BYTES = 32
_PATIENCE_S = 60.0  # with a busy client: the job may have waited for days


def open_nodes(pilot_uid: str, key: bytes) -> Open | NotOpen:
    """Make the nodes of this job a partition: what the client is told of it.

    Args:
        key: of the connection.
    """
    done = subprocess.run(
        [sys.executable, *_UP], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    found = _OPEN.search(done.stdout.decode(errors="replace"))
    if done.returncode or found is None:
        words = (done.stderr.decode(errors="replace").strip().splitlines() or ["no word"])[-1]
        return NotOpen(pilot_uid, f"its nodes are not up: {shown(words)}")
    address, path = found.groups()
    try:
        with open(path, "rb") as file:
            own = file.read()
    except OSError as error:
        return NotOpen(pilot_uid, f"its nodes are not up: {path}: {error.strerror}")
    if not 1 <= len(own) <= SEALED_BYTES_MAX:
        return NotOpen(pilot_uid, f"its nodes are not up: {path}: it is no key")
    salt = os.urandom(_SALT_BYTES)
    return Open(pilot_uid, address, salt, sealed(key, salt, own))


def main() -> int:
    """Call the client, and stay until it hangs up."""
    pilot_uid, host, port = sys.argv[1:4]
    home = Address(host, int(port), bytes.fromhex(sys.stdin.readline()))
    try:
        end = call_at(home, "the job's script", _PATIENCE_S)
    except Nobody as error:
        print(error, file=sys.stderr)
        return End.NOBODY
    except YodError as error:
        print(error, file=sys.stderr)
        return End.STRANGER
    told = open_nodes(pilot_uid, home.key)
    try:
        end.settimeout(None)
        end.sendall(frame(told))
        _wait(end)
    except OSError:  # its host has gone
        pass
    return isinstance(told, NotOpen)


def _wait(end: _socket.socket) -> None:
    while end.recv(1):
        pass


if __name__ == "__main__":
    sys.exit(main())
