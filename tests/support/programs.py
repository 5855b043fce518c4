"""Programs that tests launch: compiled once a session, or written where needed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.wait import wait_until

# A rank and a helper in its group say what they hear. The first signal ends the rank, which tells
# the helper to end by SIGRTMAX: what was sent to both is heard before that.
HEARS = """
import os, signal
heard = {1, 2, 3, 10, 12, 15, signal.SIGRTMAX}
signal.pthread_sigmask(signal.SIG_BLOCK, heard)
helper = os.fork()
if not helper:
    while (number := signal.sigwait(heard)) != signal.SIGRTMAX:
        os.write(1, f"helper {number}\\n".encode())
    os._exit(0)
os.write(1, b"ready\\n")
os.write(1, f"rank {signal.sigwait(heard)}\\n".encode())
os.kill(helper, signal.SIGRTMAX)
os.waitpid(helper, 0)
"""

HELLO = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main (int argc, char **argv)
{
    if (argc > 1)  /* a file that says that main has run */
        fclose (fopen (argv[1], "a"));
    printf ("rank %s\n", getenv ("YOD_RANK"));
    return 0;
}
"""

LIBRARY = "int from_library (void) { return 3; }\n"
NEEDY = "int from_library (void); int main (void) { return from_library (); }\n"


class Programs:
    """Compiled programs of one session.

    Attributes:
        dynamic: prints its rank; makes the file that its first argument names.
        static: the same, without a dynamic loader.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.dynamic = self.compile("dynamic", HELLO)
        self.static = self.compile("static", HELLO, "-static")

    def compile(self, name: str, source: str, *options: str) -> Path:
        """Compile C source to a program or, with ``-shared``, to a library."""
        path = self._directory / name
        command = ["cc", "-O1", "-x", "c", "-", "-x", "none", "-o", str(path), *options]
        subprocess.run(command, input=source.encode(), check=True)
        return path

    def needy(self, directory: Path) -> tuple[Path, Path]:
        """A program, and the library that it is linked to by path."""
        library = self.compile(str(directory / "libneeded.so"), LIBRARY, "-shared", "-fPIC")
        return self.compile(str(directory / "needy"), NEEDY, str(library)), library


class Stopped:
    """A program that does not reach its entry: its library's path is a named pipe.

    Attributes:
        program: for a line of a load file.
    """

    def __init__(self, programs: Programs, directory: Path) -> None:
        self.program, self._library = programs.needy(directory)
        self._content = self._library.read_bytes()
        self._library.unlink()
        os.mkfifo(self._library)

    def wait(self) -> None:
        """Return when the loader waits at the pipe."""
        self._fd = int(wait_until(self._open, what="the loader opening the library"))

    def _open(self) -> int:
        try:  # fails with ENXIO while nobody has it open for reading
            return os.open(self._library, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return 0

    def go_on(self) -> None:
        """The loader finds an empty file, and gives up."""
        os.close(self._fd)


def script(path: Path, text: str, mode: int = 0o755) -> Path:
    """Write a program of a test."""
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """Compiled programs."""
    return Programs(tmp_path_factory.mktemp("programs"))
