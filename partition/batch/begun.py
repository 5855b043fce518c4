"""What yod-script says of the script that it has started. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from partition.broker.partition import Entrance


class Begun(Struct, frozen=True):
    """A script that has been started, as a child of this process.

    Attributes:
        unix_pid: of the script; 0: it could not be executed.
        error: why not, an errno; 0: it runs.
        listener: a descriptor, at which yods reach us.
        output: a descriptor of the script's output file.
        key_file: path of the key with which they do.
        go: a descriptor, at which a script that is held waits for a byte; 0: it runs.
    """

    unix_pid: int
    error: int
    listener: int
    output: int
    key_file: str
    go: int = 0

    @property
    def is_held(self) -> bool:
        """The script waits to be told to begin."""
        return self.go > 0

    def entrance(self, key: bytes) -> Entrance:
        """What yods of the script have been told to find."""
        return Entrance(self.listener, key, self.key_file)


class Failed(Struct, frozen=True):
    """The script was not begun: its directory, output, listener or key was refused."""

    text: str


def begun_of(words: Sequence[str]) -> Begun | Failed:
    """Read the words; `native/script/script.c` writes them.

    Raises:
        ValueError: they are others.
    """
    match words:
        case ["failed", text]:
            return Failed(text)
        case ["began", unix_pid, error, listener, output, key_file, go]:
            has_failed = int(error) != 0
            pid = 0 if has_failed else int(unix_pid)
            return Begun(pid, int(error), int(listener), int(output), key_file, int(go))
    raise ValueError("not what yod-script says")
