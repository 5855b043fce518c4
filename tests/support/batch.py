"""Batch jobs for tests: handing scripts in, hearing of them by pipes with names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.partition import BIN, Done, Partition, Word, finish
from tests.support.processes import command_line, descendants
from tests.support.wait import read_until


class Pipe:
    """A pipe with a name, of which this process holds both ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR)

    def until(self, text: str) -> str:
        """What has been written to it, up to this."""
        return read_until(self._fd, text.encode()).decode()

    def say(self, text: str = "") -> None:
        """Write a line."""
        os.write(self._fd, f"{text}\n".encode())

    def close(self) -> None:
        os.close(self._fd)


class Jobs:
    """The batch jobs of a test.

    Attributes:
        directory: where they are handed in, and leave their output.
        said: a pipe that scripts write to, as ``said``.
        go: a pipe that scripts read from, as ``go``.
    """

    def __init__(self, partition: Partition, directory: Path) -> None:
        self.partition = partition
        self.directory = directory
        self.said = Pipe(directory / "said")
        self.go = Pipe(directory / "go")

    def close(self) -> None:
        self.said.close()
        self.go.close()

    def yodjob(self, *words: Word, input: bytes = b"", **options: Any) -> Done:
        """Run yodjob to its end."""
        options.setdefault("cwd", self.directory)
        process = self.partition.start_command(BIN / "yodjob", *words, **options)
        return finish(process, input)

    def script(self, text: str, name: str = "job.sh") -> Path:
        """A script of the shell; ``text`` may begin with #YOD lines."""
        path = self.directory / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        return path

    def submit(self, *words: Word, text: str = "", **options: Any) -> str:
        """Hand a job in; its id.

        Args:
            text: of its script; empty: the words have a script or ``--wrap``.
        """
        more = (self.script(text),) if text else ()
        done = self.yodjob("submit", "-quiet", *words, *more, **options)
        assert (done.status, done.err) == (0, ""), done
        return done.out.strip()

    def wait(self, *job_ids: str) -> int:
        """Their exit status, when they have ended."""
        done = self.yodjob("wait", *job_ids)
        assert done.err == "", done
        return done.status

    def output(self, job_id: str) -> str:
        return (self.directory / f"yod-{job_id}.out").read_text()

    def says(self, job_id: str, text: str) -> bool:
        """Whether its output has this by now."""
        try:
            return text in self.output(job_id)
        except FileNotFoundError:  # it has not begun
            return False

    def row(self, job_id: str) -> dict[str, Any]:
        """What is known of a job."""
        done = self.yodjob("show", "--json", job_id)
        assert (done.status, done.err) == (0, ""), done
        (row,) = json.loads(done.out)["jobs"]
        return row

    def state(self, job_id: str) -> str:
        return self.row(job_id)["state"]


def brokers() -> list[int]:
    """The brokers below this process."""
    ours = descendants(os.getpid())
    return [pid for pid in ours if " broker " in f"{command_line(pid)} "]


@pytest.fixture
def jobs(start_local: Any, tmp_path: Path) -> Iterator[Jobs]:
    """Two nodes of two slots."""
    jobs = Jobs(start_local(2, slots=2), tmp_path)
    yield jobs
    jobs.close()
