"""The embedded partition, and the commands that tests run in any.

Daemons are in :mod:`tests.support.daemons`, fixtures in :mod:`tests.support.partitions`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.processes import below_this_one
from tests.support.wait import LIMIT_S

if TYPE_CHECKING:
    from tests.support.warm import LaunchServer

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

Word = str | bytes | os.PathLike[str]


class Done(NamedTuple):
    """What became of a command."""

    status: int
    out: str
    err: str


class Partition:
    """The embedded partition, and what the others have in common with it.

    Attributes:
        kind: ``embedded``, ``warm``, ``local`` or ``hosts``.
        node_names: of node 0, 1, ...
        launch_server: yod runs its launches there; ``None``: in its own process.
    """

    kind = "embedded"

    def __init__(self) -> None:
        self.launch_server: LaunchServer | None = None
        self.node_names = [os.uname().nodename.partition(".")[0]]

    def yod(
        self,
        *words: Word,
        env: Mapping[str, str | None] | None = None,
        input: bytes = b"",
        timeout: float = LIMIT_S,
        **options: Any,
    ) -> Done:
        """Run yod to its end.

        Args:
            env: added to its environment; ``None`` as a value takes a name out.
            input: its standard input.
            options: as for :class:`subprocess.Popen`.
        """
        return finish(self.start_yod(*words, env=env, **options), input, timeout)

    def start_yod(
        self, *words: Word, env: Mapping[str, str | None] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start yod; its three streams are unbuffered pipes unless told."""
        return self._start([BIN / "yod", *words], env, **options)

    def yod_under_shell(
        self, *words: Word, before: str = "true", after: str = "", timeout: float = LIMIT_S
    ) -> Done:
        """Run yod to its end as a shell starts it, without input.

        Args:
            before: what the shell does first: set limits.
            after: redirections.
        """
        command = ["sh", "-c", f'{before}; exec "$@" {after}', "sh", BIN / "yod", *words]
        return finish(self.start_command(*command, stdin=subprocess.DEVNULL), timeout=timeout)

    def start_command(
        self, *command: Word, env: Mapping[str, str | None] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start any command as :meth:`start_yod` starts yod: a shell, a wrapper."""
        return self._start(command, env, **options)

    def start_yodjob(
        self, *words: Word, env: Mapping[str, str | None] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start yodjob, which finds the jobs of yods that are started here."""
        server = self.launch_server
        directories = server.directories if server is not None else {}
        return self._start([BIN / "yodjob", *words], {**directories, **(env or {})}, **options)

    def yodjob(self, *words: Word, **options: Any) -> Done:
        """Run yodjob to its end, without input."""
        return finish(self.start_yodjob(*words, **options))

    def pingd(self) -> str:
        """What ``pingd -parse`` says."""
        return ""

    def environment(self, more: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """A user's environment for yod and pingd."""
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        # Python programs write what they print in one piece.
        both = {**os.environ, "PYTHONUNBUFFERED": None, "PATH": path}
        if self.launch_server is not None:
            both["YOD_LAUNCH_SERVER"] = str(self.launch_server.directory)
            both["YOD_COLD"] = "never"  # a launch that would be cold fails, and says why
            both["YOD_KEPT_PORT_S"] = "0.2"  # the end of a test waits until its ports are closed
        both |= more or {}
        return {name: value for name, value in both.items() if value is not None}

    def _start(
        self, command: Sequence[Word], env: Mapping[str, str | None] | None, **options: Any
    ) -> subprocess.Popen[bytes]:
        for stream in ("stdin", "stdout", "stderr"):
            options.setdefault(stream, subprocess.PIPE)
        options.setdefault("cwd", ROOT)
        return self._popen(command, env=self.environment(env), bufsize=0, **options)

    def _popen(self, command: Sequence[Word], **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, **options)


def finish(process: subprocess.Popen[bytes], input: bytes = b"", timeout: float = LIMIT_S) -> Done:
    """Let a command run to its end; a late one is killed and an error."""
    with process:
        try:
            out, err = process.communicate(input if process.stdin else None, timeout=timeout)
        except subprocess.TimeoutExpired as error:
            still_there = below_this_one()
            process.kill()
            raise AssertionError(f"{error}; still there:\n{still_there}") from None
        except BaseException:
            process.kill()
            raise
    texts = [(data or b"").decode(errors="surrogateescape") for data in (out, err)]
    return Done(process.returncode, *texts)


def down_of_a_job(said: str) -> bool:
    """``yodctl down`` has ended both daemons of a batch job; bebopd's end may end the other."""
    return (
        re.search(r"^ended (2 daemons of 2|1 daemons of 2 \(1 were gone\))$", said, re.M)
        is not None
    )


@contextmanager
def drained(partition: Partition, node: int) -> Iterator[None]:
    """A node gets no job meanwhile."""

    def order(*words: str) -> None:
        done = finish(partition.start_command(BIN / "yodctl", *words))
        assert done.status == 0, done

    order("drain", str(node), "-reason", "test")
    try:
        yield
    finally:
        order("resume", str(node))
