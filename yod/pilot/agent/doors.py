"""Addresses of sockets on nodes that do not see the directory where they lie.

A program on such a node finds the address and the key in a file of the same path there: it goes
to the node as the standard input of a step, through yod's own connections, once.
"""

from __future__ import annotations

from collections.abc import Callable

from yod.pilot.link.greeting import SUFFIX

Then = Callable[[str], None]
# Takes words, their standard input, the nodes, and what is told why that failed, or nothing.
Run = Callable[[list[str], bytes, list[int], Then], None]

_PUT = 'umask 077; mkdir -p "${1%/*}" && cat >"$1.new" && exec mv "$1.new" "$1"'


class _Door:
    """One address."""

    def __init__(self) -> None:
        self.there: set[int] = set()
        self.coming: set[int] = set()
        self.waiting: list[tuple[set[int], Then]] = []


class Doors:
    """All addresses that one agent carries."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._doors: dict[tuple[str, bytes], _Door] = {}

    def bring(self, paths: list[str], nodes: list[int], then: Then) -> None:
        """Have the addresses of sockets on nodes; ``then`` takes why not, or nothing."""
        left = list(paths)

        def one(failure: str) -> None:
            if failure or not left:
                then(failure)
            else:
                self._bring(left.pop(0), set(nodes), one)

        one("")

    def _bring(self, path: str, nodes: set[int], then: Then) -> None:
        file = path + SUFFIX
        try:
            with open(file, "rb") as stream:
                content = stream.read()
        except OSError as error:
            then(f"{file}: {error.strerror}")
            return
        door = self._doors.setdefault((file, content), _Door())
        wanted = nodes - door.there
        if not wanted:
            then("")
            return
        door.waiting.append((wanted, then))
        new = wanted - door.coming
        if not new:
            return
        door.coming |= new

        def came(failure: str) -> None:
            door.coming -= new
            if not failure:
                door.there |= new
            waiting, door.waiting = door.waiting, []
            for wants, tell in waiting:
                if failure and wants & new:
                    tell(failure)
                elif wants <= door.there:
                    tell("")
                else:
                    door.waiting.append((wants, tell))

        self._run(["/bin/sh", "-c", _PUT, "/bin/sh", file], content, sorted(new), came)
